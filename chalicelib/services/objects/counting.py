"""The number of objects of a collection by state and by type, from the root of the list index."""

from collections.abc import Mapping
from typing import NamedTuple

from chalicelib.domain.views.list_index import OTHERS, ROOT_ITEM, Root
from chalicelib.domain.views.record import Checkpoint, list_view
from chalicelib.services.objects.list_tail import ListTail
from chalicelib.services.objects.past_views import HistoryExpired
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary


class ObjectCounts(NamedTuple):
    """The numbers of objects as of `event_id`."""

    event_id: int
    states: Mapping[str, int]
    types: Mapping[str, int]


def count_objects(reader: LogReader, server: int, collection: str, boundary: RetentionBoundary) -> ObjectCounts | None:
    """The number of objects of each state and of each type. None if the index does not have all of them."""

    def read(checkpoint: Checkpoint) -> tuple[int, Root]:
        view = checkpoint.view_name(list_view(collection))
        root = Root.from_record(reader.views.get(view, [ROOT_ITEM]).get(ROOT_ITEM))
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
