"""Exact reads: combine the views, which may lag, with the part of the log after their checkpoint.

A read takes the checkpoint, then records of views, then the log, in this order. A record may therefore be newer than
the checkpoint, but never newer than the log. Each record contains the session up to which it is folded, so no commit is
folded twice. The checkpoint may be an earlier one that the process remembers.

Threads: any thread may call any method. The page cache has no lock: a lost entry only costs another read.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, takewhile
from typing import TypeVar

from chalicelib.domain.errors import BadInput, CommitsDeleted, DamagedRecord, ViewsReset
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, verify_contiguous_backwards
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectGroup, Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.queries.size_limit import UTF8_PAGE, SizeLimit
from chalicelib.domain.views.block import time_item_range
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import (
    BLOCKS_VIEW,
    MAX_CHARACTER,
    TIMES_VIEW,
    Checkpoint,
    Record,
    objects_view,
)
from chalicelib.services.consumers.healing import heal
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.block_search import BlockSearch, SessionRange, growing_batches
from chalicelib.services.reading.scan import binary_search, exponential_search, head_at
from chalicelib.services.reading.session_index import FoundSession, SessionIndex, found_sessions, session_lists
from chalicelib.services.reading.tail_cache import TailCache

T = TypeVar("T")

MAX_CACHED_PAGES = 64
MAX_CACHED_PAGE_BYTES = 64 * 1024
"""Larger pages are not cached."""

MAX_DAMAGED_READS = 5
"""After this many reads of damaged views the reader gives up. Each of them has made the projector start over."""
SCAN_THRESHOLD = 16
"""Up to this number of commits, scanning the log costs less than using the views."""
MAX_COUNTED_COMMITS = 2_000
MAX_SEARCH_DISTANCE = 128
"""A position that is further from the end of the log is searched with the views."""


@dataclass(frozen=True, slots=True)
class CommitRun:
    """The commits that may contain a selected event.

    After reading all of them, the reader knows the log up to the later of `complete_to` and the last commit.
    """

    commits: Iterator[Commit]
    complete_to: Head


class LogReader:
    """Reads the logs, with the help of views. Results are exact even if the views lag behind."""

    def __init__(
        self,
        log: Log,
        views: Views,
        page_size: SizeLimit = UTF8_PAGE,
        tails: TailCache | None = None,
        recent_commits: Callable[[Head], list[Commit] | None] = lambda _: None,
    ) -> None:
        self.log = log
        self.views = views
        self.recent_commits = recent_commits
        """The commits after a head that this process knows without a read. None: it does not know them all.

        There may be newer ones, so this is only for readers that are notified of them.
        """
        self.page_size = page_size
        self._tails = tails or TailCache(log, views)
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

    def read_views(
        self,
        server: int,
        read: Callable[[Checkpoint], T],
        is_complete: Callable[[T], bool] = lambda _: False,
        min_session: int = 0,
    ) -> tuple[Checkpoint, T]:
        """Call `read` with a checkpoint of the views, and return the checkpoint and the result.

        If records may be missing in the result, the current checkpoint is loaded, and the read is repeated if these
        views were lost or deleted. `is_complete` says that none are missing. It is also repeated if a part of the
        views is damaged, which is then rebuilt, or if commits after the checkpoint are deleted. The first checkpoint
        may be a remembered one, but then not before `min_session`.
        """
        failures = 0
        load: Callable[[int], Checkpoint] = partial(self._tails.checkpoint, min_session=min_session)
        while True:
            try:
                checkpoint = load(server)
                load = self._tails.reload_checkpoint
                result = read(checkpoint)
                if is_complete(result) or load(server).follows(checkpoint):
                    return checkpoint, result
            except KeyError:
                if load(server).follows(checkpoint):
                    raise
            except (DamagedRecord, ViewsReset, CommitsDeleted) as damage:
                failures += 1
                if failures == MAX_DAMAGED_READS:
                    raise
                if isinstance(damage, DamagedRecord):
                    heal(self.views, damage)

    def tail(self, head: Head, limit: int | None = None) -> Iterator[Commit]:
        """All commits after `head`, in order."""
        return self._tails.read(head, limit)

    def commits_after(
        self, start: Head, selection: Selection, limit: int | None = None, with_excerpts: bool = False
    ) -> CommitRun:
        """The commits after `start`, without most of those that contain no selected event.

        `limit` is an optimization for selections of everything and may be ignored. With `with_excerpts` some of them
        may be excerpts with the selected events, even if retention has deleted the commits.
        """
        if selection.selects_everything:
            return CommitRun(self.tail(start, limit), start)
        if self._tails.checkpoint(start.server).head.session - start.session <= SCAN_THRESHOLD:
            return CommitRun(self.tail(start), start)
        checkpoint, candidates = self._candidates(start.server, selection, start.session, with_excerpts=with_excerpts)
        if checkpoint.head.session <= start.session:
            return CommitRun(self.tail(start), start)
        return CommitRun(chain(candidates, self.tail(checkpoint.head)), checkpoint.head)

    def commits_before(self, start: Head, selection: Selection) -> Iterator[Commit]:
        """The commits up to `start`, latest first, without most of those that contain no selected event."""
        if selection.selects_everything:
            return verify_contiguous_backwards(self.log.read_backwards(start.server, start.session + 1))
        checkpoint, candidates = self._candidates(start.server, selection, 0, start.session, backwards=True)
        tail_length = max(start.session - checkpoint.head.session, 0)
        tail: Iterable[Commit] = ()
        if tail_length:
            known = self._tails.known_between(checkpoint.head, start)
            commits = self.log.read_backwards(start.server, start.session + 1, tail_length)
            tail = verify_contiguous_backwards(commits) if known is None else reversed(known)
        return chain(tail, candidates)

    def position_at(self, server: int, event_id: int) -> Head:
        """Head of the log as of `event_id`: the last commit without an event after `event_id`."""
        event_id = max(event_id, 0)
        if (position := self._tails.known_position(server, event_id)) is not None:
            return position
        head = self.log.head(server)
        if event_id >= head.last_event_id:
            return head
        earlier, later = exponential_search(self.log, head, event_id, MAX_SEARCH_DISTANCE)
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
        if commit is None or commit.before is None:
            raise BadInput(f"afterPosition={position} is unknown: version 0.1.0 wrote events without positions")
        if commit.before == position:
            return commit.previous_event_id
        # 0 if retention has deleted the event: a feed from there is torn.
        return commit.at_us + position - commit.before - 1 if commit.before < position else 0

    def count_events(self, head: Head) -> int | None:
        """Number of events up to `head`, for a log whose last commit has no position, as version 0.1.0 wrote it.

        None if neither the views nor the last `MAX_COUNTED_COMMITS` commits tell it.
        """
        projected = self._tails.reload_checkpoint(head.server).head
        count = 0
        for commit in self.log.read_backwards(head.server, head.session + 1, MAX_COUNTED_COMMITS):
            if commit.head.position is not None:
                return commit.head.position + count
            if commit.session == projected.session and projected.position is not None:
                return projected.position + count
            count += commit.event_count
            if commit.session == 1:
                return count
        return None

    def object_commits(self, checkpoint: Checkpoint, ref: ObjectRef, record: Record | None) -> Iterator[Commit]:
        """The commits with events of the object, or excerpts of them, according to its record."""
        found = found_sessions(self.views, checkpoint, ref, record, after=0, backwards=False)
        return self._heal_damage(self._fetch_found(checkpoint.head.server, found))

    def first_session(self, server: int, ref: ObjectRef) -> int | None:
        """The first session with events of the object, according to the views. None: they do not have the object."""

        def read(checkpoint: Checkpoint) -> int | None:
            record = self.views.get(checkpoint.view_name(objects_view(ref.collection)), [ref.path]).get(ref.path)
            recent = ObjectView.from_record(record).recent
            lists = session_lists(self.views, checkpoint, ref, recent, after=0, backwards=False)
            return next((part.numbers[0] for part in lists if part.numbers), None)

        return self.read_views(server, read, is_complete=lambda first: first is not None)[1]

    def _candidates(
        self,
        server: int,
        selection: Selection,
        after: int,
        end: int | None = None,
        backwards: bool = False,
        with_excerpts: bool = False,
    ) -> tuple[Checkpoint, Iterator[Commit]]:
        """The commits after `after` and up to `end` that may contain a selected event, and the checkpoint.

        Commits after the checkpoint are left out, because the views do not know all of them. The commits, and the
        records that lead to them, are read as the caller iterates.
        """
        alternatives = {frozenset(each.object_groups) for each in selection.alternatives if each.object_groups}
        others = [each for each in selection.alternatives if not each.object_groups]
        if not alternatives:
            checkpoint, ranges = self._search_blocks(server, _union_of_types(others), after, end, backwards)
            return checkpoint, self._fetch(server, ranges, backwards)
        groups = [group for alternative in alternatives for group in alternative]
        if len(groups) == 1 and not others:
            checkpoint, index = self.read_views(
                server,
                lambda checkpoint: SessionIndex(self.views, checkpoint, after, groups[0]),
                is_complete=lambda index: index.is_complete,
            )
            found = index.sessions(groups[0], _last_session(checkpoint, end), backwards)
            if not with_excerpts:
                found = ((session, None) for session, _ in found)
            return checkpoint, self._heal_damage(self._fetch_found(server, found))
        checkpoint, ranges = self._search_common_sessions(server, alternatives, others, after, end, backwards)
        return checkpoint, self._fetch(server, ranges, backwards)

    def _search_common_sessions(
        self,
        server: int,
        alternatives: Set[frozenset[ObjectGroup]],
        others: Sequence[Selection],
        after: int,
        end: int | None,
        backwards: bool,
    ) -> tuple[Checkpoint, Iterator[SessionRange]]:
        """The commits with events of all groups of an alternative, or of the types of `others`, in order.

        Blocks are read as the caller iterates.
        """
        refs = [ref for alternative in alternatives for group in alternative for ref in group]

        def read(checkpoint: Checkpoint) -> tuple[Iterator[SessionRange], bool]:
            last, index = _last_session(checkpoint, end), SessionIndex(self.views, checkpoint, after, refs)
            sessions = index.common_sessions(alternatives)
            ranges = ((session, session) for session in sorted(sessions, reverse=backwards) if after < session <= last)
            if not others:
                return ranges, index.is_complete
            search = BlockSearch(
                self.views, checkpoint.view_name(BLOCKS_VIEW), _union_of_types(others), after, last, backwards
            )
            root = self.views.get(search.view, [search.root.item]).get(search.root.item)
            found = self._heal_damage(search.ranges(root))
            return _merge_ranges(ranges, found, backwards), index.is_complete and root is not None

        checkpoint, (ranges, _) = self.read_views(server, read, is_complete=lambda result: result[1])
        return checkpoint, ranges

    def _search_blocks(
        self, server: int, selection: Selection, after: int, end: int | None, backwards: bool
    ) -> tuple[Checkpoint, Iterator[SessionRange]]:
        def read_root(checkpoint: Checkpoint) -> tuple[BlockSearch, Record | None]:
            last = _last_session(checkpoint, end)
            search = BlockSearch(self.views, checkpoint.view_name(BLOCKS_VIEW), selection, after, last, backwards)
            return search, self.views.get(search.view, [search.root.item]).get(search.root.item)

        checkpoint, (search, root) = self.read_views(
            server, read_root, is_complete=lambda result: result[1] is not None
        )
        return checkpoint, self._heal_damage(search.ranges(root))

    def _heal_damage(self, found: Iterator[T]) -> Iterator[T]:
        """What the views lead to, which is read as the caller iterates.

        Raises `ViewsReset` if a record is damaged or missing: read again.
        """
        try:
            yield from found
        except DamagedRecord as damage:
            heal(self.views, damage)
            raise ViewsReset(str(damage)) from damage
        except KeyError as missing:
            raise ViewsReset(f"the views do not have {missing}") from missing

    def _fetch_found(self, server: int, found: Iterable[FoundSession]) -> Iterator[Commit]:
        """The excerpts, and the commits of sessions without one, in order. Commits are fetched in few calls."""
        for batch in growing_batches(found):
            missing = [session for session, excerpt in batch if excerpt is None]
            commits = {commit.session: commit for commit in self.log.commits(server, missing)} if missing else {}
            for session, excerpt in batch:
                commit = commits.get(session) if excerpt is None else excerpt
                if commit is not None:
                    yield commit

    def _fetch(self, server: int, ranges: Iterable[SessionRange], backwards: bool) -> Iterator[Commit]:
        """Read the commits of the ranges. Adjacent ranges of a single commit are fetched in few calls."""
        for is_single, group in groupby(ranges, key=lambda sessions: sessions[0] == sessions[1]):
            if is_single:
                for batch in growing_batches(group):
                    yield from self.log.commits(server, [session for session, _ in batch])
            else:
                for first, last in group:
                    yield from self._read_range(server, first, last, backwards)

    def _read_range(self, server: int, first: int, last: int, backwards: bool) -> Iterator[Commit]:
        length = last - first + 1
        if backwards:
            commits = self.log.read_backwards(server, last + 1, length)
        else:
            commits = self.log.read(server, first - 1, length)
        # If commits of the range are deleted, the read continues beyond its end.
        return takewhile(lambda commit: first <= commit.session <= last, commits)

    def _search_bounds(self, server: int, event_id: int, later: int) -> tuple[Head, int]:
        """A commit before and a session after `event_id`, found by the minute of the EventId."""
        view = self._tails.checkpoint(server).view_name(TIMES_VIEW)
        minute, next_minute = time_item_range(event_id)
        try:
            before = next(self.views.range(view, "", minute, backwards=True), None)
            after = next(self.views.range(view, next_minute, MAX_CHARACTER), None)
        except DamagedRecord as damage:
            heal(self.views, damage)
            return Head(server), later  # Search the log itself.
        earlier = head_at(self.log, server, before.version if before else 0)
        while earlier.last_event_id > event_id:  # The EventIds of a commit may extend into the next minute.
            earlier = head_at(self.log, server, earlier.session - 1)
        return earlier, min(later, after.version) if after else later


def _last_session(checkpoint: Checkpoint, end: int | None) -> int:
    """The last session that the views know, up to `end`."""
    return checkpoint.head.session if end is None else min(end, checkpoint.head.session)


def _union_of_types(selections: Sequence[Selection]) -> Selection:
    """A selection of the types of all `selections`, for a search of blocks."""
    if len(selections) == 1 or any(each.types is None for each in selections):
        return selections[0] if len(selections) == 1 else Selection()
    types = tuple(pattern for each in selections for pattern in each.types or ())
    return Selection.model_construct(types=types, keys=None, tags=None)


def _merge_ranges(
    first: Iterable[SessionRange], second: Iterable[SessionRange], backwards: bool
) -> Iterator[SessionRange]:
    """The ranges in reading order, without those within another one. Longer ranges come before those they contain."""
    key = (lambda bounds: (-bounds[1], bounds[0])) if backwards else (lambda bounds: (bounds[0], -bounds[1]))
    last: SessionRange | None = None
    for bounds in heapq.merge(first, second, key=key):
        if last is None or (bounds[0] < last[0] if backwards else bounds[1] > last[1]):
            yield bounds
            last = bounds
