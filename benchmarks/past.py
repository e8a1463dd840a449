"""What every log holds before it is measured: events of jobs, some orders among them, one event of a rare type.

Standard library only: it is written to each peer by the peer's own means.
"""

import random
from collections.abc import Iterator
from typing import Any

Told = tuple[tuple[str, ...], str, dict[str, Any]]
"""An event: its type, its key, its data."""

JOBS = 20_000
ORDERS = 1_000
BATCH = 20
RARE = ("rare", "one")
EVENTS_OF_A_JOB = 50
"""So many on the average in the logs that are compared, however long they are."""

_NAMES = ("create", "progress", "progress", "finish")


def events(number: int, jobs: int = JOBS) -> Iterator[Told]:
    """So many events of so many jobs; orders are spread among them, and the rare one is in the middle."""
    chance = random.Random(7)
    batches = number // BATCH
    every = max(batches // ORDERS, 1)
    for place in range(batches * BATCH):
        batch, within = divmod(place, BATCH)
        if within == 0 and batch % every == 0 and batch // every < ORDERS:
            yield _order(batch // every)
        elif within == BATCH - 1 and batch == batches // 2:
            yield RARE, "/rare", {"seen": 1}
        else:
            yield _job_event(chance, jobs)


def keys(jobs: int) -> list[str]:
    """Some keys to ask for, from all over."""
    return [f"/job/{job}" for job in range(7, jobs, 37)]


def common_type() -> tuple[str, ...]:
    """A type that one in some hundred events has, whatever the number of jobs."""
    return "job", "finish", "n7", "kind7"


def _order(number: int) -> Told:
    return ("scheduler", "OrderEvent", "OrderAdded"), f"/folder/chain{number % 10},{number}", {"nodeId": "A"}


def _job_event(chance: random.Random, jobs: int) -> Told:
    job = chance.randrange(jobs)
    data = {
        "state": "run",
        "progress": f"{chance.randrange(100)}%",
        "message": f"step {chance.randrange(20)} of the backup",
    }
    return ("job", chance.choice(_NAMES), f"n{job % 50}", f"kind{job % 30}"), f"/job/{job}", data
