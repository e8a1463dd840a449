"""How many writers one log takes on DynamoDB: our own code that appends, run by many at once in virtual time.

Simulated are DynamoDB and SQS: their latencies, limits and throttling, each with where it is from. `--json` prints the
numbers for programs.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from benchmarks import aws_prices, table
from benchmarks.simulated_writers import SERVER, World, directly, through_the_queue

WRITERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
BATCHES = (1, 20)
SECONDS = 30.0

HEADING = (
    "writers",
    "requests/s",
    "commits/s",
    "events/s",
    "conflicts/commit",
    "p50 ms",
    "p99 ms",
    "503",
    "throttled",
    "in the log, p99 ms",
    "$/million events",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run, in numbers; rates are those of the time in which requests were made."""

    writers: int
    batch: int
    queued: bool
    requests_per_s: float
    commits_per_s: float
    events_per_s: float
    conflicts_per_commit: float
    p50_ms: float
    p99_ms: float
    refused: float
    """The part of the requests that was answered with 503."""
    throttled: int
    """Calls that DynamoDB refused for being too many."""
    lag_p99_ms: float
    """From a request to its commit."""
    dollars_per_million: float
    """For a million events; without the views."""


def simulated(writers: int, batch: int, queued: bool, seconds: float = SECONDS, seed: int = 1) -> Outcome:
    """So many at once, each with one request after the other."""
    world = World(batch, seconds, seed)
    (through_the_queue if queued else directly)(world, writers)
    return outcome(world, writers, batch, queued)


def outcome(world: World, writers: int, batch: int, queued: bool) -> Outcome:
    """What became of it."""
    tally, commits = world.tally, world.log.partition(SERVER).commits
    in_time = [commit for commit in commits if commit.at < world.time.event_id(world.seconds)]
    latencies = sorted(latency for _, latency in tally.acknowledged)
    return Outcome(
        writers=writers,
        batch=batch,
        queued=queued,
        requests_per_s=sum(at < world.seconds for at, _ in tally.acknowledged) / world.seconds,
        commits_per_s=len(in_time) / world.seconds,
        events_per_s=sum(commit.n for commit in in_time) / world.seconds,
        conflicts_per_commit=tally.conflicts / max(len(commits), 1),
        p50_ms=_quantile(latencies, 0.5) * 1000,
        p99_ms=_quantile(latencies, 0.99) * 1000,
        refused=tally.refused / tally.asked,
        throttled=world.log.partition(SERVER).throttled,
        lag_p99_ms=_quantile(sorted(tally.lags_s) or latencies, 0.99) * 1000,
        dollars_per_million=_dollars(world, queued) / (sum(commit.n for commit in commits) / aws_prices.MILLION),
    )


def main() -> None:
    """Print the tables, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long requests are made, in virtual time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writers", type=int, nargs="+", default=WRITERS)
    args = parser.parse_args()
    found: list[Outcome] = []
    for queued in (False, True):
        for batch in BATCHES:
            some = [simulated(writers, batch, queued, args.seconds, args.seed) for writers in args.writers]
            found += some
            if not args.json:
                print(f"{printed(some)}\n", flush=True)
    if args.json:
        json.dump([asdict(one) for one in found], sys.stdout, indent=1)
        print()


def printed(outcomes: Sequence[Outcome]) -> str:
    """A table of runs that differ in their number of writers."""
    first = outcomes[0]
    way = "through the ingest queue" if first.queued else "each by itself"
    size = "one event" if first.batch == 1 else f"{first.batch} events"
    rows = [_row(one) for one in outcomes]
    return f"Requests of {size}, {way}:\n\n{table.printed(HEADING, rows)}"


def _row(one: Outcome) -> list[str]:
    numbers: Iterable[float] = (
        one.requests_per_s,
        one.commits_per_s,
        one.events_per_s,
        one.conflicts_per_commit,
        one.p50_ms,
        one.p99_ms,
    )
    return [
        f"{one.writers:,}",
        *map(table.number, numbers),
        f"{one.refused:.1%}",
        f"{one.throttled:,}",
        table.number(one.lag_p99_ms),
        f"{one.dollars_per_million:.3f}",
    ]


def _dollars(world: World, queued: bool) -> float:
    """For units of the log, refused ones too, functions, and the way to them."""
    tally, partition = world.tally, world.log.partition(SERVER)
    units = partition.write_units * aws_prices.WRITE_UNITS + partition.read_units * aws_prices.READ_UNITS
    way = tally.queue_calls * aws_prices.QUEUED if queued else tally.asked * aws_prices.REQUESTS
    worked = tally.worked_s * aws_prices.MEMORY_GB * aws_prices.GIGABYTE_SECONDS
    return (units + way + tally.invocations * aws_prices.INVOCATIONS) / aws_prices.MILLION + worked


def _quantile(values: Sequence[float], part: float) -> float:
    return values[min(int(len(values) * part), len(values) - 1)] if values else 0.0


if __name__ == "__main__":
    main()
