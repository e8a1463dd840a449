"""Blocks: the index of a log by time and by type. A block is some commits in a row."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from pydantic_core import from_json, to_json

from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import BLOCKS, Checkpoint, Record

BLOCK_BITS = 7
"""A block has at most 2**7 commits, and never more than a minute."""
MOST_SUBTYPES = 100
"""More different subtypes at one place than this, and the block no longer says which."""

_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class Block:
    """Some commits in a row: where they begin, and what subtypes can be found in their events."""

    first: int
    to: int
    events: int
    subtypes: tuple[frozenset[str] | None, ...]
    """For each place in a type, which subtypes stand there; None: too many to say."""
    longest: int
    shortest: int
    """The lengths of the types."""

    @staticmethod
    def of(record: Record) -> "Block":
        """What the record says; remembered, for queries look at all blocks and few of them change."""
        return _parsed(record.to, record.data)

    @classmethod
    def before(cls, commit: Commit) -> Self:
        """An empty block that will begin with `commit`."""
        return cls(commit.session, commit.session - 1, 0, (), 0, 2**31)

    def folded(self, commits: Iterable[Commit]) -> Self:
        """The block after those of `commits` that it does not hold yet."""
        places: list[set[str] | None] = [None if names is None else set(names) for names in self.subtypes]
        to, events, longest, shortest = self.to, self.events, self.longest, self.shortest
        types: set[EventType] = set()
        for commit in commits:
            if commit.session > self.to:
                to, events = commit.session, events + commit.n
                types.update(event.stored.type for event in commit.events)
        for event_type in types:
            longest, shortest = max(longest, len(event_type)), min(shortest, len(event_type))
            _note(places, event_type)
        subtypes = tuple(None if names is None else frozenset(names) for names in places)
        return replace(self, to=to, events=events, subtypes=subtypes, longest=longest, shortest=shortest)

    def record(self, checkpoint: Checkpoint, item: str) -> Record:
        """What to store."""
        data = {
            "f": self.first,
            "n": self.events,
            "t": [None if names is None else sorted(names) for names in self.subtypes],
            "l": self.longest,
            "k": self.shortest,
        }
        return Record(checkpoint.view(BLOCKS), item, self.to, to_json(data).decode())

    def may_hold(self, selection: Selection) -> bool:
        """False only if none of its events is selected."""
        return selection.types is None or any(self._may_match(pattern) for pattern in selection.types)

    def _may_match(self, pattern: EventType) -> bool:
        fixed = pattern[:-1] if pattern[-1:] == ("*",) else pattern
        if len(fixed) > self.longest or (fixed is pattern and len(fixed) < self.shortest):
            return False
        return all(
            wanted == "?" or names is None or wanted in names
            for wanted, names in zip(fixed, self.subtypes, strict=False)
        )


@lru_cache(maxsize=8192)
def _parsed(to: int, text: str) -> Block:
    data = from_json(text)
    subtypes = tuple(None if names is None else frozenset(names) for names in data["t"])
    return Block(data["f"], to, data["n"], subtypes, data["l"], data["k"])


def _note(places: list[set[str] | None], event_type: EventType) -> None:
    for place, subtype in enumerate(event_type):
        if place == len(places):
            places.append(set())
        names = places[place]
        if names is not None:
            names.add(subtype)
            if len(names) > MOST_SUBTYPES:
                places[place] = None


def block_item(commit: Commit) -> str:
    """The block that a commit belongs to; later commits never belong to earlier blocks."""
    return f"{commit.at // _MINUTE:010d}.{commit.session >> BLOCK_BITS:011d}"


def block_items_of(event_id: int) -> tuple[str, str]:
    """All blocks of the minute of `event_id` lie between these two."""
    minute = event_id // _MINUTE
    return f"{minute:010d}", f"{minute + 1:010d}"
