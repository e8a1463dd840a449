"""Ports: the interfaces that the services need and the adapters implement."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.notifications.delivery import Delivery, Parked
from chalicelib.domain.notifications.delivery_record import DeliveryRecord
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import ConditionalWrite, Record

Clock = Callable[[], int]
"""Returns the wall-clock time in milliseconds since 1970."""


class Measure(Protocol):
    """Records metrics. Counts are summed; of ages, the maximum counts."""

    def __call__(self, name: str, value: float = 1, **dimensions: str) -> None:
        """Record `value`. With dimensions it counts both in the total and under these dimensions."""


def ignore_metric(name: str, value: float = 1, **dimensions: str) -> None:
    """A `Measure` that records nothing."""
    del name, value, dimensions


class Log(Protocol):
    """The logs of all servers. Reads are strongly consistent: they see every acknowledged append."""

    def head(self, server: int) -> Head:
        """Position of the last commit."""

    def start(self, server: int) -> Head:
        """Position before the first commit that is still stored."""

    def append(self, commits: Sequence[Commit]) -> None:
        """Store everything durably and atomically. Raises `SessionTaken` if nothing was stored.

        After `Unavailable`, repeating exactly the same call stores nothing twice.
        """

    def commit(self, server: int, session: int) -> Commit | None:
        """The commit with this session, if it is stored."""

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        """The commits with these sessions, in the given order, fetched page by page. Missing ones are skipped."""

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        """Commits with sessions greater than `after`, ascending, at most `limit`, fetched page by page."""

    def read_backwards(self, server: int, before: int, limit: int | None = None) -> Iterator[Commit]:
        """Commits with sessions smaller than `before`, descending, at most `limit`, fetched page by page."""


class Receipts(Protocol):
    """Finds the commits of requests by their idempotency keys."""

    def receipts(self, server: int, keys: Collection[str], head: Head | None = None) -> Mapping[str, Receipt]:
        """The last use of each key in the log, perhaps an expired one. Sees every acknowledged append.

        With `head`, uses in later commits may be missing.
        """

    def read_end(self, server: int) -> Head | None:
        """Read the commits of the log that are not known yet, and return the last one. None if that is no use."""

    def remember(self, commits: Sequence[Commit]) -> None:
        """Take note of commits of one log that this process has written, in order. They need not be read again."""


class Views(Protocol):
    """Records of materialized views. Reads are strongly consistent."""

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """Existing records, by item."""

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        """Records with `start <= item < end`, ordered by the bytes of their items, fetched page by page."""

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        """Apply each change independently. Return those refused because the stored record has changed meanwhile."""

    def delete(self, view: str, items: Sequence[str]) -> None:
        """Delete records, whatever their versions. Missing ones are ignored."""

    def drop(self, view: str) -> int:
        """Delete a batch of records of a view and return its size. Call again until it returns 0."""


class Outbox(Protocol):
    """Pending deliveries. A delivery is kept until it is delivered, dropped or parked."""

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Store deliveries durably, in this order. Deliveries that were already put are ignored."""

    def parked(self, server: int, observer: str, after: str, limit: int) -> list[Parked]:
        """Deliveries that are no longer retried, ordered by id, with ids greater than `after`."""

    def retry(self, server: int, observer: str, ids: Sequence[str]) -> int:
        """Put parked deliveries back into the queue with all their tries, and return how many there were."""

    def counts(self, server: int, observer: str) -> dict[str, int]:
        """Approximate numbers of waiting, parked and sent deliveries."""

    def history(
        self, server: int, observer: str, before: str, limit: int, event: Id | None = None
    ) -> list[DeliveryRecord]:
        """Deliveries of an observer in any state, the newest first, or only those about one event.

        `before` is the cursor of the last record of the previous page, or empty. Raises `BadInput` if it is no cursor.
        Records of old deliveries are deleted.
        """


class ChangeNotifier(Protocol):
    """Lets readers wait until a log may have new commits."""

    def wait(self, head: Head, selection: Selection, timeout_s: float, attempt: int) -> Head | None:
        """Return once a selected event may exist after `head`, or after `timeout_s`.

        Returns `head` or a later position up to which no selected event exists. Returns None if the process is
        shutting down. `attempt` counts the caller's consecutive waits without a selected event, from 0.
        """

    def close(self) -> None:
        """Release all waiting readers, and return None from all further waits."""
