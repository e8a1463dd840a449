"""Messages of the ingest queue."""

from dataclasses import dataclass

from chalicelib.domain.errors import Refused


@dataclass(frozen=True, slots=True)
class IngestMessage:
    """A message with events to append."""

    message_id: str
    organization: str
    sequence: int
    """Increases within an organization."""
    first_received_ms: int
    """When the queue first delivered the message, 0 if this is the first delivery."""
    texts: tuple[str, ...] | Refused
    """The encoded events, or the reason why the message cannot be read."""


@dataclass(frozen=True, slots=True)
class IngestFailure:
    """A message that the queue must deliver again, and why."""

    message_id: str
    reason: Exception
