"""Blocks: an index of the log by event type, and an index by time.

The index by type is a tree. A block of level 0 covers up to 128 commits, a block of level 1 up to 128 of those blocks,
and so on. For each subtype a block lists the children that contain it, so a search reads one block per level. Each
block is folded from the commits themselves, and stored again only if its content changes.

The log of a small organization has a single block: higher levels begin with their second child. The first child of the
first block of a level is therefore unknown and always searched.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

from pydantic_core import from_json, to_json

from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import BLOCKS_VIEW, TIMES_VIEW, Checkpoint, Record

BLOCK_BITS = 7
"""A block has at most 2**7 children."""
MAX_SUBTYPES_PER_POSITION = 100
"""A block of level 0 with more distinct subtypes at one position of its types stops listing them."""
MAX_INNER_SUBTYPES_PER_POSITION = 500
"""The same for higher levels. A read unit of DynamoDB pays for about this number."""
MAX_CHARACTERS_PER_POSITION = 16_000
"""A block whose subtypes at one position are longer than this together stops listing them, too."""
MAX_LISTED_CHILDREN = 16
"""A subtype that more children contain counts as contained in all of them. Blocks then stay small and seldom change."""

_ALL_CHILDREN = -1
_MINUTE_US = 60_000_000

Children = int
"""A bit for each child that contains a subtype. All bits are set if there are too many to list."""


class BlockId(NamedTuple):
    """A block's place in the tree, from which its sessions follow."""

    level: int
    number: int

    @classmethod
    def root(cls, last_session: int) -> Self:
        """The block that covers all sessions up to `last_session`."""
        level = 0
        while last_session >> BLOCK_BITS * (level + 1):
            level += 1
        return cls(level, 0)

    @property
    def item(self) -> str:
        return f"{self.level}.{self.number:013d}"

    @property
    def first_session(self) -> int:
        return self.number << BLOCK_BITS * (self.level + 1)

    @property
    def last_session(self) -> int:
        return ((self.number + 1) << BLOCK_BITS * (self.level + 1)) - 1

    def child(self, index: int) -> "BlockId":
        """The block of the next lower level. Below level 0, its number is a session."""
        return BlockId(self.level - 1, (self.number << BLOCK_BITS) + index)


class CommitSubtypes(NamedTuple):
    """The part of a commit that blocks contain."""

    session: int
    subtypes: frozenset[tuple[int, str]]
    """Each subtype with its position in the types."""
    min_type_length: int

    @classmethod
    def of(cls, commit: Commit) -> Self:
        types = {event.fields.type for event in commit.events}
        subtypes = frozenset(pair for event_type in types for pair in enumerate(event_type))
        return cls(commit.session, subtypes, min(map(len, types)))


@dataclass(frozen=True, slots=True)
class Block:
    """The subtypes that occur in a range of sessions, and in which children."""

    last_session: int = 0
    """The last session that changed the block."""
    subtypes: tuple[Mapping[str, Children] | None, ...] = ()
    """The subtypes at each position of the event types. None: too many to list."""
    min_type_length: int = 2**31

    @classmethod
    def from_record(cls, record: Record | None) -> "Block":
        """An empty block if there is no record. The result is cached, because few blocks change."""
        return cls() if record is None else _parse(record.version, record.data)

    def fold(self, level: int, commits: Iterable[CommitSubtypes]) -> "Block":
        """The block with `commits` added. Those up to the last session are already contained."""
        subtypes = [None if names is None else dict(names) for names in self.subtypes]
        last_session, min_type_length = self.last_session, self.min_type_length
        max_names = MAX_INNER_SUBTYPES_PER_POSITION if level else MAX_SUBTYPES_PER_POSITION
        for commit in commits:
            if commit.session <= self.last_session:
                continue
            child = 1 << (commit.session >> BLOCK_BITS * level) % 2**BLOCK_BITS
            has_changed = _add_subtypes(subtypes, commit.subtypes, child, max_names)
            if has_changed or commit.min_type_length < min_type_length:
                last_session, min_type_length = commit.session, min(commit.min_type_length, min_type_length)
        return Block(last_session, tuple(subtypes), min_type_length)

    def to_record(self, checkpoint: Checkpoint, block_id: BlockId) -> Record:
        positions = [
            None if names is None else {name: _encode(children) for name, children in sorted(names.items())}
            for names in self.subtypes
        ]
        data = to_json({"t": positions, "k": self.min_type_length}).decode()
        return Record(checkpoint.view_name(BLOCKS_VIEW), block_id.item, self.last_session, data)

    def children(self, selection: Selection) -> Iterator[int]:
        """Indexes of the children that may contain a selected event."""
        found = _ALL_CHILDREN if selection.types is None else 0
        for pattern in selection.types or ():
            found |= self._children_with(pattern)
        return (index for index in range(2**BLOCK_BITS) if found >> index & 1)

    def _children_with(self, pattern: EventType) -> Children:
        fixed = pattern[:-1] if pattern[-1:] == ("*",) else pattern
        if len(fixed) > len(self.subtypes) or (fixed is pattern and len(fixed) < self.min_type_length):
            return 0
        children = _ALL_CHILDREN
        for subtype, names in zip(fixed, self.subtypes, strict=False):
            if subtype != "?" and names is not None:
                children &= names.get(subtype, 0)
        return children


def subtypes_by_block(commits: Iterable[Commit]) -> dict[BlockId, list[CommitSubtypes]]:
    """The blocks that commits belong to, and what they add to them."""
    blocks: dict[BlockId, list[CommitSubtypes]] = {}
    for commit in commits:
        subtypes = CommitSubtypes.of(commit)
        for level in range(BlockId.root(commit.session).level + 1):
            block_id = BlockId(level, commit.session >> BLOCK_BITS * (level + 1))
            blocks.setdefault(block_id, []).append(subtypes)
    return blocks


def time_item(commit: Commit) -> str:
    """The item of the index by time that covers a commit. Items are in the order of the commits."""
    return f"{commit.at_us // _MINUTE_US:010d}.{commit.session >> BLOCK_BITS:011d}"


def time_record(checkpoint: Checkpoint, item: str, first_session: int) -> Record:
    """The record of an item. Its version is the first session in it, so it never changes."""
    return Record(checkpoint.view_name(TIMES_VIEW), item, first_session, "{}")


def time_item_range(event_id: int) -> tuple[str, str]:
    """Bounds of the items of all commits in the minute of `event_id`."""
    minute = event_id // _MINUTE_US
    return f"{minute:010d}", f"{minute + 1:010d}"


def _add_subtypes(
    positions: list[dict[str, Children] | None], subtypes: Iterable[tuple[int, str]], child: Children, max_names: int
) -> bool:
    """Add subtypes that occur in `child`. Returns whether anything has changed."""
    has_changed = False
    for position, subtype in subtypes:
        while position >= len(positions):
            positions.append({})
            has_changed = True
        names = positions[position]
        if names is None or names.get(subtype, 0) & child:
            continue
        has_changed = True
        is_new = subtype not in names
        children = names.get(subtype, 0) | child
        names[subtype] = _ALL_CHILDREN if children.bit_count() > MAX_LISTED_CHILDREN else children
        if is_new and (len(names) > max_names or sum(map(len, names)) > MAX_CHARACTERS_PER_POSITION):
            positions[position] = None
    return has_changed


def _encode(children: Children) -> str:
    """The indexes of the children, two digits each. Empty: all children."""
    if children == _ALL_CHILDREN:
        return ""
    return bytes(index for index in range(2**BLOCK_BITS) if children >> index & 1).hex()


def _decode(text: str) -> Children:
    return sum(1 << index for index in bytes.fromhex(text)) if text else _ALL_CHILDREN


@lru_cache(maxsize=8192)
def _parse(last_session: int, text: str) -> Block:
    data = from_json(text)
    subtypes = tuple(
        None if names is None else {name: _decode(children) for name, children in names.items()} for names in data["t"]
    )
    return Block(last_session, subtypes, data["k"])
