"""Compares what the workers have done in a week with what the logs call for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import apsw

from chalicelib.adapters.sqlite.outbox_table import DROPPED, SENT
from chalicelib.domain.organizations.organization import inbox_log
from chalicelib.services.ports import Log
from tests.faults.week.alarms import Alarms, expected_alarms, logged_alarms
from tests.faults.week.calm import Filter, Message, SecondObserver
from tests.faults.week.history import Life, read_entries, read_lives
from tests.faults.week.mutes import read_mutes

NOTICE_US = 990_000
"""A second before an expectation is deleted, the workers do all work. Events that are published meanwhile have EventIds
some microseconds later.
"""
HELD_DELAY_US = 5_000_000
"""Held messages are sent this long after their time."""
FILTERS: Mapping[str, Filter] = {
    "plain": lambda entry: entry.data.get("success") == "0",
    "nodes": lambda entry: entry.type[2] != "n3",
    "first-node": lambda entry: entry.type[2] == "n1",
}
"""The filters of the observers, by name."""

T = TypeVar("T")

Deliveries = Counter[tuple[str, Message]]
"""By address and message."""


@dataclass
class Differences:
    """Missing and surplus elements. Empty if both are equal."""

    missing: Sequence[object]
    unexpected: Sequence[object]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


def compare(expected: "Counter[T]", actual: "Counter[T]") -> Differences:
    return Differences(list((expected - actual).elements()), list((actual - expected).elements()))


@dataclass
class Outcome:
    """The alarms and messages of a week."""

    log: Log
    server: int
    folder: Path
    now_ms: int

    def __post_init__(self) -> None:
        self.entries = read_entries(self.log, self.server)

    @property
    def logged_alarms(self) -> Alarms:
        return logged_alarms(self.entries)

    @property
    def expected_alarms(self) -> Alarms:
        return expected_alarms(
            read_lives(self.log, self.server, "expectation"), self.entries, self.now_ms * 1000, NOTICE_US
        )

    @property
    def deliveries(self) -> Deliveries:
        """The deliveries in the outbox that were sent."""
        query = (
            "SELECT address, observer, server, session, instance, until, events, samples FROM delivery WHERE state = ?"
        )
        rows = _rows(self.folder / "outbox.sqlite", query, SENT)
        return Counter(
            (address, Message(observer, f"{server}.{session}.{instance}", until, count, samples))
            for address, observer, server, session, instance, until, count, samples in rows
        )

    @property
    def unfinished(self) -> int:
        """The deliveries that were neither sent nor dropped."""
        query = "SELECT count(*) FROM delivery WHERE state NOT IN (?, ?)"
        return int(_rows(self.folder / "outbox.sqlite", query, SENT, DROPPED)[0][0])

    @cached_property
    def expected_deliveries(self) -> Deliveries:
        mutes = read_mutes(self.entries)
        found: Deliveries = Counter()
        for life in read_lives(self.log, self.server, "observer"):
            passes = FILTERS.get(life.name, lambda _: True)
            observer = SecondObserver(life, mutes, passes, HELD_DELAY_US)
            messages = observer.run(self.entries, self.now_ms * 1000)
            found.update((address, message) for message in messages for address in _addresses(life))
        return found

    @property
    def inbox(self) -> "Counter[object]":
        """User, observer, first event, and whether the message reports several events."""
        entries = read_entries(self.log, inbox_log(self.server))
        return Counter(
            (
                entry.key.removeprefix("/users/"),
                entry.data["observer"],
                tuple(entry.data["event"].values()),
                _reported(entry.data["subject"]),
            )
            for entry in entries
        )

    @property
    def expected_inbox(self) -> "Counter[object]":
        return Counter(
            {
                (address, message.observer, tuple(map(int, message.first.split("."))), message.events): count
                for (address, message), count in self.expected_deliveries.items()
            }
        )


def _addresses(life: Life) -> list[str]:
    return [address.strip() for address in life.changes[0][1]["config"]["to"].split(",")]


def _reported(subject: str) -> int:
    """The number of events, according to the subject of a message."""
    _, is_digest, rest = subject.rpartition(" (and ")
    return int(rest.split()[0]) + 1 if is_digest and rest.endswith(" more)") else 1


def _rows(path: Path, query: str, *values: int) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.close()
