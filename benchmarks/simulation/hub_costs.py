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
POLL_UNITS = 0.5
"""Read units of a poll: an eventually consistent query that finds nothing."""
LONGEST_POLL_S = 60.0
"""How often an idle follower sends a request, see `infra/template/hub.yaml`."""
POLL_BYTES = 1_500
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
    """Per followed log."""

    def total(self) -> float:
        return self.fargate + self.balancer + self.addresses + self.polls


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
    polls = tasks * POLL_UNITS / Hub.refresh_interval_s * SECONDS_PER_HOUR
    return FollowerCost(
        followers,
        tasks,
        fargate=HOURS_PER_MONTH * tasks * compute,
        balancer=HOURS_PER_MONTH * balancer_usd_per_hour(followers, followers / LONGEST_POLL_S * POLL_BYTES),
        addresses=HOURS_PER_MONTH * (tasks + BALANCER_ADDRESSES) * prices.ADDRESS_HOURS_USD,
        polls=HOURS_PER_MONTH * polls * prices.READ_UNITS_USD / prices.MILLION,
    )


def format_followers(costs: Sequence[FollowerCost]) -> str:
    heading = ("followers", "tasks", "Fargate", "load balancer", "addresses", "polls of a log", "$/month", "$/day")
    rows = [
        [
            f"{cost.followers:,}",
            f"{cost.tasks}",
            *(f"{dollars:.2f}" for dollars in (cost.fargate, cost.balancer, cost.addresses, cost.polls)),
            f"{cost.total():.2f}",
            f"{cost.total() / DAYS_PER_MONTH:.2f}",
        ]
        for cost in costs
    ]
    return f"Idle followers of one log at hubs, in dollars a month:\n\n{table.format_table(heading, rows)}"
