"""Publish: events of a publisher become a commit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chalicelib.domain.appends import MOST_EVENTS, Append, AppendCondition, encoded
from chalicelib.domain.events import NewEvent
from chalicelib.domain.pending import Pending, Settled
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
        append = Append(server, encoded(events, most), self.request_id(), condition, idempotency_key, asked=digest)
        return self.submit(append)
