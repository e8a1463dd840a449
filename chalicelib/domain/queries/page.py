"""The result of scanning a part of a log."""

from dataclasses import dataclass, field

from chalicelib.domain.events.head import Head


@dataclass(frozen=True, slots=True)
class Page:
    """Matching events, and how far the log was scanned to find them."""

    scanned_to: Head
    """The last commit that was scanned completely."""
    event_id: int
    """The last EventId that was scanned."""
    texts: list[str] = field(default_factory=list)
    """The formatted events."""
    first_at_us: int | None = None
    """The time of the first matching event."""
    position: int | None = field(default=None, compare=False)
    """Position of the event with `event_id`. None: unknown."""
    is_complete: bool = True
    """Whether the scan reached the end of the log as it was when the scan began."""
