"""Pages: what one pass through a log has found."""

from dataclasses import dataclass, field

from chalicelib.domain.events.head import Head


@dataclass(frozen=True, slots=True)
class Page:
    """Events found, and how far the log was looked through to find them."""

    seen: Head
    """The last commit that was looked through to its end."""
    event_id: int
    """The last EventId looked at."""
    wires: list[str] = field(default_factory=list)
    """The JSON of each event."""
    first_at: int | None = None
    """The time of the first event found."""
    complete: bool = True
    """Whether the page goes to the end of the log as it was."""
