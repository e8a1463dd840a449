"""EventSeq: the result of reading a feed, in JobScheduler's three variants."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """Matching events. The feed has been read up to `event_id`."""

    event_id: int
    texts: list[str]
    """The formatted events."""
    more_follows: bool = False
    """Whether the result was cut, so that more events may match."""
    position: int | None = field(default=None, compare=False)
    """Position of `event_id`. None: unknown."""


@dataclass(frozen=True, slots=True)
class Empty:
    """No event matched before the timeout. Continue after `last_event_id`."""

    last_event_id: int
    more_follows: bool = False
    """Whether the search was cut before the end of the log."""
    position: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Torn:
    """Retention has deleted events after the requested position. Start over with a snapshot, or after `event_id`."""

    event_id: int
    position: int | None = field(default=None, compare=False)


EventSeq = NonEmpty | Empty | Torn
