"""Records the events and connections of the clients.

Threads: each client reports from its own threads, and the test waits. `_changed` protects the records.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TIMEOUT_S = 90.0
"""Generous, because clients wait up to three seconds before they reconnect, and the machine may be busy."""
CHECK_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed to follow. The client stops after the event `last`, if given."""

    name: str
    path: str
    last: str | None = None


class ReceivedEvent(NamedTuple):
    """An event as received by a client."""

    event: str
    id: str
    data: Any

    @property
    def event_id(self) -> int:
        """The EventId in the id, or 0."""
        number = self.id.rpartition("-")[2]
        return int(number) if number.isdecimal() else 0


@dataclass
class ClientRecord:
    """Connections and events of one client on one feed."""

    opened: int = 0
    """Number of successful connections."""
    lost: int = 0
    """Number of lost or failed connections."""
    gave_up: str | None = None
    """Why it does not reconnect any more."""
    seen: list[ReceivedEvent] = field(default_factory=list)

    def reaches(self, event_id: int) -> bool:
        return bool(self.seen) and self.seen[-1].event_id >= event_id

    def __str__(self) -> str:
        last = self.seen[-1] if self.seen else "nothing"
        return f"opened {self.opened}, lost {self.lost}, gave up {self.gave_up}, saw {len(self.seen)}, last {last}"


class Recorder:
    """The records of all clients."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], ClientRecord] = {}
        """By client and feed."""
        self._changed = threading.Condition()

    def start(self, client: str, feed: Feed) -> None:
        with self._changed:
            self.records[client, feed.name] = ClientRecord()

    def record_report(self, client: str, report: dict[str, Any]) -> None:
        """Record a report of a client. Its format is described in `with_event_source.js`."""
        with self._changed:
            record = self.records[client, report["feed"]]
            match report:
                case {"event": str(event), "id": str(id_), "data": str(data)}:
                    record.seen.append(ReceivedEvent(event, id_, json.loads(data)))
                case {"open": True}:
                    record.opened += 1
                case {"lost": _}:
                    record.lost += 1
                case _:
                    record.gave_up = str(report)
            self._changed.notify_all()

    def wait(self, description: str, is_met: Callable[[ClientRecord], bool]) -> None:
        """Wait until all records meet the condition. Fails if a client gives up or the timeout expires."""
        deadline = time.monotonic() + TIMEOUT_S
        with self._changed:
            while waiting := [f"{client}: {record}" for client, record in self.records.items() if not is_met(record)]:
                assert not self.failures, f"before {description}: {self.failures}"
                assert time.monotonic() < deadline, "\n".join([f"still not {description}:", *waiting])
                self._changed.wait(CHECK_INTERVAL_S)

    def wait_for_event(self, event_id: int) -> None:
        self.wait(f"received {event_id} or a later event", lambda record: record.reaches(event_id))

    @property
    def failures(self) -> list[str]:
        """The clients that gave up."""
        return [f"{client}: {record}" for client, record in self.records.items() if record.gave_up is not None]
