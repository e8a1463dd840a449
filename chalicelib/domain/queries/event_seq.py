"""EventSeq: how a feed answers (JobScheduler's three variants)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """These events matched; everything up to `event_id` has been looked at."""

    event_id: int
    wires: list[str]
    """The JSON of each event."""


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing matched until the deadline: ask again after `last_event_id`."""

    last_event_id: int


@dataclass(frozen=True, slots=True)
class Torn:
    """Something after the position asked for is forgotten: begin again with a snapshot, or after `event_id`."""

    event_id: int


EventSeq = NonEmpty | Empty | Torn
