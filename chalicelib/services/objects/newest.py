"""The objects that were created last, found with the list index, which is ordered by last change."""

import heapq
from collections.abc import Sequence

from chalicelib.domain import timestamps
from chalicelib.domain.errors import BadInput, Busy
from chalicelib.domain.objects.list_cursor import ListCursor
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.projection import group_by_object
from chalicelib.domain.views.record import Checkpoint, objects_view
from chalicelib.services.objects.listing import ListQuery, ObjectList, list_objects
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary
from chalicelib.services.reading.scan import head_at

PAGE = 1_000

_Key = tuple[str, str]
"""The time of creation, and the path. Objects that were created at the same time are ordered by path."""


def newest_objects(
    reader: LogReader, boundary: RetentionBoundary, server: int, collection: str, limit: int, after: _Key | None = None
) -> list[State]:
    """The objects created last, newest first, at most `limit`. Only those after an object, if it is given.

    Reads the objects that changed since the last of them was created, and no others. Raises `Busy`.
    """
    found: list[ObjectSummary] = []
    query = ListQuery(server, collection, PathQuery.parse("/"), limit=PAGE)
    cursor: ListCursor | None = None
    while True:
        page = _page(query, cursor, reader, boundary)
        found += (summary for summary in page.elements if after is None or _is_after(summary, after))
        found = heapq.nlargest(limit, sorted(found, key=lambda one: one.path), key=lambda one: one.created_at or "")
        cursor = page.next
        if cursor is None or (len(found) == limit and _is_complete(found[-1], cursor, reader, server)):
            return _states(reader, server, collection, [summary.path for summary in found])


def _page(query: ListQuery, cursor: ListCursor | None, reader: LogReader, boundary: RetentionBoundary) -> ObjectList:
    if cursor is None:
        return list_objects(query, reader, boundary)
    following = ListQuery(query.server, query.collection, query.paths, limit=query.limit, cursor=cursor)
    try:
        return list_objects(following, reader, boundary)
    except BadInput as error:
        raise Busy("the list changed while it was read; retry") from error


def _is_after(summary: ObjectSummary, after: _Key) -> bool:
    created_at, path = after
    return (summary.created_at or "") < created_at or (summary.created_at == created_at and summary.path > path)


def _is_complete(last: ObjectSummary, cursor: ListCursor, reader: LogReader, server: int) -> bool:
    """Whether all objects after the cursor were created before `last`: none changed after the session of the cursor."""
    latest_change = head_at(reader.log, server, cursor.after.session).last_event_id
    return 0 < latest_change < timestamps.parse(last.created_at or timestamps.iso(0))


def _states(reader: LogReader, server: int, collection: str, paths: Sequence[str]) -> list[State]:
    """The current states, in this order."""
    wanted = {ObjectRef(collection, path) for path in paths}

    def read(checkpoint: Checkpoint) -> dict[str, ObjectView]:
        records = reader.views.get(checkpoint.view_name(objects_view(collection)), paths)
        return {path: ObjectView.from_record(record) for path, record in records.items()}

    checkpoint, views = reader.read_views(server, read, is_complete=lambda views: len(views) == len(paths))
    for commit in reader.tail(checkpoint.head):
        for ref, events in group_by_object([commit], wanted.__contains__).items():
            views[ref.path] = views.get(ref.path, ObjectView()).fold(collection, events)
    states = (views[path].state for path in paths if path in views)
    return [state for state in states if state is not None]
