"""Evidence of a run for the checker: requests, responses and reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Mark(NamedTuple):
    """Identifies an event in its payload: its request, its index, and the number of events in the request."""

    tag: str
    position: int
    total: int


class AssignedId(NamedTuple):
    """The ids that the log assigned to an event."""

    id: str
    """For example 1.7.1."""
    event_id: int


class ReadEvent(NamedTuple):
    """An event as stored in the log or received by a reader."""

    id: str
    event_id: int
    mark: Mark


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that was sent at least once."""

    tag: str
    count: int
    keys: tuple[str, ...] = ()
    """Append condition: no event with one of these keys after `after` and before the request."""
    after: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """The events that a reader received in order, from the position `start` up to `end`."""

    reader: str
    start: int
    end: int
    seen: Sequence[ReadEvent]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known about a run apart from the log itself."""

    sent: Mapping[str, SentRequest]
    """All requests by tag."""
    acknowledged: Mapping[str, Iterable[tuple[AssignedId, ...]]]
    """All successful responses by tag. A repeated request has several."""
    refused: frozenset[str] = frozenset()
    """Tags of requests that were rejected without being written."""
    readings: Sequence[Reading] = field(default_factory=tuple)
