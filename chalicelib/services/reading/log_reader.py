"""Exact reads: combine the views, which may lag, with the part of the log after their checkpoint.

A read loads the checkpoint, then records of views, then the log, in this order. A record may therefore be newer than
the checkpoint, but never newer than the log. Each record contains the session up to which it is folded, so no commit is
folded twice.

Threads: any thread may call any method. The page cache has no lock: a lost entry only costs another read.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TypeVar

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, verify_contiguous, verify_contiguous_backwards
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.queries.size_limit import UTF8_PAGE, SizeLimit
from chalicelib.domain.views.block import Block, block_item_range
from chalicelib.domain.views.record import (
    BLOCKS_VIEW,
    MAX_CHARACTER,
    PROJECTOR,
    Checkpoint,
    ConditionalWrite,
    Record,
)
from chalicelib.services.consumers.consumer import load_checkpoint
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.object_index import ObjectIndex
from chalicelib.services.reading.scan import binary_search, exponential_search, head_at

T = TypeVar("T")

MAX_CACHED_PAGES = 64
MAX_CACHED_PAGE_BYTES = 64 * 1024
"""Larger pages are not cached."""

SCAN_THRESHOLD = 128
"""Up to this number of commits, scanning the log is faster than using the views."""


@dataclass(frozen=True, slots=True)
class CommitRun:
    """The commits that may contain a selected event.

    After reading all of them, the reader knows the log up to the later of `complete_to` and the last commit.
    """

    commits: Iterator[Commit]
    complete_to: Head


class NoViews:
    """Views without any record, which make a `LogReader` read everything from the log."""

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        del view, items
        return {}

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        del view, start, end, backwards
        return iter(())

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        """Refuse all changes."""
        return list(changes)

    def drop(self, view: str) -> int:
        del view
        return 0


class LogReader:
    """Reads the logs, with the help of views. Results are exact even if the views lag behind."""

    def __init__(self, log: Log, views: Views, page_size: SizeLimit = UTF8_PAGE) -> None:
        self.log = log
        self.views = views
        self.page_size = page_size
        self._pages: dict[Hashable, Page] = {}

    def cached_page(self, key: Hashable, read: Callable[[], Page]) -> Page:
        """Return the cached page of `key`, or `read` and cache it.

        A commit wakes all long polls for it at the same time, and they share one page. Only pages with events are
        cached. They stay valid because the log only grows, and the client reads the rest with its next request.
        """
        page = self._pages.get(key)
        if page is None:
            page = read()
            if page.texts and sum(map(len, page.texts)) <= MAX_CACHED_PAGE_BYTES:
                if len(self._pages) >= MAX_CACHED_PAGES:
                    self._pages = {}
                self._pages[key] = page
        return page

    def read_views(self, server: int, read: Callable[[Checkpoint], T]) -> tuple[Checkpoint, T]:
        """Call `read` with the checkpoint of the views, and return the checkpoint and the result.

        Repeats the read if the views were rebuilt meanwhile, because the old ones are then being deleted.
        """
        while True:
            checkpoint = load_checkpoint(PROJECTOR, server, self.views)
            try:
                result = read(checkpoint)
            except KeyError:
                if not self._is_outdated(checkpoint):
                    raise
                continue
            if not self._is_outdated(checkpoint):
                return checkpoint, result

    def tail(self, head: Head, limit: int | None = None) -> Iterator[Commit]:
        """All commits after `head`, in order."""
        return verify_contiguous(head, self.log.read(head.server, head.session, limit))

    def commits_after(self, start: Head, selection: Selection, limit: int | None = None) -> CommitRun:
        """The commits after `start`, without most of those that contain no selected event.

        `limit` is an optimization for selections of everything and may be ignored.
        """
        if selection.selects_everything or self.log.head(start.server).session - start.session <= SCAN_THRESHOLD:
            return CommitRun(self.tail(start, limit), start)
        checkpoint, ranges = self.read_views(
            start.server, lambda checkpoint: self._candidate_ranges(checkpoint, start.session, selection)
        )
        if checkpoint.head.session <= start.session:
            return CommitRun(self.tail(start), start)
        return CommitRun(chain(self._fetch(start.server, ranges), self.tail(checkpoint.head)), checkpoint.head)

    def commits_before(self, start: Head, selection: Selection) -> Iterator[Commit]:
        """The commits up to `start`, latest first, without most of those that contain no selected event."""
        if selection.selects_everything:
            return verify_contiguous_backwards(self.log.read_backwards(start.server, start.session + 1))
        checkpoint, ranges = self.read_views(
            start.server, lambda checkpoint: self._candidate_ranges(checkpoint, 0, selection)
        )
        tail_length = max(start.session - checkpoint.head.session, 0)
        last_indexed = min(start.session, checkpoint.head.session)
        indexed = [(first, min(last, last_indexed)) for first, last in reversed(ranges) if first <= last_indexed]
        tail: Iterable[Commit] = ()
        if tail_length:
            commits = self.log.read_backwards(start.server, start.session + 1, tail_length)
            tail = verify_contiguous_backwards(commits)
        return chain(tail, self._fetch(start.server, indexed, backwards=True))

    def position_at(self, server: int, event_id: int) -> Head:
        """Head of the log as of `event_id`: the last commit without an event after `event_id`."""
        head, event_id = self.log.head(server), max(event_id, 0)
        if event_id >= head.last_event_id:
            return head
        earlier, later = exponential_search(self.log, head, event_id, SCAN_THRESHOLD)
        if earlier.last_event_id > event_id:
            earlier, later = self._search_bounds(server, event_id, earlier.session)
        return binary_search(self.log, earlier, later, event_id)

    def event_id_at(self, server: int, position: int) -> int:
        """EventId of the event at a position, 0 for position 0. Raises `BadInput` if there is no such event."""
        head = self.log.head(server)
        if position <= 0:
            return 0
        if head.position is None or position > head.position:
            end = "unknown" if head.position is None else head.position
            raise BadInput(f"afterPosition={position} is beyond the end of the log: the last position is {end}")
        earlier, later, step = head.session - 1, head.session, 1
        while (
            earlier > 0 and (end_position := head_at(self.log, server, earlier).position) and end_position >= position
        ):
            earlier, later, step = earlier - 2 * step, earlier, step * 2
        earlier = max(earlier, 0)
        while later - earlier > 1:
            middle = (earlier + later) // 2
            is_earlier = (head_at(self.log, server, middle).position or 0) < position
            earlier, later = (middle, later) if is_earlier else (earlier, middle)
        commit = self.log.commit(server, later)
        if commit is None or commit.before is None or commit.before >= position:
            raise BadInput(f"afterPosition={position} is unknown: its event is no longer kept, or has no position")
        return commit.at_us + position - commit.before - 1

    def count_events(self, head: Head) -> int:
        """Number of events up to `head`, for a log whose last commit has no position, as version 0.1.0 wrote it."""

        def count(checkpoint: Checkpoint) -> int:
            records = self.views.range(checkpoint.view_name(BLOCKS_VIEW), "", MAX_CHARACTER)
            return sum(Block.from_record(record).event_count for record in records)

        while True:
            checkpoint, total = self.read_views(head.server, count)
            # A block may be newer than the checkpoint. Count again until no commit is projected meanwhile.
            if checkpoint == load_checkpoint(PROJECTOR, head.server, self.views):
                break
        if checkpoint.head.session > head.session:
            return self._count_scanned(Head(head.server), head)
        return total + self._count_scanned(checkpoint.head, head)

    def _count_scanned(self, start: Head, end: Head) -> int:
        commits = takewhile(lambda commit: commit.session <= end.session, self.tail(start))
        return sum(commit.event_count for commit in commits)

    def sessions_of(self, checkpoint: Checkpoint, ref: ObjectRef) -> list[int]:
        """All sessions with events of the object, according to the views."""
        return ObjectIndex(self.views, checkpoint).sessions_of(ref)

    def _is_outdated(self, checkpoint: Checkpoint) -> bool:
        """Whether the views of `checkpoint` were replaced by rebuilt ones."""
        return load_checkpoint(PROJECTOR, checkpoint.head.server, self.views).generation != checkpoint.generation

    def _candidate_ranges(self, checkpoint: Checkpoint, after: int, selection: Selection) -> list[tuple[int, int]]:
        """Ranges (first and last session) of the commits after `after` that may contain a selected event.

        Commits after the checkpoint are left out, because the views do not know all of them.
        """
        end = checkpoint.head.session
        by_object = [each for each in selection.alternatives if each.object_groups]
        by_type = [each for each in selection.alternatives if not each.object_groups]
        sessions = ObjectIndex(self.views, checkpoint).candidate_sessions(by_object, after)
        ranges = [(session, session) for session in sessions if session <= end]
        if by_type:
            records = self.views.range(checkpoint.view_name(BLOCKS_VIEW), "", MAX_CHARACTER)
            blocks = (Block.from_record(record) for record in records if record.version > after)
            ranges += [
                (max(block.first_session, after + 1), min(block.last_session, end))
                for block in blocks
                if block.first_session <= end and any(block.may_contain(each) for each in by_type)
            ]
        return _without_nested(ranges)

    def _fetch(self, server: int, ranges: Iterable[tuple[int, int]], backwards: bool = False) -> Iterator[Commit]:
        """Read the commits of the ranges. Adjacent ranges of a single commit are fetched in one call."""
        singles: list[int] = []
        for first, last in ranges:
            if first == last:
                singles.append(first)
                continue
            yield from self.log.commits(server, singles)
            singles = []
            length = last - first + 1
            commits = (
                self.log.read_backwards(server, last + 1, length)
                if backwards
                else self.log.read(server, first - 1, length)
            )
            # If commits of the range are deleted meanwhile, the read continues beyond its end.
            yield from (commit for commit in commits if first <= commit.session <= last)
        yield from self.log.commits(server, singles)

    def _search_bounds(self, server: int, event_id: int, later: int) -> tuple[Head, int]:
        """A commit before and a session after `event_id`, found by the minute of the EventId."""
        view = load_checkpoint(PROJECTOR, server, self.views).view_name(BLOCKS_VIEW)
        minute, next_minute = block_item_range(event_id)
        before = next(self.views.range(view, "", minute, backwards=True), None)
        after = next(self.views.range(view, next_minute, MAX_CHARACTER), None)
        earlier = head_at(self.log, server, before.version if before else 0)
        while earlier.last_event_id > event_id:  # The EventIds of a commit may extend into the next minute.
            earlier = head_at(self.log, server, earlier.session - 1)
        return earlier, min(later, Block.from_record(after).first_session) if after else later


def _without_nested(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges in order, without those within another one."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(ranges, key=lambda bounds: (bounds[0], -bounds[1])):
        if not result or last > result[-1][1]:
            result.append((first, last))
    return result
