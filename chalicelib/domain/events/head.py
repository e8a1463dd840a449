"""Where a log ends."""

from typing import NamedTuple

from chalicelib.domain.events.ids import Id


class Head(NamedTuple):
    """Where a log ends: the last session, its number of events, the EventId of the last."""

    server: int
    session: int = 0
    instance: int = 0
    last: int = 0

    @property
    def id(self) -> Id:
        """The id of the last event; `server.0.0` while there is none."""
        return Id(self.server, self.session, self.instance)
