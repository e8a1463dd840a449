"""Publish: events of a publisher become a commit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import MOST_EVENTS, Append, AppendCondition, encoded
from chalicelib.services.log.append_future import Pending, Settled
from chalicelib.services.ports import Log


@dataclass(frozen=True, slots=True)
class Publish:
    """The one way for publishers' events to get into a log, whichever way they came."""

    log: Log
    submit: Callable[[Append], Pending]
    request_id: Callable[[], str]

    def __call__(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None = None,
        idempotency_key: str | None = None,
        digest: str = "",
        most: int = MOST_EVENTS,
    ) -> Pending:
        """The append under way; if there are no events nothing is written, and the log's head is the outcome."""
        if not events:
            return Settled(self.log.head(server))
        return self.texts(server, encoded(events, most), condition, idempotency_key, digest)

    def texts(
        self,
        server: int,
        texts: tuple[str, ...],
        condition: AppendCondition | None = None,
        idempotency_key: str | None = None,
        digest: str = "",
    ) -> Pending:
        """The same for events that are encoded already, as the log keeps them."""
        return self.submit(Append(server, texts, self.request_id(), condition, idempotency_key, asked=digest))
