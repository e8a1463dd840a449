"""The head of a log."""

from typing import NamedTuple

from chalicelib.domain.events.ids import Id


class Head(NamedTuple):
    """The end of a log: the last session, its number of events, and the EventId of the last event.

    Heads are equal if they are the same place of the same log, whether or not the position is known.
    """

    server: int
    session: int = 0
    instance: int = 0
    last_event_id: int = 0
    known_position: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Head) and self[:4] == other[:4]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:4])

    @property
    def position(self) -> int | None:
        """The position of the last event. None: unknown, because a commit of version 0.1.0 on DynamoDB has none."""
        return self.known_position if self.session else 0

    @property
    def id(self) -> Id:
        """The id of the last event, `server.0.0` if the log is empty."""
        return Id(self.server, self.session, self.instance)
