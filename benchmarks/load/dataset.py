"""The events that every log holds before it is measured: job events, some orders, one event of a rare type.

Standard library only: the load generators import this module in the venvs of the peers.
"""

import random
from collections.abc import Iterator
from typing import Any

PlainEvent = tuple[tuple[str, ...], str, dict[str, Any]]
"""Type, key and data of an event."""

JOBS = 20_000
ORDERS = 1_000
BATCH = 20
RARE_TYPE = ("rare", "one")
MEAN_EVENTS_PER_JOB = 50
"""In the logs that are compared, independent of their size."""

_NAMES = ("create", "progress", "progress", "finish")


def events(number: int, jobs: int = JOBS) -> Iterator[PlainEvent]:
    """Generate `number` events of `jobs` jobs. Orders are spread evenly, and the rare event is in the middle."""
    rng = random.Random(7)
    batches = number // BATCH
    interval = max(batches // ORDERS, 1)
    for place in range(batches * BATCH):
        batch, within = divmod(place, BATCH)
        if within == 0 and batch % interval == 0 and batch // interval < ORDERS:
            yield _order(batch // interval)
        elif within == BATCH - 1 and batch == batches // 2:
            yield RARE_TYPE, "/rare", {"seen": 1}
        else:
            yield _job_event(rng, jobs)


def keys(jobs: int) -> list[str]:
    """A sample of job keys to query."""
    return [f"/job/{job}" for job in range(7, jobs, 37)]


def common_type() -> tuple[str, ...]:
    """A type that about one in several hundred events has, whatever the number of jobs."""
    return "job", "finish", "n7", "kind7"


def _order(number: int) -> PlainEvent:
    return ("scheduler", "OrderEvent", "OrderAdded"), f"/folder/chain{number % 10},{number}", {"nodeId": "A"}


def _job_event(rng: random.Random, jobs: int) -> PlainEvent:
    job = rng.randrange(jobs)
    data = {
        "state": "run",
        "progress": f"{rng.randrange(100)}%",
        "message": f"step {rng.randrange(20)} of the backup",
    }
    return ("job", rng.choice(_NAMES), f"n{job % 50}", f"kind{job % 30}"), f"/job/{job}", data
