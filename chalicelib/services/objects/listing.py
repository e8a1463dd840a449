"""Object lists: summaries of objects, last changed first, and the number of objects in each state."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.summary import ObjectSummary, Result
from chalicelib.domain.queries.size_limit import SizeLimit
from chalicelib.services.objects.snapshots import object_views
from chalicelib.services.reading.log_reader import LogReader


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which objects of a collection to list."""

    collection: str
    query: PathQuery
    search: str = ""
    """Text that the path or label must contain."""
    state: str | None = None
    """None selects all states."""
    limit: int = 1_000
    result: Result | None = None
    """None selects all results, and objects without one."""

    def selects(self, summary: ObjectSummary) -> bool:
        return self.state in (None, summary.state) and self.result in (None, summary.result)


@dataclass(frozen=True, slots=True)
class ObjectList:
    """Objects as of `event_id`. A client that follows the events after it misses no change."""

    event_id: int
    counts: dict[str, int]
    """Number of objects that match the search, by state, including states that were not selected."""
    elements: tuple[ObjectSummary, ...]
    more_follows: bool
    results: dict[str, int]
    """Number of objects that match the search, by result, including results that were not selected."""


def list_objects(reader: LogReader, server: int, list_query: ListQuery) -> ObjectList:
    """List objects ordered by last change (descending), then by time (descending), then by path."""
    event_id, views = object_views(reader, server, (list_query.collection,), list_query.query)
    matches: list[tuple[int, ObjectSummary]] = []
    for ref, view in sorted(views.items()):
        if view.state is not None:
            summary = vocabularies.summarize(ref, view.state)
            if summary.contains_text(list_query.search):
                matches.append((view.last_session, summary))
    counts = Counter(summary.state for _, summary in matches)
    # The sort is stable, reversed or not: objects with equal keys stay ordered by path.
    matches.sort(key=lambda match: (match[0], match[1].updated_at or ""), reverse=True)
    results = Counter(summary.result for _, summary in matches if summary.result is not None)
    selected = [summary for _, summary in matches if list_query.selects(summary)]
    elements = _first_fitting(selected[: list_query.limit], reader.page_size)
    return ObjectList(
        event_id,
        dict(sorted(counts.items())),
        elements,
        len(selected) > len(elements),
        dict(sorted(results.items())),
    )


def _first_fitting(summaries: Sequence[ObjectSummary], size_limit: SizeLimit) -> tuple[ObjectSummary, ...]:
    """The first summaries, up to the one that exceeds the size limit."""
    size_bytes = 0
    for count, summary in enumerate(summaries):
        if size_bytes > size_limit.max_bytes:
            return tuple(summaries[:count])
        size_bytes += size_limit.measure([to_json(summary.json).decode()])
    return tuple(summaries)
