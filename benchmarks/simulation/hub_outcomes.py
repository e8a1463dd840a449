"""Runs of simulated hubs, and their results: requests per second, latencies, write units and costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.aws import prices
from benchmarks.report import table
from benchmarks.simulation.hub_costs import SECONDS_PER_HOUR, hub_usd_per_hour
from benchmarks.simulation.hubs import HubLoad, run_hubs
from benchmarks.simulation.writers import SERVER, Simulation, quantile

PUBLISHERS = (1, 16, 64, 256, 1_000)
NOISE_BYTES = (0, 32, 64, 128, 256, 1_024)
HUB_LOADS: dict[str, list[HubLoad]] = {
    "Job events": [HubLoad(hubs, publishers) for hubs in (1, 2, 4) for publishers in PUBLISHERS if publishers >= hubs],
    "Job events with idempotency keys": [HubLoad(1, publishers, keyed=True) for publishers in PUBLISHERS],
    "Job events with random text": [HubLoad(1, 1_000, noise_bytes=noise) for noise in NOISE_BYTES],
}
"""By title. Each request has one event."""
HTTP_BYTES = 1_500
"""Headers, token and response of a request, without its events. The load balancer charges for them."""

HEADING = (
    "hubs",
    "publishers",
    "random bytes",
    "requests/s",
    "items/s",
    "bytes/event",
    "write units/s",
    "rejected/item",
    "p50 ms",
    "p99 ms",
    "503",
    "throttled",
    "$/million: log",
    "hub",
    "together",
)


@dataclass(frozen=True, slots=True)
class HubOutcome:
    """Results of one run. Rates refer to the time in which requests were sent."""

    hubs: int
    publishers: int
    keyed: bool
    noise_bytes: int
    requests_per_s: float
    """Also commits and events per second: each request has one event and is a commit."""
    items_per_s: float
    bytes_per_event: float
    write_units_per_s: float
    read_units_per_s: float
    """Of the log and of the views."""
    rejected_per_item: float
    """Puts that another hub was faster to write, per stored item."""
    p50_ms: float
    p99_ms: float
    refused: float
    """Fraction of requests rejected with 503."""
    throttled: int
    log_dollars_per_million: float
    """Units of the log and of receipts that are looked up. Without the views."""
    hub_dollars_per_million: float
    """Tasks and load balancer at this rate."""

    @property
    def dollars_per_million(self) -> float:
        """Cost of a million requests."""
        return self.log_dollars_per_million + self.hub_dollars_per_million


def simulate_hubs(load: HubLoad, seconds: float, seed: int = 1) -> HubOutcome:
    simulation = Simulation(1, seconds, seed)
    run_hubs(simulation, load)
    return summarize_hubs(simulation, load)


def summarize_hubs(simulation: Simulation, load: HubLoad) -> HubOutcome:
    statistics, partition = simulation.statistics, simulation.log.partition(SERVER)
    latencies = sorted(latency_s for _, latency_s in statistics.acknowledged)
    rate = sum(at_s < simulation.seconds for at_s, _ in statistics.acknowledged) / simulation.seconds
    commits, items, lasted_s = len(partition.commits), len(partition.item_bytes), simulation.time.now_s
    event_bytes = sum(len(commit.body) for commit in partition.commits) / commits
    read_units = partition.read_units + simulation.views.read_units
    units_usd = partition.write_units * prices.WRITE_UNITS_USD + read_units * prices.READ_UNITS_USD
    hub_usd = hub_usd_per_hour(load.hubs, load.publishers, rate * (HTTP_BYTES + event_bytes))
    return HubOutcome(
        load.hubs,
        load.publishers,
        load.keyed,
        load.noise_bytes,
        requests_per_s=rate,
        items_per_s=items / lasted_s,
        bytes_per_event=sum(partition.item_bytes) / commits,
        write_units_per_s=partition.write_units / lasted_s,
        read_units_per_s=read_units / lasted_s,
        rejected_per_item=partition.rejected_puts / items,
        p50_ms=quantile(latencies, 0.5) * 1000,
        p99_ms=quantile(latencies, 0.99) * 1000,
        refused=statistics.refused / statistics.requests_sent,
        throttled=partition.throttled + sum(view.throttled for view in simulation.views.partitions.values()),
        log_dollars_per_million=units_usd / commits,
        hub_dollars_per_million=hub_usd / (rate * SECONDS_PER_HOUR) * prices.MILLION,
    )


def format_hubs(title: str, outcomes: Sequence[HubOutcome]) -> str:
    return f"{title}, one in each request, at hubs:\n\n{table.format_table(HEADING, [_row(run) for run in outcomes])}"


def _row(run: HubOutcome) -> list[str]:
    numbers = (
        run.requests_per_s,
        run.items_per_s,
        run.bytes_per_event,
        run.write_units_per_s,
        run.rejected_per_item,
        run.p50_ms,
        run.p99_ms,
    )
    dollars = (run.log_dollars_per_million, run.hub_dollars_per_million, run.dollars_per_million)
    return [
        f"{run.hubs}",
        f"{run.publishers:,}",
        f"{run.noise_bytes:,}",
        *map(table.format_number, numbers),
        f"{run.refused:.1%}",
        f"{run.throttled:,}",
        *(f"{amount:.3f}" for amount in dollars),
    ]
