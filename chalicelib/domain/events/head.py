"""The head of a log."""

from typing import NamedTuple

from chalicelib.domain.events.ids import Id


class Head(NamedTuple):
    """The end of a log: the last session, its number of events, and the EventId of the last event."""

    server: int
    session: int = 0
    instance: int = 0
    last_event_id: int = 0

    @property
    def id(self) -> Id:
        """The id of the last event, `server.0.0` if the log is empty."""
        return Id(self.server, self.session, self.instance)
