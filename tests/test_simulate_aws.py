"""The simulation of writers at one log: what holds whatever the numbers are."""

from collections import Counter

import pytest

from benchmarks.simulate_aws import outcome, printed, simulated
from benchmarks.simulated_dynamodb import READ_LIMIT, WRITE_LIMIT, Allowance
from benchmarks.simulated_writers import RECEIVED, SERVER, World, directly, through_the_queue
from benchmarks.virtual_time import VirtualTime
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import chained
from chalicelib.services.log.appender import DEADLINE_S


def test_time_passes_only_while_all_sleep_and_wakes_them_in_order() -> None:
    virtual = VirtualTime()
    seen: list[tuple[str, float]] = []

    def sleeper(name: str, *pauses: float) -> None:
        for pause_s in pauses:
            virtual.sleep(pause_s)
            seen.append((name, virtual.monotonic()))

    virtual.run([lambda: sleeper("a", 3.0, 3.0), lambda: sleeper("b", 1.0, 4.0, 3600.0)])
    assert seen == [("b", 1.0), ("a", 3.0), ("b", 5.0), ("a", 6.0), ("b", 3605.0)]


def test_who_runs_the_actors_is_told_what_one_of_them_raised() -> None:
    def fails() -> None:
        raise KeyError("x")

    virtual = VirtualTime()
    with pytest.raises(KeyError, match="x"):
        virtual.run([fails, lambda: virtual.sleep(1.0)])


def test_an_allowance_gives_so_much_a_second_and_saves_up_no_more_than_that() -> None:
    allowance = Allowance(10.0)
    assert [allowance.take(10, 0.0), allowance.take(1, 0.05), allowance.take(1, 0.1)] == [True, False, True]
    assert [allowance.take(10, 60.0), allowance.take(1, 60.0)] == [True, False]


def test_one_writer_meets_nobody() -> None:
    alone = simulated(1, 1, queued=False, seconds=2.0)
    assert (alone.conflicts_per_commit, alone.refused, alone.throttled) == (0.0, 0.0, 0)
    assert alone.commits_per_s > 0


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    first, again, other = (simulated(5, 1, queued=False, seconds=1.0, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("writers", "batch", "seconds", "throttled"), [(3, 20, 2.0, False), (40, 1, 2.0, False), (300, 20, 0.5, True)]
)
def test_every_request_is_acknowledged_or_refused_once_within_the_limits_and_the_log_has_it_once(
    writers: int, batch: int, seconds: float, throttled: bool
) -> None:
    world = World(batch, seconds, seed=1)
    directly(world, writers)
    tally, partition = world.tally, world.log.partition(SERVER)
    stored = Counter(commit.request_id for commit in chained(Head(SERVER), partition.commits))
    assert tally.asked == len(tally.acknowledged) + tally.refused
    assert set(stored.values()) == {1}
    assert len(tally.acknowledged) <= len(stored) <= tally.asked
    assert all(latency_s < DEADLINE_S + 5 for _, latency_s in tally.acknowledged)
    assert partition.write_units <= WRITE_LIMIT * (world.time.now_s + 1)
    assert partition.read_units <= READ_LIMIT * (world.time.now_s + 1)
    assert (partition.throttled > 0) is throttled


def test_fifty_writers_all_get_their_turn() -> None:
    world = World(1, 3.0, seed=1)
    directly(world, 50)
    turns = Counter(commit.request_id.partition("-")[0] for commit in world.log.partition(SERVER).commits)
    found = outcome(world, 50, 1, queued=False)
    assert (len(turns), found.refused) == (50, 0.0)
    assert found.p99_ms < DEADLINE_S * 1000 / 3


def test_the_queue_has_one_writer_who_writes_ten_messages_at_once_in_their_order() -> None:
    world = World(1, 2.0, seed=1)
    through_the_queue(world, 20)
    tally, commits = world.tally, world.log.partition(SERVER).commits
    assert tally.conflicts == 0
    assert tally.asked == len(tally.acknowledged) == len(tally.lags_s) == sum(commit.n for commit in commits)
    assert max(commit.n for commit in commits) == RECEIVED
    sequences = [int(commit.request_id.removeprefix("sqs-")) for commit in commits]
    assert sequences == sorted(sequences)
    assert sequences[-1] == tally.asked


def test_the_table_has_a_row_for_each_number_of_writers() -> None:
    rows = printed([simulated(writers, 1, queued=True, seconds=0.3) for writers in (1, 2)]).splitlines()
    assert (rows[0], [row.split()[0] for row in rows[4:]]) == (
        "Requests of one event, through the ingest queue:",
        ["1", "2"],
    )
