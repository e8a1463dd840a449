"""Invariants of the simulation of writers on one log."""

from collections import Counter

import pytest

from benchmarks.simulation.__main__ import format_outcomes, simulate, summarize
from benchmarks.simulation.dynamodb import READ_LIMIT, WRITE_LIMIT, TokenBucket
from benchmarks.simulation.virtual_time import VirtualTime
from benchmarks.simulation.writers import SERVER, SQS_BATCH, Simulation, run_direct_writers, run_queue_writers
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import verify_contiguous
from chalicelib.services.log.appender import APPEND_TIMEOUT_S


def test_virtual_time_wakes_sleepers_in_order() -> None:
    virtual = VirtualTime()
    seen: list[tuple[str, float]] = []

    def sleeper(name: str, *pauses: float) -> None:
        for pause_s in pauses:
            virtual.sleep(pause_s)
            seen.append((name, virtual.monotonic()))

    virtual.run([lambda: sleeper("a", 3.0, 3.0), lambda: sleeper("b", 1.0, 4.0, 3600.0)])
    assert seen == [("b", 1.0), ("a", 3.0), ("b", 5.0), ("a", 6.0), ("b", 3605.0)]


def test_virtual_time_run_raises_error_of_actor() -> None:
    def fails() -> None:
        raise KeyError("x")

    virtual = VirtualTime()
    with pytest.raises(KeyError, match="x"):
        virtual.run([fails, lambda: virtual.sleep(1.0)])


def test_token_bucket_holds_at_most_one_second() -> None:
    bucket = TokenBucket(10.0)
    assert [bucket.take(10, 0.0), bucket.take(1, 0.05), bucket.take(1, 0.1)] == [True, False, True]
    assert [bucket.take(10, 60.0), bucket.take(1, 60.0)] == [True, False]


def test_simulate_single_writer_has_no_conflicts() -> None:
    single = simulate(1, 1, queued=False, seconds=2.0)
    assert (single.conflicts_per_commit, single.refused, single.throttled) == (0.0, 0.0, 0)
    assert single.commits_per_s > 0


def test_simulate_same_seed_is_reproducible() -> None:
    first, again, other = (simulate(5, 1, queued=False, seconds=1.0, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("writers", "batch", "seconds", "throttled"), [(3, 20, 2.0, False), (40, 1, 2.0, False), (300, 20, 0.5, True)]
)
def test_direct_writers_respect_limits_and_lose_nothing(
    writers: int, batch: int, seconds: float, throttled: bool
) -> None:
    simulation = Simulation(batch, seconds, seed=1)
    run_direct_writers(simulation, writers)
    statistics, partition = simulation.statistics, simulation.log.partition(SERVER)
    stored = Counter(commit.request_id for commit in verify_contiguous(Head(SERVER), partition.commits))
    assert statistics.requests_sent == len(statistics.acknowledged) + statistics.refused
    assert set(stored.values()) == {1}
    assert len(statistics.acknowledged) <= len(stored) <= statistics.requests_sent
    assert all(latency_s < APPEND_TIMEOUT_S + 5 for _, latency_s in statistics.acknowledged)
    assert partition.write_units <= WRITE_LIMIT * (simulation.time.now_s + 1)
    assert partition.read_units <= READ_LIMIT * (simulation.time.now_s + 1)
    assert (partition.throttled > 0) is throttled


def test_direct_writers_fifty_are_all_served() -> None:
    simulation = Simulation(1, 3.0, seed=1)
    run_direct_writers(simulation, 50)
    turns = Counter(commit.request_id.partition("-")[0] for commit in simulation.log.partition(SERVER).commits)
    summary = summarize(simulation, 50, 1, queued=False)
    assert (len(turns), summary.refused) == (50, 0.0)
    assert summary.p99_ms < APPEND_TIMEOUT_S * 1000 / 3


def test_queue_writers_commit_batches_in_order() -> None:
    simulation = Simulation(1, 2.0, seed=1)
    run_queue_writers(simulation, 20)
    statistics, commits = simulation.statistics, simulation.log.partition(SERVER).commits
    assert statistics.conflicts == 0
    assert (
        statistics.requests_sent
        == len(statistics.acknowledged)
        == len(statistics.lags_s)
        == sum(commit.event_count for commit in commits)
    )
    assert max(commit.event_count for commit in commits) == SQS_BATCH
    sequences = [int(commit.request_id.removeprefix("sqs-")) for commit in commits]
    assert sequences == sorted(sequences)
    assert sequences[-1] == statistics.requests_sent


def test_format_outcomes_has_row_per_writer_count() -> None:
    rows = format_outcomes([simulate(writers, 1, queued=True, seconds=0.3) for writers in (1, 2)]).splitlines()
    assert (rows[0], [row.split()[0] for row in rows[4:]]) == (
        "Requests of one event, through the ingest queue:",
        ["1", "2"],
    )
