"""What the services need of the world."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.notifications.delivery import Delivery, Parked
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import Change, Record

Clock = Callable[[], int]
"""Milliseconds since 1970, as this machine believes."""


class Measure(Protocol):
    """Takes note of a number for those who run the installation: counts are added up, of ages the greatest counts."""

    def __call__(self, name: str, value: float = 1, **dimensions: str) -> None:
        """So much of `name`; with dimensions it counts as one of its kind, too."""


def unmeasured(name: str, value: float = 1, **dimensions: str) -> None:
    """Take note of nothing."""
    del name, value, dimensions


class Log(Protocol):
    """The logs of all servers. Reads are strongly consistent: what was acknowledged is seen."""

    def head(self, server: int) -> Head:
        """Where the log of `server` ends."""

    def start(self, server: int) -> Head:
        """The head before the first commit that is kept."""

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        """Store all of it durably, or none and raise `SessionTaken` or `KeyTaken`.

        Repeating the very same call after `Unavailable` stores nothing twice. Receipts that expired
        before `now_s` count as absent.
        """

    def commit(self, server: int, session: int) -> Commit | None:
        """The commit with this session, if there is one."""

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        """The commits with these sessions, in the order given, fetched page by page; missing ones are left out."""

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        """Commits with sessions greater than `after`, ascending, `most` at most, fetched page by page."""

    def read_back(self, server: int, before: int, most: int | None = None) -> Iterator[Commit]:
        """Commits with sessions smaller than `before`, descending, `most` at most, fetched page by page."""

    def receipt(self, server: int, key: str, now_s: int) -> Receipt | None:
        """What the idempotency key was used for, unless it expired before `now_s`."""


class Views(Protocol):
    """Records of views. Reads are strongly consistent."""

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """Those of the items that there are, by item."""

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        """Records with `start <= item < end` in the order of their items' bytes, or backwards, fetched page by page."""

    def put(self, changes: Sequence[Change]) -> list[Change]:
        """Write each change by itself; return those refused because the stored record is not what it was."""

    def drop(self, view: str) -> int:
        """Forget some records of a view; how many, 0 when none are left."""


class Outbox(Protocol):
    """Deliveries on their way. What is put is kept until it is delivered, dropped or parked."""

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Keep them durably, in this order; those that were put before are not put again."""

    def parked(self, server: int, observer: str, after: str, most: int) -> list[Parked]:
        """Those that nobody tries any more, after the one with the id `after`, in order of their ids."""

    def retry(self, server: int, observer: str, ids: Sequence[str]) -> int:
        """Try parked ones again, from the first of five tries; how many there were."""

    def counts(self, server: int, observer: str) -> dict[str, int]:
        """How many are waiting, parked and sent, as far as that is known."""


class Wake(Protocol):
    """Tells those who wait that a log may have grown."""

    def wait(self, seen: Head, selection: Selection, timeout_s: float, turn: int) -> Head | None:
        """Return when something selected may have come after `seen`, or after `timeout_s`.

        The answer is a head, `seen` or a later one, up to which nothing selected has come; None means: stop waiting,
        the process ends. `turn` counts the caller's waits in vain, from 0.
        """

    def close(self) -> None:
        """Send everybody who waits home, and let nobody wait any more."""
