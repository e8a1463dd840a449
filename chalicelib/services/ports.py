"""What the services need of the world."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from chalicelib.domain.appends import Receipt
from chalicelib.domain.commits import Commit
from chalicelib.domain.heads import Head

Clock = Callable[[], int]
"""Milliseconds since 1970, as this machine believes."""


class Log(Protocol):
    """The logs of all servers. Reads are strongly consistent: what was acknowledged is seen."""

    def head(self, server: int) -> Head:
        """Where the log of `server` ends."""

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        """Store all of it durably, or none and raise `SessionTaken` or `KeyTaken`.

        Repeating the very same call after `Unavailable` stores nothing twice. Receipts that expired
        before `now_s` count as absent.
        """

    def commit(self, server: int, session: int) -> Commit | None:
        """The commit with this session, if there is one."""

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        """Commits with sessions greater than `after`, ascending, `most` at most, fetched page by page."""

    def read_back(self, server: int, before: int, most: int | None = None) -> Iterator[Commit]:
        """Commits with sessions smaller than `before`, descending, `most` at most, fetched page by page."""

    def receipt(self, server: int, key: str, now_s: int) -> Receipt | None:
        """What the idempotency key was used for, unless it expired before `now_s`."""


class Wake(Protocol):
    """Tells those who wait that a log may have grown."""

    def wait(self, server: int, session: int, timeout_s: float, turn: int) -> bool:
        """Return when the log may have grown past `session`, or after `timeout_s`.

        `turn` counts the caller's waits in vain, from 0. False means: stop waiting, the process ends.
        """

    def close(self) -> None:
        """Send everybody who waits home, and let nobody wait any more."""
