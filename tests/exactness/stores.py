"""Stores that tell what is read, crash, or let others go first; around real ones."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import Change, Record
from chalicelib.services.ports import Log, Views

Moment = Callable[[], None]
"""What happens just before each use of a store."""


def nothing() -> None:
    """Nothing happens."""


class Crash(Exception):
    """The process ends."""


class Once:
    """Something happens at the n-th use."""

    def __init__(self, uses: int, happen: Moment) -> None:
        self.left = uses
        self._happen = happen

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._happen()


class WatchedLog:
    """A log that counts the commits it gives."""

    def __init__(self, log: Log, moment: Moment = nothing) -> None:
        self._log = log
        self._moment = moment
        self.fetched = 0

    def head(self, server: int) -> Head:
        self._moment()
        return self._log.head(server)

    def start(self, server: int) -> Head:
        self._moment()
        return self._log.start(server)

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        self._log.append(commits, receipts, now_s)

    def commit(self, server: int, session: int) -> Commit | None:
        self._moment()
        self.fetched += 1
        return self._log.commit(server, session)

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        return self._counted(self._log.commits(server, sessions))

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        return self._counted(self._log.read(server, after, most))

    def read_back(self, server: int, before: int, most: int | None = None) -> Iterator[Commit]:
        return self._counted(self._log.read_back(server, before, most))

    def receipt(self, server: int, key: str, now_s: int) -> Receipt | None:
        return self._log.receipt(server, key, now_s)

    def _counted(self, commits: Iterator[Commit]) -> Iterator[Commit]:
        self._moment()
        for commit in commits:
            self.fetched += 1
            yield commit
            self._moment()


class WatchedViews:
    """Views that note what kind of views are read, and records that are ahead of their checkpoint."""

    def __init__(self, views: Views, seen: Counter[str], moment: Moment = nothing) -> None:
        self._views = views
        self._seen = seen
        self._moment = moment
        self._checkpoint = 0

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        self._moment()
        found = self._views.get(view, items)
        for record in found.values():
            self._note(record)
        return found

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        self._moment()
        for record in self._views.range(view, start, end, backwards):
            self._note(record)
            yield record
            self._moment()

    def put(self, changes: Sequence[Change]) -> list[Change]:
        return self._views.put(changes)

    def drop(self, view: str) -> int:
        return self._views.drop(view)

    def _note(self, record: Record) -> None:
        kind = record.view.partition("/")[2].partition(":")[0]
        self._seen[f"read {kind}"] += 1
        if kind == "checkpoint":
            self._checkpoint = record.to % 2**44
        elif record.to > self._checkpoint:
            self._seen[f"{kind} ahead of its checkpoint"] += 1


class WrittenViews:
    """Views that let something happen before every single change and every drop; changes are put one by one."""

    def __init__(self, views: Views, seen: Counter[str], moment: Moment) -> None:
        self._views = views
        self._seen = seen
        self._moment = moment

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self._views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self._views.range(view, start, end, backwards)

    def put(self, changes: Sequence[Change]) -> list[Change]:
        refused: list[Change] = []
        for change in changes:
            self._moment()
            refused += self._views.put([change])
        self._seen["refused"] += len(refused)
        return refused

    def drop(self, view: str) -> int:
        self._moment()
        return self._views.drop(view)
