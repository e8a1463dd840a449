"""All connections: which of them have to go, so that there is room for others.

A client whose turn it is may take its time as long as nobody else needs what it holds: a descriptor, and memory for
what it has sent. Then who has taken longest goes first.
"""

from infra.server.http.connection import Connection

MOST_BODY_BYTES = 64 * 1024 * 1024
"""What the bodies of requests may take together, complete or not."""

MERCY_S = 1.0
"""So long everybody may take when it is their turn, however many wait outside."""

_PART = 16
"""One in so many goes at once, so that not each new one needs another look."""


class Connections:
    """The connections that are open, at most so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[Connection] = set()
        self._bodies: dict[Connection, int] = {}
        """How much is held of whose bodies."""
        self._body_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def are_full(self) -> bool:
        """Whether there is no room for one more."""
        return len(self._open) >= self._most

    def add(self, connection: Connection) -> None:
        """One is open."""
        self._open.add(connection)

    def discard(self, connection: Connection) -> None:
        """One is closed."""
        connection.forget()
        self.weigh(connection)
        self._open.discard(connection)

    def silent(self, since: float) -> list[Connection]:
        """Those without a request at work whose turn it has been since then."""
        return [one for one in self._open if one.is_idle and one.waits_since <= since]

    def longest_waited_for(self, now: float) -> list[Connection]:
        """Some whose turn it has been for longest; first those who never asked for anything."""
        waited_for = [one for one in self._open if one.is_idle or one.is_behind]
        waited_for = [one for one in waited_for if one.waits_since + MERCY_S <= now]
        waited_for.sort(key=lambda one: (not one.is_new, one.waits_since))
        return waited_for[: len(self._open) // _PART + 1]

    def weigh(self, connection: Connection) -> None:
        """See how much is held of its bodies now."""
        held = connection.body_bytes
        self._body_bytes += held - self._bodies.pop(connection, 0)
        if held:
            self._bodies[connection] = held

    def longest_sending(self) -> list[Connection]:
        """If too much is held of bodies, some who have been sending theirs for longest."""
        if self._body_bytes <= MOST_BODY_BYTES:
            return []
        sending = sorted((one for one in self._bodies if one.is_idle), key=lambda one: one.waits_since)
        return sending[: len(sending) // _PART + 1]
