"""Publishes a steady stream of events from a thread."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.console.browsing import publish
from tests.serving import Member

EVENTS_PER_S = 500
BATCH = 25


@contextmanager
def publish_steadily(member: Member, seconds: int) -> Iterator[list[int]]:
    """Publish 500 events a second. The only element of the yielded list is the number of published events."""
    written, stopped = [0], threading.Event()
    thread = threading.Thread(target=_publish, args=(member, seconds, written, stopped), daemon=True)
    thread.start()
    try:
        yield written
    except BaseException:
        stopped.set()
        raise
    finally:
        thread.join(seconds * 5)


def _publish(member: Member, seconds: int, written: list[int], stopped: threading.Event) -> None:
    began = time.monotonic()
    while written[0] < EVENTS_PER_S * seconds:
        publish(member, *(_event(number) for number in range(written[0], written[0] + BATCH)))
        written[0] += BATCH
        if stopped.wait(max(0.0, began + written[0] / EVENTS_PER_S - time.monotonic())):
            return


def _event(number: int) -> dict[str, Any]:
    payload = {"type": "json", "data": {"n": number, "words": "x" * 60}}
    return {"type": ["load", "test", f"n{number % 9}"], "key": f"/n/{number}", "payload": payload}
