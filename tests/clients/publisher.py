"""A publisher that does not give up: what it sends is in the log once, whatever becomes of the server meanwhile."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import httpx

from tests.clients.notes import PATIENCE_S
from tests.serving import Member

JOB = "upgrade"
"""The job that is followed; there are others."""
PAUSE_S = 0.1
_REQUEST_S = 5.0

Event = dict[str, Any]


class Publisher:
    """Publishes the story of a push job, of small jobs beside it, and of something else."""

    def __init__(self, member: Member) -> None:
        self.acknowledged: list[Event] = []
        self._headers = member.headers
        self._http = httpx.Client(base_url=member.server.url, timeout=_REQUEST_S, trust_env=False)
        self._turns = 0
        self._stopped = threading.Event()

    @property
    def last(self) -> int:
        """The EventId of the last event that was acknowledged."""
        event_id: int = self.acknowledged[-1]["eventId"]
        return event_id

    def start(self) -> None:
        """The job begins."""
        self._push(a_start(JOB))

    def complete(self) -> None:
        """The job ends."""
        self._push({"event": "job_complete", "job": JOB, "status": "complete"})

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Publish all the time while the block runs."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def close(self) -> None:
        """Let its connections go."""
        self._http.close()

    def _work(self) -> None:
        """Of the events in one request some follow each other on a feed, so that a cut may part them."""
        while not self._stopped.wait(PAUSE_S):
            node, other = f"node-{self._turns}", f"small-{self._turns}"
            self._publish("/events", {"type": ["weather", "wind"], "key": node})
            self._push(
                {"event": "run_start", "job": JOB, "node": node},
                {"event": "run_complete", "job": JOB, "node": node, "status": "success"},
                a_start(other),
                {"event": "job_complete", "job": other, "status": "complete"},
            )

    def _push(self, *events: Event) -> None:
        self._publish("/events/push", *events)

    def _publish(self, path: str, *events: Event) -> None:
        """Ask, with one key, until it is acknowledged."""
        self._turns += 1
        headers = {**self._headers, "Idempotency-Key": f"turn {self._turns}"}
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self._answer(path, events, headers)) is None:
            assert time.monotonic() < deadline, "the server does not come back"
            self._stopped.wait(PAUSE_S)
        assert answer.status_code in (200, 201), answer.text
        self.acknowledged += answer.json()["events"]

    def _answer(self, path: str, events: Sequence[Event], headers: dict[str, str]) -> httpx.Response | None:
        try:
            answer = self._http.post(path, json={"events": events}, headers=headers)
        except httpx.TransportError:
            return None
        return None if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE else answer


def a_start(job: str) -> Event:
    """A job is requested."""
    return {"event": "start", "job": job, "command": "upgrade", "run_timeout": 60, "node_count": 1, "user": "anna"}
