"""Invariants of the simulation of hubs and receipts, and the arithmetic of their costs."""

from collections import Counter

import pytest

from benchmarks.aws import prices
from benchmarks.simulation.__main__ import simulate
from benchmarks.simulation.dynamodb import READ_LIMIT, WRITE_LIMIT, Partition
from benchmarks.simulation.hub_costs import (
    LONG_POLL_UNITS,
    LONGEST_POLL_S,
    TASK_GB,
    TASK_VCPU,
    balancer_usd_per_hour,
    follower_cost,
    format_followers,
    hub_usd_per_hour,
)
from benchmarks.simulation.hub_outcomes import format_hubs, simulate_hubs, summarize_hubs
from benchmarks.simulation.hubs import HubLoad, event_texts, run_hubs
from benchmarks.simulation.views import PROJECTOR_LAG_S
from benchmarks.simulation.writers import SERVER, Simulation, run_direct_writers
from chalicelib.adapters.dynamodb.capacity import WRITE_UNIT_BYTES, write_units
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import verify_contiguous
from chalicelib.domain.views.record import PROJECTOR, Checkpoint
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.log.group_queue import MAX_GROUP_SIZE
from infra.deploy.build.package import load_template
from tests.builders import a_commit


def run(load: HubLoad, seconds: float = 0.5) -> Simulation:
    simulation = Simulation(1, seconds, seed=1)
    run_hubs(simulation, load)
    return simulation


@pytest.mark.parametrize(
    "load",
    [
        HubLoad(1, 1),
        HubLoad(1, 300),
        HubLoad(2, 100),
        HubLoad(4, 40),
        HubLoad(1, 40, keyed=True),
        HubLoad(2, 40, keyed=True),
        HubLoad(1, 300, noise_bytes=2_000),
    ],
    ids=str,
)
def test_hubs_respect_limits_and_lose_nothing(load: HubLoad) -> None:
    simulation = run(load)
    statistics, partition = simulation.statistics, simulation.log.partition(SERVER)
    commits = list(verify_contiguous(Head(SERVER), partition.commits))
    stored = Counter(commit.request_id for commit in commits)
    assert set(stored.values()) == {1}
    assert len(statistics.acknowledged) == len(commits) == statistics.requests_sent - statistics.refused
    assert partition.write_units <= WRITE_LIMIT * (simulation.time.now_s + 1)
    for one in (partition, *simulation.views.partitions.values()):
        assert one.read_units <= READ_LIMIT * (simulation.time.now_s + 1)
    writers = {request_id.partition("-")[0] for request_id in stored}
    assert len(writers) == load.hubs


def test_hub_writes_waiting_requests_as_one_item() -> None:
    partition = run(HubLoad(1, 600)).log.partition(SERVER)
    sizes = Counter(partition.item_of)
    assert max(sizes.values()) <= MAX_GROUP_SIZE
    assert len(partition.commits) > 20 * len(partition.item_bytes)
    assert partition.rejected_puts == 0
    assert partition.write_units == sum(map(write_units, partition.item_bytes))


def test_two_hubs_conflict_and_pay_for_rejected_puts() -> None:
    partition = run(HubLoad(2, 100)).log.partition(SERVER)
    assert partition.rejected_puts > 0
    assert partition.write_units >= sum(map(write_units, partition.item_bytes)) + partition.rejected_puts


def test_simulate_hubs_same_seed_is_reproducible() -> None:
    first, again, other = (simulate_hubs(HubLoad(2, 20), 0.3, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_hub_latency_is_a_put_for_one_publisher() -> None:
    outcome = summarize_hubs(run(HubLoad(1, 1), 2.0), HubLoad(1, 1))
    assert 5 < outcome.p50_ms < 10
    assert outcome.requests_per_s == pytest.approx(1000 / outcome.p50_ms, rel=0.2)


@pytest.mark.parametrize("keyed", [False, True])
def test_hub_meets_goal_for_job_events(keyed: bool) -> None:
    outcome = simulate_hubs(HubLoad(1, 256, keyed), 3.0)
    assert outcome.requests_per_s >= 10_000
    assert outcome.dollars_per_million <= 0.10
    assert (outcome.refused, outcome.throttled) == (0.0, 0)
    # A keyed run is above 10,000 requests a second, and its items are rounded up to units.
    assert outcome.bytes_per_event * 10_000 / WRITE_UNIT_BYTES < WRITE_LIMIT


def test_random_text_makes_items_larger_and_is_throttled() -> None:
    small, large = (simulate_hubs(HubLoad(1, 256, noise_bytes=noise), 1.5) for noise in (0, 1_024))
    assert large.bytes_per_event > small.bytes_per_event + 700
    assert large.throttled > 0 == small.throttled
    assert large.requests_per_s < small.requests_per_s / 3


def test_event_texts_with_noise_differ() -> None:
    texts = event_texts(64, Simulation(1, 1.0, seed=1).rng, number=500)
    noise = [text.partition('"noise":"')[2][:64] for text in texts]
    assert len(set(noise)) == 500


def test_new_keys_of_one_hub_are_not_looked_up() -> None:
    """The process reads the checkpoint and the end of the log once."""
    simulation = run(HubLoad(1, 20, keyed=True))
    assert simulation.views.read_units == 1
    assert simulation.log.partition(SERVER).read_units <= 3
    assert simulation.log.partition(SERVER).rejected_puts == 0


def test_direct_writers_with_keys_use_no_second_write() -> None:
    simulation = Simulation(1, 1.0, seed=1)
    run_direct_writers(simulation, 3, keyed=True)
    partition = simulation.log.partition(SERVER)
    keys = [commit.idempotency_key for commit in partition.commits]
    assert len(set(keys)) == len(keys) == simulation.statistics.requests_sent
    assert partition.write_units == len(keys) + partition.rejected_puts
    assert simulation.views.read_units == 3


def test_keys_cost_a_direct_writer_almost_nothing() -> None:
    plain, keyed = (simulate(1, 1, queued=False, seconds=5.0, keyed=keyed) for keyed in (False, True))
    assert keyed.requests_per_s == pytest.approx(plain.requests_per_s, rel=0.05)
    assert keyed.dollars_per_million == pytest.approx(plain.dollars_per_million, rel=0.02)


def test_simulated_checkpoint_lags_behind_the_log() -> None:
    simulation = Simulation(1, 1.0, seed=1)
    appender, loaded = simulation.appender(), list[Checkpoint]()

    def append_and_load() -> None:
        for number in range(50):
            appender.append(Append(SERVER, simulation.texts(), str(number)))
            simulation.time.sleep(0.1)
        loaded.append(load_checkpoint(PROJECTOR, SERVER, simulation.views))

    simulation.time.run([append_and_load])
    commits = simulation.log.partition(SERVER).commits
    last = commits[loaded[0].head.session - 1]
    assert loaded[0].head == last.head
    assert commits[-1].at_us - last.at_us == pytest.approx(PROJECTOR_LAG_S * 1e6, rel=0.1)


def test_partition_counts_whole_items_once() -> None:
    partition = Partition()
    commits = [a_commit(session=session) for session in (1, 2, 3)]
    partition.add(commits[:2], 5_000)
    partition.add(commits[2:], 300)
    assert partition.size_of(commits[:1]) == partition.size_of(commits[:2]) == 5_000
    assert partition.size_of(commits[1:]) == 5_300


def test_follower_cost_of_100_000_meets_goal() -> None:
    cost = follower_cost(100_000)
    assert cost.tasks == 6
    assert cost.total() <= 600
    assert cost.balancer == pytest.approx(730 * (0.0225 + 100_000 / 3_000 * 0.008))
    assert cost.polls == pytest.approx(6 * 2 * 730 * 3600 * 0.125e-6)
    assert cost.requests == pytest.approx(100_000 / 600 * 2 * 730 * 3600 * 0.125e-6)
    assert 100_000 / LONGEST_POLL_S * LONG_POLL_UNITS < READ_LIMIT


def test_load_balancer_charges_the_larger_dimension() -> None:
    idle, connected, busy = (balancer_usd_per_hour(*load) for load in ((0, 0), (6_000, 1_000), (6_000, 5e6)))
    assert idle == prices.BALANCER_HOURS_USD
    assert connected - idle == pytest.approx(2 * prices.CAPACITY_HOURS_USD)
    assert busy - idle == pytest.approx(18 * prices.CAPACITY_HOURS_USD)


def test_hub_costs_two_tasks_and_load_balancer_when_idle() -> None:
    assert hub_usd_per_hour(2, 0, 0) * 730 == pytest.approx(2 * (28.835 + 3.65) + 16.425 + 2 * 3.65, abs=0.01)


def test_cost_assumptions_match_template() -> None:
    template = load_template()
    parameters = template["Parameters"]
    (container,) = template["Resources"]["HubTask"]["Properties"]["ContainerDefinitions"]
    assert {"Name": "LONGEST_POLL", "Value": f"{LONGEST_POLL_S:.0f}"} in container["Environment"]
    assert float(parameters["HubCpu"]["Default"]) == TASK_VCPU * 1024
    assert float(parameters["HubMemory"]["Default"]) == TASK_GB * 1024


def test_formatted_tables_have_a_row_per_result() -> None:
    hubs = format_hubs("Job events", [simulate_hubs(HubLoad(1, publishers), 0.2) for publishers in (1, 2)])
    followers = format_followers([follower_cost(1_000), follower_cost(100_000)])
    assert hubs.splitlines()[0] == "Job events, one in each request, at hubs:"
    assert [line.split()[2] for line in hubs.splitlines()[4:]] == ["1", "2"]
    assert [line.split()[0] for line in followers.splitlines()[4:]] == ["1,000", "100,000"]
