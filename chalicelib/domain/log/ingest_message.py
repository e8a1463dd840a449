"""Messages of the ingest queue."""

from dataclasses import dataclass

from chalicelib.domain.errors import Refused


@dataclass(frozen=True, slots=True)
class IngestMessage:
    """A message with events to append."""

    message_id: str
    receipt: str
    """Needed to change when the queue delivers the message again."""
    organization: str
    sequence: int
    """Increases within an organization."""
    receives: int
    """Number of deliveries by the queue, including this one."""
    first_received_ms: int
    """When the queue first delivered the message."""
    body: str
    """The message as it was sent."""
    texts: tuple[str, ...] | Refused
    """The encoded events, or the reason why the message cannot be read."""
