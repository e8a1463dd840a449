"""Present: exact reads. Every read is what the views say up to their checkpoint, and then the log after it.

In this order: the checkpoint, the records of views, the log. So a record may be ahead of the checkpoint, but never of
the log; it knows how far it is folded, and what it already holds is not folded again.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit, chained, chained_back
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.views.block import Block, block_items_of
from chalicelib.domain.views.object_view import ObjectView, moved, moved_item
from chalicelib.domain.views.record import BLOCKS, END, PROJECT, SESSIONS, Change, Checkpoint, Record, objects_view
from chalicelib.services.consumers.consumer import checkpoint_of
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.scan import galloped, head_at, searched

T = TypeVar("T")

SHARED = 64
SHARED_BYTES = 64 * 1024
"""So many pages, and such small ones, are kept for others who may ask for the same."""

SCAN_THRESHOLD = 128
"""So many commits are read faster than looked up."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Commits in order; when they are all read, everything up to `known`, and up to the last of them, is known."""

    commits: Iterator[Commit]
    known: Head


class NoViews:
    """Views that nobody has built: everything is read from the log."""

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """None of them."""
        del view, items
        return {}

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        """None."""
        del view, start, end, backwards
        return iter(())

    def put(self, changes: Sequence[Change]) -> list[Change]:
        """All refused."""
        return list(changes)

    def drop(self, view: str) -> int:
        """None left."""
        del view
        return 0


class LogReader:
    """The log, and the views that make it quick to read. They may lag behind; what is read here does not."""

    def __init__(self, log: Log, views: Views) -> None:
        self.log = log
        self.views = views
        self._shared: dict[Hashable, Page] = {}

    def shared(self, what: Hashable, read: Callable[[], Page]) -> Page:
        """What `read` finds, read once for all who ask for the same: those who wait are woken together.

        A page that holds something stays true, for the log only grows; who reads on after it finds the rest.
        """
        page = self._shared.get(what)
        if page is None:
            page = read()
            if page.wires and sum(map(len, page.wires)) <= SHARED_BYTES:
                if len(self._shared) >= SHARED:
                    self._shared = {}
                self._shared[what] = page
        return page

    def read_views(self, server: int, read: Callable[[Checkpoint], T]) -> tuple[Checkpoint, T]:
        """What `read` finds in the views, and the checkpoint up to which that is complete."""
        while True:
            checkpoint = checkpoint_of(PROJECT, server, self.views)
            try:
                found = read(checkpoint)
            except KeyError:
                if not self._is_built_anew(checkpoint):
                    raise
                continue
            if not self._is_built_anew(checkpoint):
                return checkpoint, found

    def _is_built_anew(self, checkpoint: Checkpoint) -> bool:
        """Whether the views are others by now, and those of the checkpoint perhaps being forgotten."""
        return checkpoint_of(PROJECT, checkpoint.head.server, self.views).generation != checkpoint.generation

    def after(self, head: Head, most: int | None = None) -> Iterator[Commit]:
        """All commits after `head`, in order."""
        return chained(head, self.log.read(head.server, head.session, most))

    def ahead(self, start: Head, selection: Selection, most: int | None = None) -> Ahead:
        """The commits after `start` without those that surely hold nothing selected."""
        if selection.everything or self.log.head(start.server).session - start.session <= SCAN_THRESHOLD:
            return Ahead(self.after(start, most), start)
        checkpoint, indexed = self.read_views(
            start.server, lambda found: self._indexed(found, start.session, selection)
        )
        if checkpoint.head.session <= start.session:
            return Ahead(self.after(start), start)
        return Ahead(chain(self._fetched(start.server, indexed), self.after(checkpoint.head)), checkpoint.head)

    def back(self, start: Head, selection: Selection) -> Iterator[Commit]:
        """The commits up to `start`, latest first, without those that surely hold nothing selected."""
        if selection.everything:
            return chained_back(self.log.read_back(start.server, start.session + 1))
        checkpoint, indexed = self.read_views(start.server, lambda found: self._indexed(found, 0, selection))
        late = max(start.session - checkpoint.head.session, 0)
        early = [
            (first, min(last, start.session, checkpoint.head.session))
            for first, last in reversed(indexed)
            if first <= min(start.session, checkpoint.head.session)
        ]
        return chain(
            chained_back(self.log.read_back(start.server, start.session + 1, late)) if late else (),
            self._fetched(start.server, early, backwards=True),
        )

    def at(self, server: int, event_id: int) -> Head:
        """Where the log stood when `event_id` had been written: the last commit with nothing after `event_id`."""
        head, event_id = self.log.head(server), max(event_id, 0)
        if event_id >= head.last:
            return head
        earlier, later = galloped(self.log, head, event_id, SCAN_THRESHOLD)
        if earlier.last > event_id:
            earlier, later = self._bounds(server, event_id, earlier.session)
        return searched(self.log, earlier, later, event_id)

    def sessions(self, checkpoint: Checkpoint, ref: ObjectRef) -> list[int]:
        """All sessions with events of the object, as far as the views know."""
        record = self.views.get(checkpoint.view(objects_view(ref.collection)), [ref.path]).get(ref.path)
        view = ObjectView.of(record)
        older: list[int] = []
        moved_to = view.moved_to
        while moved_to:
            item = moved_item(ref, moved_to)
            moved_to, sessions = moved(self.views.get(checkpoint.view(SESSIONS), [item])[item])
            older = [*sessions, *older]
        return [*older, *view.recent]

    def _indexed(self, checkpoint: Checkpoint, after: int, selection: Selection) -> list[tuple[int, int]]:
        """First and last sessions of the runs of commits after `after` that may hold something selected.

        Those after the checkpoint are left out: not all of them are known.
        """
        refs, end = selection.refs, checkpoint.head.session
        if refs is not None:
            sessions = {session for ref in refs for session in self.sessions(checkpoint, ref)}
            return [(session, session) for session in sorted(sessions) if after < session <= end]
        records = self.views.range(checkpoint.view(BLOCKS), "", END)
        blocks = (Block.of(record) for record in records if record.to > after)
        return [
            (max(block.first, after + 1), min(block.to, end))
            for block in blocks
            if block.first <= end and block.may_hold(selection)
        ]

    def _fetched(self, server: int, runs: Iterable[tuple[int, int]], backwards: bool = False) -> Iterator[Commit]:
        """The commits of the runs; single ones together, for that takes fewer calls."""
        singles: list[int] = []
        for first, last in runs:
            if first == last:
                singles.append(first)
                continue
            yield from self.log.commits(server, singles)
            singles = []
            n = last - first + 1
            run = self.log.read_back(server, last + 1, n) if backwards else self.log.read(server, first - 1, n)
            # What is deleted meanwhile makes room for commits that are not of this run.
            yield from (commit for commit in run if first <= commit.session <= last)
        yield from self.log.commits(server, singles)

    def _bounds(self, server: int, event_id: int, later: int) -> tuple[Head, int]:
        """A commit before and a session after the place looked for, by the minute of the EventId."""
        view = checkpoint_of(PROJECT, server, self.views).view(BLOCKS)
        minute, next_minute = block_items_of(event_id)
        before = next(self.views.range(view, "", minute, backwards=True), None)
        after = next(self.views.range(view, next_minute, END), None)
        earlier = head_at(self.log, server, before.to if before else 0)
        while earlier.last > event_id:  # a commit's EventIds may reach into the next minute
            earlier = head_at(self.log, server, earlier.session - 1)
        return earlier, min(later, Block.of(after).first) if after else later
