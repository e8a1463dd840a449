"""What a run leaves behind for the checker: what was asked, what was answered, what was seen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Mark(NamedTuple):
    """What every event carries in its payload: its request, its place in it, and how many belong together."""

    tag: str
    place: int
    """From 0."""
    of: int


class Numbered(NamedTuple):
    """How the log has numbered an event."""

    id: str
    """Such as 1.7.1."""
    event_id: int


class Seen(NamedTuple):
    """An event as the log holds it or a reader got it."""

    id: str
    event_id: int
    mark: Mark


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was sent at least once."""

    tag: str
    count: int
    keys: tuple[str, ...] = ()
    """With a condition: no event with one of these keys may come after `after` and before the request."""
    after: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader saw after the position `start`, in its order, until it had looked at everything up to `end`."""

    reader: str
    start: int
    end: int
    seen: Sequence[Seen]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known from outside the log."""

    asked: Mapping[str, Asked]
    """Every request, by its tag."""
    acknowledged: Mapping[str, Iterable[tuple[Numbered, ...]]]
    """By tag, every positive answer; a repeated request has several."""
    refused: frozenset[str] = frozenset()
    """Tags of requests that were told: not written."""
    readings: Sequence[Reading] = field(default_factory=tuple)
