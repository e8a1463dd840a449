"""Cost of a million events on AWS at four batch sizes, computed from counted units and list prices.

Prices are for us-east-1, on demand, without the free tier. CPU times come from `benchmarks.aws.functions`.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.aws.dynamodb_cost import make_commits
from benchmarks.aws.dynamodb_units import RUN_COMMITS, open_stores
from benchmarks.load import annals_store
from benchmarks.report import table
from chalicelib.adapters.dynamodb.capacity import item_size, write_units
from chalicelib.adapters.dynamodb.items import item_from_commit

BATCHES = (1, 5, 20, 200)
EVENTS = 20_000
MILLION = 1_000_000

WRITE_UNITS_USD = 0.625
"""Per million write request units of DynamoDB."""
READ_UNITS_USD = 0.125
STORAGE_USD = 0.25
"""Per gigabyte and month."""
REQUESTS_USD = 3.50
"""Per million requests of API Gateway (REST)."""
INVOCATIONS_USD = 0.20
"""Per million invocations of Lambda."""
GIGABYTE_SECONDS_USD = 0.0000166667
"""Per second of a Lambda function with one gigabyte."""
SQS_REQUESTS_USD = 0.50
"""Per million requests to an SQS FIFO queue."""
VCPU_HOURS_USD, GIGABYTE_HOURS_USD = 0.03238, 0.00356
"""Per hour of a vCPU and of a gigabyte on Fargate, Linux on arm64."""
BALANCER_HOURS_USD, CAPACITY_HOURS_USD = 0.0225, 0.008
"""Per hour of an application load balancer, and of each of its capacity units (LCU)."""
ADDRESS_HOURS_USD = 0.005
"""Per hour of a public IPv4 address."""
TRAFFIC_USD = 0.09
"""Per gigabyte to the internet."""
MEMORY_GB = 0.5
APPEND_S, RUN_S = 0.020, 0.500
"""Duration of an append and of a projector run of 100 commits, mostly waiting for DynamoDB."""
SQS_BATCH = 10
"""Messages per Lambda invocation, and per receive and delete request."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Units and bytes of a million events in requests of `batch` events. The methods return US dollars."""

    batch: int
    log_units: float
    view_units: float
    item_bytes: float

    @property
    def requests(self) -> float:
        return MILLION / self.batch

    def log(self) -> float:
        return self.log_units * WRITE_UNITS_USD / MILLION

    def views(self) -> float:
        return self.view_units * WRITE_UNITS_USD / MILLION

    def functions(self) -> float:
        """Functions that append and project. The authorizer is left out: its result is cached for a minute."""
        runs = self.requests / RUN_COMMITS
        invoked = (self.requests + runs) * INVOCATIONS_USD / MILLION
        return invoked + (self.requests * APPEND_S + runs * RUN_S) * MEMORY_GB * GIGABYTE_SECONDS_USD

    def gateway(self) -> float:
        return self.requests * REQUESTS_USD / MILLION

    def storage(self) -> float:
        """For one month."""
        return self.item_bytes / 1e9 * STORAGE_USD

    def total(self) -> float:
        """Everything except the storage."""
        return self.log() + self.views() + self.functions() + self.gateway()


def compute_cost(batch: int) -> Cost:
    """Count the units of job events as DynamoDB does."""
    commits = make_commits(batch, EVENTS)
    sizes = [item_size(item_from_commit(commit)) for commit in commits]
    with tempfile.TemporaryDirectory() as directory:
        log, views = open_stores(Path(directory))
        for start in range(0, len(commits), 500):
            log.append(commits[start : start + 500])
        annals_store.project(views, log, RUN_COMMITS)
        written = views.written.total()
    scale = MILLION / EVENTS
    return Cost(batch, sum(map(write_units, sizes)) * scale, written * scale, sum(sizes) * scale)


def main() -> None:
    costs = [compute_cost(batch) for batch in BATCHES]
    heading = ("a million events, requests of", *(f"{cost.batch:,}" for cost in costs))
    print(table.format_table(heading, list(_rows(costs))))


def _rows(costs: list[Cost]) -> Iterator[list[str]]:
    yield ["requests", *(f"{cost.requests:,.0f}" for cost in costs)]
    yield ["write units of the log", *(f"{cost.log_units:,.0f}" for cost in costs)]
    yield ["write units of the views", *(f"{cost.view_units:,.0f}" for cost in costs)]
    yield [f"log: units x ${WRITE_UNITS_USD} / million", *(f"${cost.log():.3f}" for cost in costs)]
    yield [f"views: units x ${WRITE_UNITS_USD} / million", *(f"${cost.views():.3f}" for cost in costs)]
    yield ["functions", *(f"${cost.functions():.3f}" for cost in costs)]
    yield [f"API Gateway: requests x ${REQUESTS_USD:.2f} / million", *(f"${cost.gateway():.3f}" for cost in costs)]
    yield ["together, by HTTP", *(f"${cost.total():.3f}" for cost in costs)]
    yield ["together, by invoking `publish`", *(f"${cost.total() - cost.gateway():.3f}" for cost in costs)]
    yield ["through the ingest queue, sent one by one", *(f"${_queue_cost(costs, cost):.3f}" for cost in costs)]
    yield [f"kept a month: GB x ${STORAGE_USD}", *(f"${cost.storage():.3f}" for cost in costs)]


def _queue_cost(costs: list[Cost], cost: Cost) -> float:
    """Messages of `batch` events, ten of which become one commit."""
    sends = cost.requests
    requests = sends + 2 * sends / SQS_BATCH
    larger = min(costs, key=lambda other: abs(other.batch - cost.batch * SQS_BATCH))
    return requests * SQS_REQUESTS_USD / MILLION + larger.log() + larger.views() + larger.functions()


if __name__ == "__main__":
    main()
