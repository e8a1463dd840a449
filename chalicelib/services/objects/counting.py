"""The number of objects of a collection or of a folder by state and by type, from the list index."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput, Busy
from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.views.list_index import OTHERS, ROOT_ITEM, Root
from chalicelib.domain.views.record import Checkpoint, list_view
from chalicelib.services.objects.list_tail import ListTail
from chalicelib.services.objects.list_walk import walk_entries
from chalicelib.services.objects.object_range import disjoint_prefixes
from chalicelib.services.objects.past_views import HistoryExpired
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary

COUNT_TIMEOUT_S = 15.0
"""A folder that takes longer is not counted."""
MAX_ATTEMPTS = 5


class ObjectCounts(NamedTuple):
    """The numbers of objects as of `event_id`."""

    event_id: int
    states: Mapping[str, int]
    types: Mapping[str, int]


def count_objects(reader: LogReader, server: int, collection: str, boundary: RetentionBoundary) -> ObjectCounts | None:
    """The number of objects of each state and of each type. None if the index does not have all of them."""

    def read(checkpoint: Checkpoint) -> tuple[int, Root]:
        root = _load_root(reader, checkpoint, collection)
        # The head is read after the root, which is therefore not newer.
        head = reader.log.head(server)
        tail = ListTail.read(collection, checkpoint.head, head.session, checkpoint, reader, boundary)
        current = (summary for _, summary in tail.objects_at(head.session))
        return head.last_event_id, tail.recount(root, current)

    try:
        _, (event_id, root) = reader.read_views(server, read)
    except HistoryExpired:
        return None
    states, types = root.states or {}, root.types
    is_complete = types is not None and OTHERS not in states and OTHERS not in types
    return ObjectCounts(event_id, states, types) if types is not None and is_complete else None


def count_folder(
    reader: LogReader,
    server: int,
    collection: str,
    paths: PathQuery,
    boundary: RetentionBoundary,
    monotonic: Callable[[], float] = time.monotonic,
) -> ObjectCounts:
    """The number of matching objects of each state and of each type, from all entries of the index.

    For large folders, because entries are much smaller than objects. Raises `BadInput` if it takes too long, and `Busy`
    if objects whose first events have expired change all the time.
    """
    deadline = monotonic() + COUNT_TIMEOUT_S
    list_filter = ListFilter(path_prefixes=disjoint_prefixes(collection, paths.patterns))

    def read(checkpoint: Checkpoint) -> ObjectCounts:
        root, base = _load_root(reader, checkpoint, collection), checkpoint.head.session
        head = reader.log.head(server)
        tail = ListTail.read(collection, checkpoint.head, head.session, checkpoint, reader, boundary)
        view = checkpoint.view_name(list_view(collection))
        states, types = Counter[str](), Counter[str]()
        for _, entry in walk_entries(reader.views, view, root.size, list_filter, base):
            if entry is None:
                if monotonic() > deadline:
                    raise BadInput("the objects of this folder are too many to count them; request those of subfolders")
                continue
            ref = ObjectRef(collection, entry.path)
            if vocabularies.matches(paths, ref) and not tail.contains(ref):
                states[entry.state] += 1
                types.update([entry.type] if entry.type is not None else [])
        for _, summary in tail.objects_at(head.session):
            if vocabularies.matches(paths, ObjectRef(collection, summary.path)):
                states[summary.state] += 1
                types.update([summary.type] if summary.type is not None else [])
        return ObjectCounts(head.last_event_id, states, types)

    for _ in range(MAX_ATTEMPTS):
        try:
            return reader.read_views(server, read)[1]
        except HistoryExpired:
            continue
    raise Busy("objects whose first events are no longer kept change while they are counted; retry")


def _load_root(reader: LogReader, checkpoint: Checkpoint, collection: str) -> Root:
    view = checkpoint.view_name(list_view(collection))
    return Root.from_record(reader.views.get(view, [ROOT_ITEM]).get(ROOT_ITEM))
