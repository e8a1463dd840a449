"""`python -m benchmarks.simulation`: how many concurrent writers one log on DynamoDB supports.

The code that appends is the real code, run by many writers in virtual time. DynamoDB and SQS are simulate: latencies,
limits and throttling. `--json` prints machine-readable output.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from benchmarks.aws import prices
from benchmarks.report import table
from benchmarks.simulation.writers import SERVER, Simulation, run_direct_writers, run_queue_writers

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
    """Results of one run. Rates refer to the time in which requests were sent."""

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
    """Fraction of requests rejected with 503."""
    throttled: int
    """Calls throttled by DynamoDB."""
    lag_p99_ms: float
    """Time from a request to its commit."""
    dollars_per_million: float
    """Cost of a million events without the views."""


def simulate(writers: int, batch: int, queued: bool, seconds: float = SECONDS, seed: int = 1) -> Outcome:
    """Run concurrent writers, each sending one request after the other."""
    simulation = Simulation(batch, seconds, seed)
    (run_queue_writers if queued else run_direct_writers)(simulation, writers)
    return summarize(simulation, writers, batch, queued)


def summarize(simulation: Simulation, writers: int, batch: int, queued: bool) -> Outcome:
    statistics, commits = simulation.statistics, simulation.log.partition(SERVER).commits
    in_time = [commit for commit in commits if commit.at_us < simulation.time.event_id(simulation.seconds)]
    latencies = sorted(latency for _, latency in statistics.acknowledged)
    return Outcome(
        writers=writers,
        batch=batch,
        queued=queued,
        requests_per_s=sum(at < simulation.seconds for at, _ in statistics.acknowledged) / simulation.seconds,
        commits_per_s=len(in_time) / simulation.seconds,
        events_per_s=sum(commit.event_count for commit in in_time) / simulation.seconds,
        conflicts_per_commit=statistics.conflicts / max(len(commits), 1),
        p50_ms=_quantile(latencies, 0.5) * 1000,
        p99_ms=_quantile(latencies, 0.99) * 1000,
        refused=statistics.refused / statistics.requests_sent,
        throttled=simulation.log.partition(SERVER).throttled,
        lag_p99_ms=_quantile(sorted(statistics.lags_s) or latencies, 0.99) * 1000,
        dollars_per_million=_cost_usd(simulation, queued)
        / (sum(commit.event_count for commit in commits) / prices.MILLION),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long requests are sent, in virtual time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writers", type=int, nargs="+", default=WRITERS)
    args = parser.parse_args()
    outcomes: list[Outcome] = []
    for queued in (False, True):
        for batch in BATCHES:
            group = [simulate(writers, batch, queued, args.seconds, args.seed) for writers in args.writers]
            outcomes += group
            if not args.json:
                print(f"{format_outcomes(group)}\n", flush=True)
    if args.json:
        json.dump([asdict(summarize) for summarize in outcomes], sys.stdout, indent=1)
        print()


def format_outcomes(outcomes: Sequence[Outcome]) -> str:
    """Format runs that differ in the number of writers as a table."""
    first = outcomes[0]
    way = "through the ingest queue" if first.queued else "direct"
    size = "one event" if first.batch == 1 else f"{first.batch} events"
    rows = [_row(entry) for entry in outcomes]
    return f"Requests of {size}, {way}:\n\n{table.format_table(HEADING, rows)}"


def _row(run: Outcome) -> list[str]:
    numbers: Iterable[float] = (
        run.requests_per_s,
        run.commits_per_s,
        run.events_per_s,
        run.conflicts_per_commit,
        run.p50_ms,
        run.p99_ms,
    )
    return [
        f"{run.writers:,}",
        *map(table.format_number, numbers),
        f"{run.refused:.1%}",
        f"{run.throttled:,}",
        table.format_number(run.lag_p99_ms),
        f"{run.dollars_per_million:.3f}",
    ]


def _cost_usd(simulation: Simulation, queued: bool) -> float:
    """Units of the log including rejected writes, functions, and API Gateway or SQS."""
    statistics, partition = simulation.statistics, simulation.log.partition(SERVER)
    units = partition.write_units * prices.WRITE_UNITS_USD + partition.read_units * prices.READ_UNITS_USD
    requests = (
        statistics.queue_calls * prices.SQS_REQUESTS_USD if queued else statistics.requests_sent * prices.REQUESTS_USD
    )
    worked = statistics.run_time_s * prices.MEMORY_GB * prices.GIGABYTE_SECONDS_USD
    return (units + requests + statistics.invocations * prices.INVOCATIONS_USD) / prices.MILLION + worked


def _quantile(values: Sequence[float], part: float) -> float:
    return values[min(int(len(values) * part), len(values) - 1)] if values else 0.0


if __name__ == "__main__":
    main()
