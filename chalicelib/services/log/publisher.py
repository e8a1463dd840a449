"""Publish events: encode them and append them to a log."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Protocol

from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import MAX_EVENTS, Append, AppendCondition, encode_within_limits
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.log.outcome import SubmittedAppend
from chalicelib.services.ports import Log


class AppendQueue(Protocol):
    """Writes appends, alone or in groups."""

    def submit(self, append: Append) -> SubmittedAppend | Appended:
        """Queue an append, or write it. Without a condition it is written by the next `flush` at the latest."""

    def append(self, append: Append) -> Appended:
        """Write one append and wait for its outcome. Raises the reason if it is refused."""

    def flush(self, max_wait_s: float) -> bool:
        """Write the queued appends and return whether all are finished. If not, a background thread finishes them."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """Appends the events of publishers, whichever way they came.

    An append without events writes nothing. Its outcome is the head of the log.
    """

    log: Log
    appends: AppendQueue
    request_id: Callable[[], str]
    reads: Executor | None = None
    """Reads the head of a log for `submit`, where its thread must not wait for the store. None: it may."""

    def publish(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None = None,
        idempotency_key: str | None = None,
        digest: str = "",
        max_events: int = MAX_EVENTS,
        by: str = "",
    ) -> Appended | Head:
        """Write the events and wait for the outcome. Raises the reason if they are refused."""
        texts = encode_within_limits(events, max_events)
        if not texts:
            return self.log.head(server)
        return self.appends.append(
            Append(server, texts, self.request_id(), condition, idempotency_key, request_digest=digest, by=by)
        )

    def submit(
        self,
        server: int,
        texts: tuple[str, ...],
        condition: AppendCondition | None = None,
        idempotency_key: str | None = None,
        by: str = "",
    ) -> SubmittedAppend | Appended | Head | Future[Head]:
        """Queue events that are encoded already."""
        if not texts:
            return self.log.head(server) if self.reads is None else self.reads.submit(self.log.head, server)
        return self.appends.submit(Append(server, texts, self.request_id(), condition, idempotency_key, by=by))
