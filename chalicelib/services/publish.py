"""Publish: events of a publisher become a commit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chalicelib.domain.appends import Append, AppendCondition, encoded
from chalicelib.domain.commits import Appended
from chalicelib.domain.events import NewEvent
from chalicelib.domain.heads import Head
from chalicelib.services.ports import Log


@dataclass(frozen=True, slots=True)
class Publish:
    """The one way for events to get into a log, whichever way they came."""

    log: Log
    append: Callable[[Append], Appended]
    request_id: Callable[[], str]

    def __call__(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None = None,
        idempotency_key: str | None = None,
    ) -> Appended | Head:
        """The commit with the events; the log's head if there are none, for then nothing is written."""
        if not events:
            return self.log.head(server)
        return self.append(Append(server, encoded(events), self.request_id(), condition, idempotency_key))
