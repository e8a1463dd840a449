"""Cost of hubs: tasks on Fargate, the load balancer, and polls for followers. Prices of us-east-1, on demand."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.aws import prices
from benchmarks.report import table
from chalicelib.settings import Settings
from infra.server.hub import Hub

TASK_VCPU, TASK_GB = 1.0, 2.0
"""Defaults of the parameters HubCpu and HubMemory."""
HOURS_PER_MONTH = 730.0
DAYS_PER_MONTH = 365 / 12
SECONDS_PER_HOUR = 3600.0
BALANCER_ADDRESSES = 2
"""Public addresses of the load balancer: one in each availability zone."""
CAPACITY_CONNECTIONS, CAPACITY_BYTES_PER_HOUR = 3_000, 1e9
"""Active connections, or bytes per hour, of one capacity unit of the load balancer. The larger of both counts."""
HUB_POLL_UNITS = 0.5
"""Read units of a poll by a task, for all followers of a log: an eventually consistent query that finds nothing."""
LONGEST_POLL_S = 600.0
"""How often an idle follower sends a request, see `infra/template/hub.yaml`."""
LONG_POLL_UNITS = 2.0
"""Read units of the request of a follower: where the log starts, and the events after the follower's position."""
LONG_POLL_BYTES = 1_500
"""Request and response of an idle long poll, with a token and other headers."""
SPARE_TASKS = 1
"""If one task fails, the others have room for its followers."""


@dataclass(frozen=True, slots=True)
class FollowerCost:
    """Cost of idle followers of one log, in US dollars per month."""

    followers: int
    tasks: int
    fargate: float
    balancer: float
    addresses: float
    polls: float
    """Of each task, per followed log."""
    requests: float
    """Reads of the log by the requests of followers. Streams need none."""

    def total(self) -> float:
        return self.fargate + self.balancer + self.addresses + self.polls + self.requests


def task_usd_per_hour() -> float:
    """One task, with its public address."""
    compute = TASK_VCPU * prices.VCPU_HOURS_USD + TASK_GB * prices.GIGABYTE_HOURS_USD
    return compute + prices.ADDRESS_HOURS_USD


def balancer_usd_per_hour(connections: float, bytes_per_s: float) -> float:
    """The load balancer without its addresses. Connections are reused, and there are no rules to evaluate."""
    units = max(connections / CAPACITY_CONNECTIONS, bytes_per_s * SECONDS_PER_HOUR / CAPACITY_BYTES_PER_HOUR)
    return prices.BALANCER_HOURS_USD + units * prices.CAPACITY_HOURS_USD


def hub_usd_per_hour(tasks: int, connections: float, bytes_per_s: float) -> float:
    """Everything that runs all the time."""
    addresses = BALANCER_ADDRESSES * prices.ADDRESS_HOURS_USD
    return tasks * task_usd_per_hour() + addresses + balancer_usd_per_hour(connections, bytes_per_s)


def follower_cost(followers: int) -> FollowerCost:
    """Each follower has a connection, on which it waits for events that are rare."""
    max_connections = Settings.from_environment({}).max_connections
    tasks = math.ceil(followers / max_connections) + SPARE_TASKS
    compute = TASK_VCPU * prices.VCPU_HOURS_USD + TASK_GB * prices.GIGABYTE_HOURS_USD
    requests_per_s = followers / LONGEST_POLL_S
    # Of one read unit per second, for a month.
    read_units_usd = SECONDS_PER_HOUR * HOURS_PER_MONTH * prices.READ_UNITS_USD / prices.MILLION
    return FollowerCost(
        followers,
        tasks,
        fargate=HOURS_PER_MONTH * tasks * compute,
        balancer=HOURS_PER_MONTH * balancer_usd_per_hour(followers, requests_per_s * LONG_POLL_BYTES),
        addresses=HOURS_PER_MONTH * (tasks + BALANCER_ADDRESSES) * prices.ADDRESS_HOURS_USD,
        polls=tasks * HUB_POLL_UNITS / Hub.refresh_interval_s * read_units_usd,
        requests=requests_per_s * LONG_POLL_UNITS * read_units_usd,
    )


def format_followers(costs: Sequence[FollowerCost]) -> str:
    parts = ("Fargate", "load balancer", "addresses", "polls of tasks", "long polls")
    heading = ("followers", "tasks", *parts, "$/month", "$/day")
    rows = [
        [
            f"{cost.followers:,}",
            f"{cost.tasks}",
            *(f"{part:.2f}" for part in (cost.fargate, cost.balancer, cost.addresses, cost.polls, cost.requests)),
            f"{cost.total():.2f}",
            f"{cost.total() / DAYS_PER_MONTH:.2f}",
        ]
        for cost in costs
    ]
    return f"Idle followers of one log at hubs, in dollars a month:\n\n{table.format_table(heading, rows)}"
