"""Fakes for service tests: a clock that tests control, and logs that fail in chosen ways."""

from collections.abc import Callable, Iterator, Sequence

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.event import NewEvent, encode
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, AppendCondition
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.log.appender import Appender
from chalicelib.services.ports import Log

NOW_MS = 1_700_000_000_000
NOW = NOW_MS * 1000
"""The EventId of now."""


class World:
    """A fake clock: wall-clock time in `now_ms`, monotonic time in `elapsed_s`. `pause` advances only the latter."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.elapsed_s = 0.0
        self.pauses: list[float] = []

    def clock(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return self.elapsed_s

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.elapsed_s += seconds

    def appender(self, log: Log) -> Appender:
        """An appender that uses this clock."""
        receipts = log if isinstance(log, SqliteLog) else None
        return Appender(log, self.clock, self.pause, self.monotonic, receipts=receipts)


class RecordingLog(SqliteLog):
    """Records every attempt to write."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.attempts: list[list[Commit]] = []

    def append(self, commits: Sequence[Commit]) -> None:
        self.attempts.append(list(commits))
        super().append(commits)


class FailingLog(RecordingLog):
    """Raises `Unavailable` the first `times` appends, after or before it has written."""

    def __init__(self, database: Database, times: float, writes: bool) -> None:
        super().__init__(database)
        self.left = times
        self._writes = writes

    def append(self, commits: Sequence[Commit]) -> None:
        if self.left <= 0:
            super().append(commits)
            return
        self.left -= 1
        self.attempts.append(list(commits))
        if self._writes:
            SqliteLog.append(self, commits)
        raise Unavailable("no answer")


class OvertakenLog(SqliteLog):
    """Calls `other`, which writes too, just before the first `times` writes."""

    def __init__(self, database: Database, other: Callable[[], object], times: float = 1) -> None:
        super().__init__(database)
        self._other = other
        self._left = times

    def append(self, commits: Sequence[Commit]) -> None:
        if self._left > 0:
            self._left -= 1
            self._other()
        super().append(commits)


class InterleavedLog(SqliteLog):
    """Calls `other` once at the end of a read, as if another thread ran there."""

    other: Callable[[], object] | None = None

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        yield from super().read(server, after, limit)
        if self.other is not None:
            other, self.other = self.other, None
            other()


def text(key: str = "/1", type_: str = "job/start") -> str:
    """The stored JSON of an event."""
    return encode(NewEvent(type=tuple(type_.split("/")), key=key)).decode()


def large_text(size: int, character: str = "x") -> str:
    """The stored JSON of an event of about `size` bytes."""
    payload = {"type": "json", "data": character * (size // len(character.encode()))}
    return encode(NewEvent.model_validate({"type": ["large"], "payload": payload})).decode()


def append(
    *keys: str,
    request_id: str = "ours",
    server: int = 1,
    condition: AppendCondition | None = None,
    idempotency_key: str | None = None,
    verified_head: Head | None = None,
) -> Append:
    """An append request with one event of type job/start per key."""
    texts = tuple(text(key) for key in keys or ("/1",))
    return Append(server, texts, request_id, condition, idempotency_key, verified_head)


def no_match(key: str, after: int = 0) -> AppendCondition:
    """A condition that fails if an event has this key."""
    return AppendCondition(fail_if_events_match=Selection(keys=(key,)), after=after)


def keys(log: Log, server: int = 1) -> list[tuple[int, str | None]]:
    """Session and key of each event in the log."""
    return [(event.id.session, event.fields.key) for commit in log.read(server, 0) for event in commit.events]
