"""Messages of the ingest queue."""

from dataclasses import dataclass

from chalicelib.domain.errors import Refused


@dataclass(frozen=True, slots=True)
class Message:
    """One message: the events it holds, or why it cannot be read."""

    message_id: str
    organization: str
    sequence: int
    """Rises within an organization."""
    first_received_ms: int
    """When the queue first delivered it; 0 if this is the first delivery."""
    texts: tuple[str, ...] | Refused
    """Each event's JSON, as the log will keep it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A message that has to come again, and why."""

    message_id: str
    reason: Exception
