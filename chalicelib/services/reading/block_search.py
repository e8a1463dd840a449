"""Search the tree of blocks for the commits that may contain a selected event."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.block import Block, BlockId
from chalicelib.domain.views.record import Record
from chalicelib.services.ports import Views

T = TypeVar("T")

FIRST_BATCH = 2
BATCH_GROWTH = 4
MAX_BATCH = 64
"""Batches grow: the first results cost few reads, and long searches take few calls."""
MIN_FRUITLESS_BLOCKS = 32
"""After at least this number of blocks without a result, a commit without a selected event is found.

Readers limit their time, and look at the clock with each commit. Without such commits, a search for two subtypes that
are common, but not in the same commits, would read the blocks of the whole log first.
"""
MAX_GAP = 4
"""Commits that are closer together are read as one range."""

SessionRange = tuple[int, int]
"""First and last session."""


@dataclass(frozen=True, slots=True)
class BlockSearch:
    """A search in the sessions after `after` and up to `end`, which the blocks must know."""

    views: Views
    view: str
    """Full name of the view with the blocks."""
    selection: Selection
    after: int
    end: int
    backwards: bool = False

    @property
    def root(self) -> BlockId:
        return BlockId.root(self.end)

    def ranges(self, root: Record | None) -> Iterator[SessionRange]:
        """The ranges that may contain a selected event, in reading order. Blocks are read as the caller iterates."""
        if self.after >= self.end:
            return iter(())
        if self.selection.types is None:
            return iter([(self.after + 1, self.end)])
        return self._search_block(self.root, root)

    def _search(self, block_ids: Iterable[BlockId]) -> Iterator[SessionRange]:
        for batch in growing_batches(block_ids):
            records = self.views.get(self.view, [block_id.item for block_id in batch])
            for block_id in batch:
                yield from self._search_block(block_id, records.get(block_id.item))

    def _search_block(self, block_id: BlockId, record: Record | None) -> Iterator[SessionRange]:
        if record is None:
            # Retention has deleted its commits, or the views were rebuilt and these are being deleted. The log itself
            # is always right.
            return iter([(max(block_id.first_session, self.after + 1), min(block_id.last_session, self.end))])
        children = self._children(block_id, Block.from_record(record))
        if not block_id.level:
            return iter(_join([child.number for child in children]))
        return self._search_lowest(children) if block_id.level == 1 else self._search(children)

    def _search_lowest(self, block_ids: Sequence[BlockId]) -> Iterator[SessionRange]:
        """Search blocks of level 0. If there is nothing in many of them, yields the end of the search so far."""
        is_fruitless = len(block_ids) >= MIN_FRUITLESS_BLOCKS
        for sessions in self._search(block_ids):
            is_fruitless = False
            yield sessions
        if is_fruitless:
            last = block_ids[-1]
            end = max(last.first_session, self.after + 1) if self.backwards else min(last.last_session, self.end)
            yield end, end

    def _children(self, block_id: BlockId, block: Block) -> list[BlockId]:
        """The children that may contain a selected event, in reading order."""
        indexes = set(block.children(self.selection))
        if block_id.level and block_id.number == 0:
            indexes.add(0)  # The first block of a level does not know its first child.
        children = (block_id.child(index) for index in sorted(indexes, reverse=self.backwards))
        return [child for child in children if child.last_session > self.after and child.first_session <= self.end]


def growing_batches(items: Iterable[T]) -> Iterator[list[T]]:
    iterator, size = iter(items), FIRST_BATCH
    while batch := list(islice(iterator, size)):
        yield batch
        size = min(size * BATCH_GROWTH, MAX_BATCH)


def _join(sessions: list[int]) -> list[SessionRange]:
    """Ranges of sessions, ascending or descending, that are close together."""
    ranges: list[SessionRange] = []
    for session in sessions:
        if ranges and session - MAX_GAP <= ranges[-1][1] and session + MAX_GAP >= ranges[-1][0]:
            first, last = ranges[-1]
            ranges[-1] = min(first, session), max(last, session)
        else:
            ranges.append((session, session))
    return ranges
