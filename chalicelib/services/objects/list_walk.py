"""Walks through the list index of a collection, from the latest entry to the earliest."""

from collections.abc import Iterator, Sequence

from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.views.list_index import (
    Entry,
    Root,
    children,
    decode_node,
    first_ordinal,
    item_name,
    select_entries,
)
from chalicelib.domain.views.record import Record
from chalicelib.services.ports import Views

MAX_LEAVES_PER_READ = 16
"""Reads grow up to this size: most pages need one leaf, and searches for rare objects need many."""


def walk_entries(
    views: Views, view: str, before: int, list_filter: ListFilter, session: int
) -> Iterator[tuple[int, Entry | None]]:
    """The ordinals and entries that the filter selects, among those with ordinals smaller than `before`.

    `session` is the end of a run. Entries after it are left out. Those replaced after it are included. None follows the
    last entry of each leaf.
    """
    if before:
        yield from _walk(views, view, Root(before).height, 0, before, list_filter, session)


def _walk(
    views: Views, view: str, level: int, index: int, before: int, list_filter: ListFilter, session: int
) -> Iterator[tuple[int, Entry | None]]:
    item = item_name(level, index)
    node = decode_node(views.get(view, [item])[item])
    selected = [
        child
        for child, summary in zip(children(level, index, before), node, strict=False)
        if summary.may_contain(list_filter, session)
    ][::-1]
    if level > 1:
        for child in selected:
            yield from _walk(views, view, level - 1, child, before, list_filter, session)
        return
    for leaf_index, record in _read_leaves(views, view, selected):
        first = first_ordinal(0, leaf_index)
        for place, entry in reversed(select_entries(record, list_filter, session)):
            if first + place < before:
                yield first + place, entry
        yield first, None


def _read_leaves(views: Views, view: str, indexes: Sequence[int]) -> Iterator[tuple[int, Record]]:
    start, count = 0, 1
    while start < len(indexes):
        page = indexes[start : start + count]
        records = views.get(view, [item_name(0, index) for index in page])
        yield from ((index, records[item_name(0, index)]) for index in page)
        start, count = start + count, min(2 * count, MAX_LEAVES_PER_READ)
