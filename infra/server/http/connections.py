"""All open connections, and which of them to close when others need the room.

Idle clients keep their connections until the server runs out of file descriptors or of memory for request bodies. Then
it closes the connections that have kept it waiting longest.
"""

from infra.server.http.connection import Connection

MAX_TOTAL_BODY_BYTES = 64 * 1024 * 1024
"""Limit for all request bodies together, complete or not."""

MIN_GRACE_S = 1.0
"""A client may keep the server waiting for this long, even if others wait to be accepted."""

EVICTED_FRACTION = 1 / 16
"""Fraction of the candidates that is evicted at a time, so that not every new connection needs an eviction."""


class Connections:
    """The open connections, at most `max_connections`."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        self._open: set[Connection] = set()
        self._total_body_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        return len(self._open) >= self._max_connections

    def add(self, connection: Connection) -> None:
        self._open.add(connection)

    def discard(self, connection: Connection) -> None:
        connection.discard_input()
        self.update_body_bytes(connection)
        self._open.discard(connection)

    def idle_since(self, since: float) -> list[Connection]:
        """The connections without an active request that have been waiting for their clients since then."""
        return [connection for connection in self._open if connection.is_idle and connection.waiting_since <= since]

    def eviction_candidates(self, now: float) -> list[Connection]:
        """Some of the connections that have kept the server waiting longest, those without any request first."""
        candidates = [
            connection
            for connection in self._open
            if (connection.is_idle or connection.has_unsent_data) and connection.waiting_since + MIN_GRACE_S <= now
        ]
        candidates.sort(key=lambda connection: (not connection.is_new, connection.waiting_since))
        return candidates[: int(len(self._open) * EVICTED_FRACTION) + 1]

    def update_body_bytes(self, connection: Connection) -> None:
        body_bytes = connection.body_bytes
        self._total_body_bytes += body_bytes - connection.counted_body_bytes
        connection.counted_body_bytes = body_bytes

    def slowest_uploads(self) -> list[Connection]:
        """If the bodies take too much memory, some of the connections that have been sending theirs for longest."""
        if self._total_body_bytes <= MAX_TOTAL_BODY_BYTES:
            return []
        uploads = [connection for connection in self._open if connection.body_bytes and connection.is_idle]
        uploads.sort(key=lambda connection: connection.waiting_since)
        return uploads[: int(len(uploads) * EVICTED_FRACTION) + 1]
