"""Snapshots in pages: the states of many objects, all as of the EventId of the first page."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from pydantic_core import to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput, Busy
from chalicelib.domain.events.head import Head
from chalicelib.domain.objects.cursor import Cursor, Scope
from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.objects.object_range import FIRST_REF, ObjectRange
from chalicelib.services.objects.past_views import HistoryExpired, PastViews
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
    max_bytes: int | None = None
    """Size of a page. None: as large as pages usually are."""
    filter: ListFilter | None = None

    @property
    def scope(self) -> Scope:
        return Scope.of_query(self.server, self.collections, self.paths, self.filter)

    def after(self, cursor: Cursor) -> Self:
        """The query of the page after another one."""
        return replace(self, cursor=cursor)

    def selects(self, ref: ObjectRef, view: ObjectView) -> bool:
        """Whether the object exists and the filter selects it."""
        if view.state is None or self.filter is None:
            return view.state is not None
        return self.filter.selects(view.last_session, vocabularies.summarize(ref, view.state), view.state)


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
        except HistoryExpired as expired:
            raise BadInput(
                f"{expired.ref.path[:200]} changed after the first page, and its first events are no longer kept; "
                "start again without cursor"
            ) from expired
    for _ in range(MAX_FIRST_PAGE_ATTEMPTS):
        try:
            return _read_page(query, reader.log.head(query.server), reader, boundary, is_late)
        except HistoryExpired:
            continue
    raise Busy("objects whose first events are no longer kept change while they are read; retry")


def _read_page(
    query: SnapshotQuery, head: Head, reader: LogReader, boundary: RetentionBoundary, is_late: Callable[[], bool]
) -> SnapshotPage:
    """The page as of `head`. Raises `HistoryExpired`."""
    start = FIRST_REF if query.cursor is None else query.cursor.after
    max_bytes = query.max_bytes or reader.page_size.max_bytes
    past, objects = PastViews(reader, head, boundary), ObjectRange(query.collections, query.paths, start)

    def read(checkpoint: Checkpoint) -> SnapshotPage:
        texts: list[str] = []
        size_bytes = 0
        last = start
        for ref, view in past.views(objects, checkpoint):
            state = view.state if query.selects(ref, view) else None
            is_full = len(texts) == query.limit or size_bytes > max_bytes
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
