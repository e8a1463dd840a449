"""What a million events cost on AWS at four batch sizes, from counted units and listed prices; the arithmetic shown.

Prices are those listed for us-east-1, on demand, without the free tier. CPU times are those of `benchmarks.functions`.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import history, table
from benchmarks.dynamodb_cost import commits_of
from benchmarks.dynamodb_units import RUN_COMMITS, stores
from chalicelib.adapters.dynamodb.capacity import item_size, write_units
from chalicelib.adapters.dynamodb.items import item_from_commit

BATCHES = (1, 5, 20, 200)
EVENTS = 20_000
MILLION = 1_000_000

WRITE_UNITS = 0.625
"""Dollars for a million write request units of DynamoDB."""
READ_UNITS = 0.125
STORAGE = 0.25
"""Dollars for a gigabyte and month."""
REQUESTS = 3.50
"""Dollars for a million requests of API Gateway (REST)."""
INVOCATIONS = 0.20
"""Dollars for a million invocations of Lambda."""
GIGABYTE_SECONDS = 0.0000166667
"""Dollars for a second of Lambda with a gigabyte."""
QUEUED = 0.50
"""Dollars for a million requests to a FIFO queue of SQS."""
MEMORY_GB = 0.5
APPEND_S, RUN_S = 0.020, 0.500
"""How long an append and a projector's run of 100 commits last: mostly waiting for DynamoDB."""
RECEIVED = 10
"""Messages that Lambda takes from a queue at once; each send, receive and delete takes ten."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a million events in requests of `batch` take."""

    batch: int
    log_units: float
    view_units: float
    item_bytes: float

    @property
    def requests(self) -> float:
        """How many appends."""
        return MILLION / self.batch

    def log(self) -> float:
        """Dollars for writing them."""
        return self.log_units * WRITE_UNITS / MILLION

    def views(self) -> float:
        """Dollars for writing what finds them again."""
        return self.view_units * WRITE_UNITS / MILLION

    def functions(self) -> float:
        """Dollars for the functions that append and project; the authorizer's answer is kept for a minute."""
        runs = self.requests / RUN_COMMITS
        invoked = (self.requests + runs) * INVOCATIONS / MILLION
        return invoked + (self.requests * APPEND_S + runs * RUN_S) * MEMORY_GB * GIGABYTE_SECONDS

    def gateway(self) -> float:
        """Dollars for requests by HTTP."""
        return self.requests * REQUESTS / MILLION

    def storage(self) -> float:
        """Dollars for keeping them a month."""
        return self.item_bytes / 1e9 * STORAGE

    def total(self) -> float:
        """Dollars, all but the storage."""
        return self.log() + self.views() + self.functions() + self.gateway()


def counted(batch: int) -> Cost:
    """Units as DynamoDB counts them, of job events."""
    commits = commits_of(batch, EVENTS)
    sizes = [item_size(item_from_commit(commit)) for commit in commits]
    with tempfile.TemporaryDirectory() as directory:
        log, views = stores(Path(directory))
        for start in range(0, len(commits), 500):
            log.append(commits[start : start + 500], [], 0)
        history.project(views, log, RUN_COMMITS)
        written = views.written.total()
    each = MILLION / EVENTS
    return Cost(batch, sum(map(write_units, sizes)) * each, written * each, sum(sizes) * each)


def main() -> None:
    """Print the table."""
    costs = [counted(batch) for batch in BATCHES]
    heading = ("a million events, requests of", *(f"{cost.batch:,}" for cost in costs))
    print(table.printed(heading, list(_rows(costs))))


def _rows(costs: list[Cost]) -> Iterator[list[str]]:
    yield ["requests", *(f"{cost.requests:,.0f}" for cost in costs)]
    yield ["write units of the log", *(f"{cost.log_units:,.0f}" for cost in costs)]
    yield ["write units of the views", *(f"{cost.view_units:,.0f}" for cost in costs)]
    yield [f"log: units x ${WRITE_UNITS} / million", *(f"${cost.log():.3f}" for cost in costs)]
    yield [f"views: units x ${WRITE_UNITS} / million", *(f"${cost.views():.3f}" for cost in costs)]
    yield ["functions", *(f"${cost.functions():.3f}" for cost in costs)]
    yield [f"API Gateway: requests x ${REQUESTS:.2f} / million", *(f"${cost.gateway():.3f}" for cost in costs)]
    yield ["together, by HTTP", *(f"${cost.total():.3f}" for cost in costs)]
    yield ["together, by invoking `publish`", *(f"${cost.total() - cost.gateway():.3f}" for cost in costs)]
    yield ["through the ingest queue, sent one by one", *(f"${_queued(costs, cost):.3f}" for cost in costs)]
    yield [f"kept a month: GB x ${STORAGE}", *(f"${cost.storage():.3f}" for cost in costs)]


def _queued(costs: list[Cost], cost: Cost) -> float:
    """Messages of `batch` events each, ten of which become one commit."""
    sends = cost.requests
    requests = sends + 2 * sends / RECEIVED
    larger = min(costs, key=lambda one: abs(one.batch - cost.batch * RECEIVED))
    return requests * QUEUED / MILLION + larger.log() + larger.views() + larger.functions()


if __name__ == "__main__":
    main()
