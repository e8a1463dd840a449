"""`python -m benchmarks.simulation`: how many concurrent writers one log on DynamoDB supports, and at which cost.

The code that appends is the real code, run by many functions or hubs in virtual time. DynamoDB and SQS are simulated:
latencies, limits and throttling. `--json` prints machine-readable output.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from benchmarks.aws import prices
from benchmarks.report import table
from benchmarks.simulation.hub_costs import follower_cost, format_followers
from benchmarks.simulation.hub_outcomes import HUB_LOADS, format_hubs, simulate_hubs
from benchmarks.simulation.writers import SERVER, Simulation, quantile, run_direct_writers, run_queue_writers

WRITERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
MODES = (
    (False, False, 1),
    (False, False, 20),
    (False, True, 1),
    (False, True, 20),
    (True, False, 1),
    (True, False, 20),
)
"""Whether requests go through the ingest queue, whether they have idempotency keys, and their number of events."""
SECONDS = 30.0
PARTS = ("functions", "hubs", "followers")
FOLLOWERS = (1_000, 10_000, 100_000)

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
    keyed: bool
    """Whether each request has an idempotency key."""
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


def simulate(
    writers: int, batch: int, queued: bool, seconds: float = SECONDS, seed: int = 1, keyed: bool = False
) -> Outcome:
    """Run concurrent writers, each sending one request after the other."""
    simulation = Simulation(batch, seconds, seed)
    if queued:
        run_queue_writers(simulation, writers)
    else:
        run_direct_writers(simulation, writers, keyed)
    return summarize(simulation, writers, batch, queued, keyed)


def summarize(simulation: Simulation, writers: int, batch: int, queued: bool, keyed: bool = False) -> Outcome:
    statistics, commits = simulation.statistics, simulation.log.partition(SERVER).commits
    in_time = [commit for commit in commits if commit.at_us < simulation.time.event_id(simulation.seconds)]
    latencies = sorted(latency for _, latency in statistics.acknowledged)
    return Outcome(
        writers=writers,
        batch=batch,
        queued=queued,
        keyed=keyed,
        requests_per_s=sum(at < simulation.seconds for at, _ in statistics.acknowledged) / simulation.seconds,
        commits_per_s=len(in_time) / simulation.seconds,
        events_per_s=sum(commit.event_count for commit in in_time) / simulation.seconds,
        conflicts_per_commit=statistics.conflicts / max(len(commits), 1),
        p50_ms=quantile(latencies, 0.5) * 1000,
        p99_ms=quantile(latencies, 0.99) * 1000,
        refused=statistics.refused / statistics.requests_sent,
        throttled=simulation.log.partition(SERVER).throttled,
        lag_p99_ms=quantile(sorted(statistics.lags_s) or latencies, 0.99) * 1000,
        dollars_per_million=_cost_usd(simulation, queued)
        / (sum(commit.event_count for commit in commits) / prices.MILLION),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long requests are sent, in virtual time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writers", type=int, nargs="+", default=WRITERS)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS)
    args = parser.parse_args()
    results: dict[str, list[dict[str, object]]] = {}
    if "functions" in args.only:
        results["functions"] = []
        for queued, keyed, batch in MODES:
            group = [simulate(writers, batch, queued, args.seconds, args.seed, keyed) for writers in args.writers]
            results["functions"] += map(asdict, group)
            _print(format_outcomes(group), args.json)
    if "hubs" in args.only:
        results["hubs"] = []
        for title, loads in HUB_LOADS.items():
            outcomes = [simulate_hubs(load, args.seconds, args.seed) for load in loads]
            results["hubs"] += map(asdict, outcomes)
            _print(format_hubs(title, outcomes), args.json)
    if "followers" in args.only:
        costs = [follower_cost(followers) for followers in FOLLOWERS]
        results["followers"] = [{**asdict(cost), "dollars_per_month": cost.total()} for cost in costs]
        _print(format_followers(costs), args.json)
    if args.json:
        json.dump(results, sys.stdout, indent=1)
        print()


def _print(text: str, as_json: bool) -> None:
    if not as_json:
        print(f"{text}\n", flush=True)


def format_outcomes(outcomes: Sequence[Outcome]) -> str:
    """Format runs that differ in the number of writers as a table."""
    first = outcomes[0]
    way = "through the ingest queue" if first.queued else "direct"
    way += ", with idempotency keys" if first.keyed else ""
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
    """Units of the log including rejected writes, reads of receipts, functions, and API Gateway or SQS."""
    statistics, partition = simulation.statistics, simulation.log.partition(SERVER)
    read_units = partition.read_units + simulation.views.read_units
    units = partition.write_units * prices.WRITE_UNITS_USD + read_units * prices.READ_UNITS_USD
    requests = (
        statistics.queue_calls * prices.SQS_REQUESTS_USD if queued else statistics.requests_sent * prices.REQUESTS_USD
    )
    worked = statistics.run_time_s * prices.MEMORY_GB * prices.GIGABYTE_SECONDS_USD
    return (units + requests + statistics.invocations * prices.INVOCATIONS_USD) / prices.MILLION + worked


if __name__ == "__main__":
    main()
