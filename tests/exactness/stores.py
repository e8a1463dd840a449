"""Wrappers of real stores that count reads, crash, or run other code at a chosen use."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import ConditionalWrite, Record
from chalicelib.services.ports import Log, Views

Hook = Callable[[], None]
"""Called just before each use of a store."""


def do_nothing() -> None:
    """The default hook."""


class Crash(Exception):
    """A simulated crash."""


class CallOnce:
    """A hook that calls `action` at the n-th use only."""

    def __init__(self, uses: int, action: Hook) -> None:
        self.remaining_uses = uses
        self._action = action

    def __call__(self) -> None:
        self.remaining_uses -= 1
        if self.remaining_uses == 0:
            self._action()


class CountingLog:
    """A log that counts the commits it returns."""

    def __init__(self, log: Log, hook: Hook = do_nothing) -> None:
        self._log = log
        self._hook = hook
        self.fetched = 0

    def head(self, server: int) -> Head:
        self._hook()
        return self._log.head(server)

    def start(self, server: int) -> Head:
        self._hook()
        return self._log.start(server)

    def append(self, commits: Sequence[Commit]) -> None:
        self._log.append(commits)

    def commit(self, server: int, session: int) -> Commit | None:
        self._hook()
        self.fetched += 1
        return self._log.commit(server, session)

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        return self._count(self._log.commits(server, sessions))

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        return self._count(self._log.read(server, after, limit))

    def read_backwards(self, server: int, before: int, limit: int | None = None) -> Iterator[Commit]:
        return self._count(self._log.read_backwards(server, before, limit))

    def _count(self, commits: Iterator[Commit]) -> Iterator[Commit]:
        self._hook()
        for commit in commits:
            self.fetched += 1
            yield commit
            self._hook()


class RecordingViews:
    """Views that count, by kind, the records read and those newer than their checkpoint."""

    def __init__(self, views: Views, paths: Counter[str], hook: Hook = do_nothing) -> None:
        self._views = views
        self._paths = paths
        self._hook = hook
        self._checkpoint = 0

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        self._hook()
        records = self._views.get(view, items)
        for record in records.values():
            self._record(record)
        return records

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        self._hook()
        for record in self._views.range(view, start, end, backwards):
            self._record(record)
            yield record
            self._hook()

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        return self._views.put(changes)

    def delete(self, view: str, items: Sequence[str]) -> None:
        self._views.delete(view, items)

    def drop(self, view: str) -> int:
        return self._views.drop(view)

    def _record(self, record: Record) -> None:
        kind = record.view.partition("/")[2].partition(":")[0]
        self._paths[f"read {kind}"] += 1
        if kind == "checkpoint":
            self._checkpoint = record.version % 2**44
        elif record.version > self._checkpoint:
            self._paths[f"{kind} ahead of its checkpoint"] += 1


class InterceptedViews:
    """Views that call `hook` before each single change and drop. Changes are put one by one."""

    def __init__(self, views: Views, paths: Counter[str], hook: Hook) -> None:
        self._views = views
        self._paths = paths
        self._hook = hook

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self._views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self._views.range(view, start, end, backwards)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        refused: list[ConditionalWrite] = []
        for change in changes:
            self._hook()
            refused += self._views.put([change])
        self._paths["refused"] += len(refused)
        return refused

    def delete(self, view: str, items: Sequence[str]) -> None:
        self._hook()
        self._views.delete(view, items)

    def drop(self, view: str) -> int:
        self._hook()
        return self._views.drop(view)


class NoCheckpointViews(InterceptedViews):
    """Views that crash at each write of a checkpoint."""

    def __init__(self, views: Views) -> None:
        super().__init__(views, Counter(), do_nothing)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        if any(change.record.view.endswith("/checkpoint") for change in changes):
            raise Crash
        return super().put(changes)
