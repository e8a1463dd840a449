"""Blocks: an index of the log by time and by event type. A block covers consecutive commits."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from pydantic_core import from_json, to_json

from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import BLOCKS_VIEW, Checkpoint, Record

BLOCK_BITS = 7
"""A block covers at most 2**7 commits, all of the same minute."""
MAX_SUBTYPES_PER_POSITION = 100
"""A block with more distinct subtypes at one position of its types stops listing them."""

_MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True)
class Block:
    """A range of sessions, and the subtypes that occur in their events."""

    first_session: int
    last_session: int
    event_count: int
    subtypes: tuple[frozenset[str] | None, ...]
    """The subtypes at each position of the event types. None: too many to list."""
    max_type_length: int
    min_type_length: int

    @staticmethod
    def from_record(record: Record) -> "Block":
        """Parse a record. The result is cached, because queries read all blocks and few of them change."""
        return _parse(record.version, record.data)

    @classmethod
    def empty_before(cls, commit: Commit) -> Self:
        """An empty block whose first commit will be `commit`."""
        return cls(commit.session, commit.session - 1, 0, (), 0, 2**31)

    def fold(self, commits: Iterable[Commit]) -> Self:
        """The block with `commits` added. Commits that it already covers are ignored."""
        subtypes: list[set[str] | None] = [None if names is None else set(names) for names in self.subtypes]
        last_session, event_count = self.last_session, self.event_count
        types: set[EventType] = set()
        for commit in commits:
            if commit.session > self.last_session:
                last_session, event_count = commit.session, event_count + commit.event_count
                types.update(event.fields.type for event in commit.events)
        for event_type in types:
            _add_subtypes(subtypes, event_type)
        return replace(
            self,
            last_session=last_session,
            event_count=event_count,
            subtypes=tuple(None if names is None else frozenset(names) for names in subtypes),
            max_type_length=max([self.max_type_length, *map(len, types)]),
            min_type_length=min([self.min_type_length, *map(len, types)]),
        )

    def to_record(self, checkpoint: Checkpoint, item: str) -> Record:
        data = {
            "f": self.first_session,
            "n": self.event_count,
            "t": [None if names is None else sorted(names) for names in self.subtypes],
            "l": self.max_type_length,
            "k": self.min_type_length,
        }
        return Record(checkpoint.view_name(BLOCKS_VIEW), item, self.last_session, to_json(data).decode())

    def may_contain(self, selection: Selection) -> bool:
        """False only if the selection matches none of the block's events."""
        return selection.types is None or any(self._may_match(pattern) for pattern in selection.types)

    def _may_match(self, pattern: EventType) -> bool:
        fixed = pattern[:-1] if pattern[-1:] == ("*",) else pattern
        if len(fixed) > self.max_type_length or (fixed is pattern and len(fixed) < self.min_type_length):
            return False
        return all(
            subtype == "?" or names is None or subtype in names
            for subtype, names in zip(fixed, self.subtypes, strict=False)
        )


@lru_cache(maxsize=8192)
def _parse(last_session: int, text: str) -> Block:
    data = from_json(text)
    subtypes = tuple(None if names is None else frozenset(names) for names in data["t"])
    return Block(data["f"], last_session, data["n"], subtypes, data["l"], data["k"])


def _add_subtypes(subtypes: list[set[str] | None], event_type: EventType) -> None:
    for position, subtype in enumerate(event_type):
        if position == len(subtypes):
            subtypes.append(set())
        names = subtypes[position]
        if names is not None:
            names.add(subtype)
            if len(names) > MAX_SUBTYPES_PER_POSITION:
                subtypes[position] = None


def block_item(commit: Commit) -> str:
    """The item of the block that covers a commit. Items are in the order of the commits."""
    return f"{commit.at_us // _MINUTE_US:010d}.{commit.session >> BLOCK_BITS:011d}"


def block_item_range(event_id: int) -> tuple[str, str]:
    """Bounds of the items of all blocks in the minute of `event_id`."""
    minute = event_id // _MINUTE_US
    return f"{minute:010d}", f"{minute + 1:010d}"
