"""Object lists: summaries of objects, last changed first, and the number of objects in each state.

A list is read from the list index: first the objects that changed after the checkpoint of the views, then the entries
of the index. The cost depends on the page, not on the collection. All pages show the objects as of the first page.
Lists of small folders, and filtered lists of small collections, are sorted in memory.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic_core import to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput, Busy
from chalicelib.domain.events.head import Head
from chalicelib.domain.objects.cursor import digest
from chalicelib.domain.objects.list_cursor import IN_MEMORY, ListCursor, ListKey
from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.views.list_index import ROOT_ITEM, Entry, Root
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import Checkpoint, list_view, objects_view
from chalicelib.services.objects.list_tail import ListTail
from chalicelib.services.objects.list_walk import walk_entries
from chalicelib.services.objects.object_range import ObjectRange, TooManyRecords, disjoint_prefixes
from chalicelib.services.objects.past_views import HistoryExpired, PastViews
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary
from chalicelib.services.reading.scan import head_at

PAGE_TIMEOUT_S = 2.0
"""A page ends early after this time. Searches for words and rare combinations of filters may take longer."""
MAX_COUNTED_OBJECTS = 2_000
"""In larger collections, the objects that match a path or a filter other than state and result are not counted,
unless they are in a folder with at most this number of objects."""
MANY_RECENT_OBJECTS = 500
"""If a path matches more of the latest entries, the index finds them with fewer reads than there are records."""
MAX_FIRST_PAGE_ATTEMPTS = 5
SEARCH_CHUNK = 128
"""Number of objects that a search for words reads at once."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which objects of a collection to list, at most how many per page, and where the page begins."""

    server: int
    collection: str
    paths: PathQuery
    filter: ListFilter = field(default_factory=ListFilter)
    since_us: int | None = None
    until_us: int | None = None
    """The last change must be at or after `since_us`, and before `until_us`."""
    limit: int = 1_000
    cursor: ListCursor | None = None

    @property
    def scope(self) -> str:
        """Digest of everything but the page."""
        texts = sorted(pattern.text for pattern in self.paths.patterns)
        return digest(self.server, self.collection, texts, self.filter, self.since_us, self.until_us)


@dataclass(frozen=True, slots=True)
class ObjectList:
    """Objects as of `event_id`. A client that follows the events after it misses no change."""

    event_id: int
    counts: Mapping[str, int] | None
    """Number of objects by state, including states that were not selected. None: unknown."""
    results: Mapping[str, int] | None
    """Number of objects by result, including results that were not selected. None: unknown."""
    elements: tuple[ObjectSummary, ...]
    next: ListCursor | None
    """None if this is the last page."""


def list_objects(
    query: ListQuery,
    reader: LogReader,
    boundary: RetentionBoundary,
    monotonic: Callable[[], float] = time.monotonic,
) -> ObjectList:
    """A page of objects ordered by last change (descending), then by time (descending), then by path.

    It may have fewer objects than the limit, even none, although others follow. Raises `BadInput` if the list cannot be
    continued, and `Busy` if objects whose first events have expired change all the time.
    """
    attempts = 1 if query.cursor is not None else MAX_FIRST_PAGE_ATTEMPTS
    for _ in range(attempts):
        page = _ListPage(query, reader, boundary, monotonic)
        try:
            return reader.read_views(query.server, page.read)[1]
        except HistoryExpired as expired:
            ref = expired.ref
        except _ViewsRebuilt as error:
            raise BadInput("cursor: the views were rebuilt since the first page; start again without cursor") from error
    if query.cursor is not None:
        raise BadInput(
            f"{ref.path[:200]} changed after the first page, and its first events are no longer kept; "
            "start again without cursor"
        )
    raise Busy("objects whose first events are no longer kept change while they are read; retry")


def _index_filter(query: ListQuery, reader: LogReader) -> ListFilter:
    """The filter with the sessions of the given times, and the prefixes of the given paths."""
    list_filter, paths = query.filter, query.paths
    if not paths.matches_everything:
        list_filter = replace(list_filter, path_prefixes=disjoint_prefixes(query.collection, paths.patterns))
    if query.since_us is None and query.until_us is None:
        return list_filter
    since_us, until_us = query.since_us or 0, query.until_us
    return replace(
        list_filter,
        after_session=reader.position_at(query.server, since_us - 1).session,
        to_session=None if until_us is None else reader.position_at(query.server, until_us - 1).session,
    )


_Match = tuple[ListKey, int, ObjectSummary | None]
"""Position in the list, ordinal from which on everything is covered, and the object, if there is one."""


class _ViewsRebuilt(KeyError):
    """The cursor belongs to other views. If the checkpoint is a remembered one, the read is repeated."""


class _ListPage:
    """Reads one page. Raises `HistoryExpired`."""

    def __init__(
        self,
        query: ListQuery,
        reader: LogReader,
        boundary: RetentionBoundary,
        monotonic: Callable[[], float],
    ) -> None:
        self._query = query
        self._filter = query.filter
        self._reader = reader
        self._boundary = boundary
        self._monotonic = monotonic
        self._deadline: float | None = None
        """When to stop walking through the index. None: the walk has not started."""

    def read(self, checkpoint: Checkpoint) -> ObjectList:
        query, cursor = self._query, self._query.cursor
        if cursor is not None:
            head = Head(query.server, cursor.session, 0, cursor.event_id)
            self._filter = _index_filter(query, self._reader)
            if cursor.ordinal == IN_MEMORY:
                return self._read_in_memory(checkpoint, head)
            return self._continue(checkpoint, head, cursor)
        root = self._load_root(checkpoint)
        # The head is read after the root, which is therefore not newer.
        head = self._reader.log.head(query.server)
        # After the head, so that `until` includes commits up to it.
        self._filter = _index_filter(query, self._reader)
        if self._may_be_in_memory(checkpoint, root):
            try:
                return self._read_in_memory(checkpoint, head, MAX_COUNTED_OBJECTS)
            except TooManyRecords:
                pass  # The index has a page with fewer reads.
        return self._start(checkpoint, head, root)

    def _may_be_in_memory(self, checkpoint: Checkpoint, root: Root) -> bool:
        if self._filter.counts_everything:
            return False
        if root.object_count <= MAX_COUNTED_OBJECTS:
            return True
        return bool(self._filter.path_prefixes) and not self._matches_many_recent(checkpoint, root)

    def _matches_many_recent(self, checkpoint: Checkpoint, root: Root) -> bool:
        """Whether the path matches many of the latest entries. Stops reading where it matches few."""
        view = checkpoint.view_name(list_view(self._query.collection))
        list_filter = ListFilter(path_prefixes=self._filter.path_prefixes)
        found = 0
        for ordinal, entry in walk_entries(self._reader.views, view, root.size, list_filter, checkpoint.head.session):
            if entry is not None:
                found += self._matches(entry.path)
            elif found > MANY_RECENT_OBJECTS:
                return True
            elif found < (root.size - ordinal) / 4:
                return False
        return False

    def _load_root(self, checkpoint: Checkpoint) -> Root:
        view = checkpoint.view_name(list_view(self._query.collection))
        return Root.from_record(self._reader.views.get(view, [ROOT_ITEM]).get(ROOT_ITEM))

    def _read_in_memory(self, checkpoint: Checkpoint, head: Head, max_records: int | None = None) -> ObjectList:
        """Read all objects that match the path. Raises `TooManyRecords`."""
        query, counted_filter = self._query, self._filter.without_state_and_result
        past, objects = PastViews(self._reader, head, self._boundary), ObjectRange((query.collection,), query.paths)
        stored = list(objects.records(checkpoint, self._reader.views, max_records))
        matches: list[tuple[ListKey, ObjectSummary]] = []
        for ref, view in past.fold(objects, checkpoint, stored):
            if view.state is not None:
                summary = vocabularies.summarize(ref, view.state)
                if counted_filter.selects(view.last_session, summary, view.state):
                    matches.append((_key(view, summary), summary))
        states = Counter(summary.state for _, summary in matches)
        results = Counter(summary.result for _, summary in matches if summary.result is not None)
        selected = [(key, s) for key, s in matches if self._filter.selects_facets(key.session, s)]
        elements = ((key, IN_MEMORY, summary) for key, summary in self._remaining(selected))
        page = self._fill(elements, head, checkpoint, checkpoint.head.session)
        return replace(page, counts=dict(sorted(states.items())), results=dict(sorted(results.items())))

    def _start(self, checkpoint: Checkpoint, head: Head, root: Root) -> ObjectList:
        """The first page of a list that is read from the index."""
        base = checkpoint.head.session
        tail = self._tail(checkpoint, checkpoint.head, head)
        changed = list(tail.objects_at(head.session))
        matches = self._indexed(checkpoint, head, base, root.size, tail, changed)
        page = self._fill(matches, head, checkpoint, base)
        if not self._filter.counts_everything:
            return page
        counts = tail.recount(root, (summary for _, summary in changed))
        return replace(page, counts=_positive(counts.states), results=_positive(counts.results))

    def _continue(self, checkpoint: Checkpoint, head: Head, cursor: ListCursor) -> ObjectList:
        """A later page of a list that is read from the index."""
        if cursor.generation != checkpoint.generation:
            raise _ViewsRebuilt
        start, expired = head, self._boundary.head
        is_in_tail = cursor.after.session > cursor.base
        # Once the index covers everything up to the head, it also marks the entries that were replaced.
        if is_in_tail or checkpoint.head.session < head.session:
            if expired.session > cursor.base:
                raise BadInput("cursor: events since the first page are no longer kept; start again without cursor")
            is_boundary = expired.session == cursor.base
            start = expired if is_boundary else head_at(self._reader.log, head.server, cursor.base)
        tail = self._tail(checkpoint, start, head)
        changed = list(tail.objects_at(head.session)) if is_in_tail else []
        before = min(cursor.ordinal, self._load_root(checkpoint).size)
        matches = self._indexed(checkpoint, head, cursor.base, before, tail, changed)
        return self._fill(matches, head, checkpoint, cursor.base)

    def _tail(self, checkpoint: Checkpoint, start: Head, head: Head) -> ListTail:
        """The objects that changed after `start`, up to `head`."""
        collection = self._query.collection
        return ListTail.read(collection, start, head.session, checkpoint, self._reader, self._boundary)

    def _indexed(
        self,
        checkpoint: Checkpoint,
        head: Head,
        base: int,
        before: int,
        tail: ListTail,
        changed: Sequence[tuple[ObjectView, ObjectSummary]],
    ) -> Iterator[_Match]:
        """The objects that changed after session `base`, then those in the index with ordinals less than `before`."""
        query = self._query
        selected = [
            (_key(view, summary), summary)
            for view, summary in changed
            if view.state is not None
            and self._matches(summary.path)
            and self._filter.selects(view.last_session, summary, view.state)
        ]
        yield from ((key, before, summary) for key, summary in self._remaining(selected))
        self._deadline = self._monotonic() + PAGE_TIMEOUT_S
        view = checkpoint.view_name(list_view(query.collection))
        chunk: list[tuple[int, Entry]] = []
        chunk_size = SEARCH_CHUNK if self._filter.needs_state else query.limit + 1
        for ordinal, entry in walk_entries(self._reader.views, view, before, self._filter, base):
            if entry is not None:
                ref = ObjectRef(query.collection, entry.path)
                is_current = not (0 < entry.replaced <= head.session or tail.contains(ref))
                if is_current and self._matches(entry.path):
                    chunk.append((ordinal, entry))
            if len(chunk) == chunk_size or (entry is None and self._is_late()):
                yield from self._summarize(chunk, checkpoint, head)
                yield ListKey(base, "", ""), ordinal, None
                chunk = []
        yield from self._summarize(chunk, checkpoint, head)

    def _summarize(self, entries: Sequence[tuple[int, Entry]], checkpoint: Checkpoint, head: Head) -> Iterator[_Match]:
        """The selected objects of the entries, from their records."""
        query, past = self._query, PastViews(self._reader, head, self._boundary)
        view_name = checkpoint.view_name(objects_view(query.collection))
        records = self._reader.views.get(view_name, [entry.path for _, entry in entries])
        for ordinal, entry in entries:
            ref = ObjectRef(query.collection, entry.path)
            state = past.view(ref, ObjectView.from_record(records[entry.path]), ()).state
            summary = None
            if state is not None:
                summary = vocabularies.summarize(ref, state)
                summary = summary if self._filter.selects_text(summary, state) else None
            yield ListKey(entry.session, "", entry.path), ordinal, summary

    def _matches(self, path: str) -> bool:
        paths, ref = self._query.paths, ObjectRef(self._query.collection, path)
        return paths.matches_everything or vocabularies.matches(paths, ref)

    def _is_late(self) -> bool:
        return self._deadline is not None and self._monotonic() > self._deadline

    def _remaining(self, matches: Sequence[tuple[ListKey, ObjectSummary]]) -> list[tuple[ListKey, ObjectSummary]]:
        """The objects after the cursor, in order."""
        cursor = self._query.cursor
        # The sort is stable, reversed or not: objects with equal keys stay ordered by path.
        ordered = sorted(sorted(matches, key=lambda match: match[0].path), key=lambda match: match[0][:2], reverse=True)
        return [match for match in ordered if cursor is None or match[0].is_after(cursor.after)]

    def _fill(self, matches: Iterator[_Match], head: Head, checkpoint: Checkpoint, base: int) -> ObjectList:
        """Take the first objects that fit on the page."""
        query, page_size = self._query, self._reader.page_size
        elements: list[ObjectSummary] = []
        size_bytes = 0
        last: tuple[ListKey, int] | None = None
        for key, ordinal, summary in matches:
            is_full = len(elements) == query.limit or size_bytes > page_size.max_bytes
            # Each page advances by at least one object, however long that takes.
            if last is not None and ((is_full and summary is not None) or self._is_late()):
                cursor = ListCursor(
                    head.session, head.last_event_id, base, checkpoint.generation, last[1], last[0], query.scope
                )
                return ObjectList(head.last_event_id, None, None, tuple(elements), cursor)
            if summary is not None:
                elements.append(summary)
                size_bytes += page_size.measure([to_json(summary.json).decode()])
            last = key, ordinal
        return ObjectList(head.last_event_id, None, None, tuple(elements), None)


def _key(view: ObjectView, summary: ObjectSummary) -> ListKey:
    return ListKey(view.last_session, summary.updated_at or "", summary.path)


def _positive(counts: Mapping[str, int] | None) -> dict[str, int]:
    return {name: number for name, number in sorted((counts or {}).items()) if number}
