"""Snapshots in pages: the states of many objects, all as of the EventId of the first page."""

import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, takewhile

from pydantic_core import to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput, Busy
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.objects.cursor import Cursor, Scope
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import MAX_CHARACTER, Checkpoint, Record, objects_view
from chalicelib.services.objects.snapshots import (
    events_by_object,
    has_expired_events,
    object_events,
)
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary

PAGE_TIMEOUT_S = 10.0
"""A page ends early after this time. The states of objects that changed since the first page take longer to read."""
MAX_FIRST_PAGE_ATTEMPTS = 5
"""How often the first page is read, each time as of a new head, while objects with expired events change."""


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """Objects as of `event_id`, as JSON."""

    event_id: int
    texts: list[str]
    next: Cursor | None
    """None if this is the last page."""


@dataclass(frozen=True, slots=True)
class SnapshotQuery:
    """Which objects, at most how many per page, and where the page begins."""

    server: int
    collections: tuple[str, ...]
    """In alphabetical order."""
    paths: PathQuery
    limit: int
    cursor: Cursor | None = None

    @property
    def scope(self) -> Scope:
        return Scope.of_query(self.server, self.collections, self.paths)


class _HistoryExpired(Exception):
    """The object changed after the snapshot, and its earlier state cannot be rebuilt."""

    def __init__(self, ref: ObjectRef) -> None:
        super().__init__(ref)
        self.ref = ref


def snapshot_page(
    query: SnapshotQuery,
    reader: LogReader,
    boundary: RetentionBoundary,
    monotonic: Callable[[], float] = time.monotonic,
) -> SnapshotPage:
    """The next page, ordered by collection and path. It may have fewer objects than the limit, even none.

    An object that changed after the snapshot is rebuilt from its events. If they have expired, the first page is read
    again as of a new head. Raises `BadInput` on later pages, and `Busy` if such objects change all the time.
    """
    cursor, deadline = query.cursor, monotonic() + PAGE_TIMEOUT_S

    def is_late() -> bool:
        return monotonic() > deadline

    if cursor is not None:
        try:
            return _read_page(query, Head(query.server, cursor.session, 0, cursor.event_id), reader, boundary, is_late)
        except _HistoryExpired as expired:
            raise BadInput(
                f"{expired.ref.path[:200]} changed after the first page, and its first events are no longer kept; "
                "start again without cursor"
            ) from expired
    for _ in range(MAX_FIRST_PAGE_ATTEMPTS):
        try:
            return _read_page(query, reader.log.head(query.server), reader, boundary, is_late)
        except _HistoryExpired:
            continue
    raise Busy("objects whose first events are no longer kept change while they are read; retry")


def _read_page(
    query: SnapshotQuery, head: Head, reader: LogReader, boundary: RetentionBoundary, is_late: Callable[[], bool]
) -> SnapshotPage:
    """The page as of `head`. Raises `_HistoryExpired`."""
    start = ObjectRef("", "") if query.cursor is None else query.cursor.after

    def read(checkpoint: Checkpoint) -> SnapshotPage:
        texts: list[str] = []
        size_bytes = 0
        last = start
        for ref, state in _states_as_of(query, head, checkpoint, reader, boundary):
            is_full = len(texts) == query.limit or size_bytes > reader.page_size.max_bytes
            # Each page advances by at least one object, however long that takes.
            if (is_full and state is not None) or (last != start and is_late()):
                following = Cursor(head.session, head.last_event_id, last, query.scope)
                return SnapshotPage(head.last_event_id, texts, following)
            if state is not None:
                texts.append(to_json(state).decode())
                size_bytes += reader.page_size.measure(texts[-1:])
            last = ref
        return SnapshotPage(head.last_event_id, texts, None)

    return reader.read_views(query.server, read)[1]


def _states_as_of(
    query: SnapshotQuery, head: Head, checkpoint: Checkpoint, reader: LogReader, boundary: RetentionBoundary
) -> Iterator[tuple[ObjectRef, State | None]]:
    """The objects after the cursor with their states as of `head`, in order. None: the object did not exist."""
    changes = _changes(query, head, checkpoint, reader)
    stored = _stored_records(query, checkpoint, reader)
    changed: Iterator[tuple[ObjectRef, Record | None]] = ((ref, None) for ref in sorted(changes))
    candidates = heapq.merge(stored, changed, key=lambda candidate: candidate[0])
    for ref, group in groupby(candidates, key=lambda candidate: candidate[0]):
        view = ObjectView.from_record(next((record for _, record in group if record is not None), None))
        if view.last_session <= head.session:
            yield ref, view.fold(ref.collection, changes.get(ref, ())).state
            continue
        if has_expired_events(reader, query.server, ref, boundary):
            raise _HistoryExpired(ref)
        events = object_events(reader, query.server, ref, head.last_event_id)
        yield ref, ObjectView().fold(ref.collection, events).state


def _changes(
    query: SnapshotQuery, head: Head, checkpoint: Checkpoint, reader: LogReader
) -> dict[ObjectRef, list[Event]]:
    """The events of the selected objects after the checkpoint of the views, up to `head`."""

    def is_selected(ref: ObjectRef) -> bool:
        is_new = query.cursor is None or ref > query.cursor.after
        return is_new and ref.collection in query.collections and vocabularies.matches(query.paths, ref)

    changes: dict[ObjectRef, list[Event]] = {}
    if checkpoint.head.session < head.session:
        for commit in takewhile(lambda commit: commit.session <= head.session, reader.tail(checkpoint.head)):
            for ref, events in events_by_object(commit, is_selected).items():
                changes.setdefault(ref, []).extend(events)
    return changes


def _stored_records(
    query: SnapshotQuery, checkpoint: Checkpoint, reader: LogReader
) -> Iterator[tuple[ObjectRef, Record]]:
    """The records of the selected objects after the cursor, in order."""
    start = ObjectRef("", "") if query.cursor is None else query.cursor.after
    for collection in query.collections:
        if collection < start.collection:
            continue
        after = start.path if collection == start.collection else ""
        view = checkpoint.view_name(objects_view(collection))
        for prefix in _disjoint_prefixes(collection, query.paths):
            if (end := prefix + MAX_CHARACTER) <= after:
                continue
            for record in reader.views.range(view, max(prefix, after), end):
                ref = ObjectRef(collection, record.item)
                if record.item > after and vocabularies.matches(query.paths, ref):
                    yield ref, record


def _disjoint_prefixes(collection: str, paths: PathQuery) -> list[str]:
    """The prefixes of all selected paths, in order, without those that another one covers."""
    prefixes: list[str] = []
    for prefix in sorted(p for pattern in paths.patterns for p in vocabularies.path_prefixes(collection, pattern)):
        if not prefixes or not prefix.startswith(prefixes[-1]):
            prefixes.append(prefix)
    return prefixes
