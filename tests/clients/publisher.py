"""A publisher that retries until each event is in the log exactly once, even if the server restarts."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import httpx

from tests.clients.recorder import TIMEOUT_S
from tests.serving import Member

JOB = "upgrade"
"""The push job that is followed."""
PAUSE_S = 0.1
_REQUEST_S = 5.0

Event = dict[str, Any]


class Publisher:
    """Publishes events of a push job, of other jobs, and of another type."""

    def __init__(self, member: Member) -> None:
        self.acknowledged: list[Event] = []
        self._headers = member.headers
        self._http = httpx.Client(base_url=member.server.url, timeout=_REQUEST_S, trust_env=False)
        self._turns = 0
        self._stopped = threading.Event()

    @property
    def last(self) -> int:
        """The EventId of the last acknowledged event."""
        event_id: int = self.acknowledged[-1]["eventId"]
        return event_id

    def start(self) -> None:
        self._push(start_event(JOB))

    def complete(self) -> None:
        self._push({"event": "job_complete", "job": JOB, "status": "complete"})

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Publish continuously within the block."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()

    def close(self) -> None:
        self._http.close()

    def _work(self) -> None:
        # Some events of a request are adjacent in a feed, so that a cut can separate them.
        while not self._stopped.wait(PAUSE_S):
            node, other = f"node-{self._turns}", f"small-{self._turns}"
            self._publish("/events", {"type": ["weather", "wind"], "key": node})
            self._push(
                {"event": "run_start", "job": JOB, "node": node},
                {"event": "run_complete", "job": JOB, "node": node, "status": "success"},
                start_event(other),
                {"event": "job_complete", "job": other, "status": "complete"},
            )

    def _push(self, *events: Event) -> None:
        self._publish("/events/push", *events)

    def _publish(self, path: str, *events: Event) -> None:
        """Send with one idempotency key until the request is acknowledged."""
        self._turns += 1
        headers = {**self._headers, "Idempotency-Key": f"turn {self._turns}"}
        deadline = time.monotonic() + TIMEOUT_S
        while (response := self._post(path, events, headers)) is None:
            assert time.monotonic() < deadline, "the server did not come back"
            self._stopped.wait(PAUSE_S)
        assert response.status_code in (200, 201), response.text
        self.acknowledged += response.json()["events"]

    def _post(self, path: str, events: Sequence[Event], headers: dict[str, str]) -> httpx.Response | None:
        try:
            response = self._http.post(path, json={"events": events}, headers=headers)
        except httpx.TransportError:
            return None
        return None if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE else response


def start_event(job: str) -> Event:
    return {"event": "start", "job": job, "command": "upgrade", "run_timeout": 60, "node_count": 1, "user": "anna"}
