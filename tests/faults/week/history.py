"""What the logs say after the week, read from their stored JSON without the code that decides."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.services.ports import Log

Json = dict[str, Any]
FOREVER = 2**60
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class Entry(NamedTuple):
    """An event of a log."""

    at: int
    """The EventId."""
    id: str
    type: tuple[str, ...]
    key: str
    data: Json

    @property
    def job_type(self) -> str:
        return self.type[3] if self.type[0] == "job" and len(self.type) == 4 else ""

    @property
    def outcome(self) -> str:
        """Whether it is bad or good news."""
        match self.type:
            case ("job", "finish", *_):
                return "success" if self.data["success"] == "1" else "failure"
            case ("job", "clean" | "missed" | "late" | "overdue" | "early", *_):
                return "failure"
            case ("job", "recovered", *_):
                return "recovery"
            case _:
                return ""


@dataclass
class Life:
    """A configured object from its creation to its deletion."""

    name: str
    created: int
    since: int
    """EventId of the last event of the log when it was created."""
    changes: list[tuple[int, Json, int]] = field(default_factory=list)
    """EventId in the configuration log, the configuration, and the last EventId of the log at that time."""
    snoozes: list[tuple[int, int]] = field(default_factory=list)
    """When it was asked, and until when."""
    deleted: int = FOREVER


def read_entries(log: Log, server: int) -> list[Entry]:
    found = []
    for commit in log.read(server, 0):
        for event in commit.events:
            fields = json.loads(event.text)
            data = (fields["payload"] or {}).get("data") or {}
            found.append(Entry(event.event_id, str(event.id), tuple(fields["type"]), fields["key"] or "", data))
    return found


def read_lives(log: Log, server: int, kind: str) -> list[Life]:
    """All `expectation`s or `observer`s that existed."""
    return list(_lives(read_entries(log, configuration_log(server)), kind))


def _lives(entries: list[Entry], kind: str) -> Iterator[Life]:
    lives: dict[str, Life] = {}
    for entry in entries:
        name = entry.key.removeprefix(f"/{kind}/")
        match entry.type:
            case (first, "put") if first == kind:
                life = lives.setdefault(name, Life(name, entry.at, entry.data["since"]))
                life.changes.append((entry.at, entry.data["configuration"], entry.data["since"]))
            case (first, "snoozed") if first == kind:
                lives[name].snoozes.append((entry.at, microseconds(entry.data["until"])))
            case (first, "deleted") if first == kind:
                life = lives.pop(name)
                life.deleted = entry.at
                yield life
    yield from lives.values()


def microseconds(text: str) -> int:
    """A time in ISO-8601."""
    return (datetime.fromisoformat(text) - EPOCH) // MICROSECOND
