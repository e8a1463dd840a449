"""A steady stream of events, from a thread of its own."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.console.browsing import publish
from tests.serving import Member

A_SECOND = 500
BATCH = 25


@contextmanager
def pouring(member: Member, seconds: int) -> Iterator[list[int]]:
    """500 events a second, evenly; the list's one number says how many are written."""
    written, over = [0], threading.Event()
    thread = threading.Thread(target=_pour, args=(member, seconds, written, over), daemon=True)
    thread.start()
    try:
        yield written
    except BaseException:
        over.set()
        raise
    finally:
        thread.join(seconds * 5)


def _pour(member: Member, seconds: int, written: list[int], over: threading.Event) -> None:
    began = time.monotonic()
    while written[0] < A_SECOND * seconds:
        publish(member, *(_event(number) for number in range(written[0], written[0] + BATCH)))
        written[0] += BATCH
        if over.wait(max(0.0, began + written[0] / A_SECOND - time.monotonic())):
            return


def _event(number: int) -> dict[str, Any]:
    payload = {"type": "json", "data": {"n": number, "words": "x" * 60}}
    return {"type": ["load", "test", f"n{number % 9}"], "key": f"/n/{number}", "payload": payload}
