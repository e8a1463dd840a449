"""Listing: objects in brief, the latest change first, and how many there are in which state."""

from collections import Counter
from dataclasses import dataclass

from chalicelib.domain import vocabularies
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.summary import Brief
from chalicelib.services.objects.snapshots import object_views
from chalicelib.services.reading.log_reader import LogReader


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which objects of a collection, and how many at most."""

    collection: str
    query: PathQuery
    search: str = ""
    """What path or label must hold."""
    state: str | None = None
    """None: any."""
    limit: int = 1_000


@dataclass(frozen=True, slots=True)
class Listed:
    """Some objects as they were at `event_id`; whoever follows after that misses nothing."""

    event_id: int
    counts: dict[str, int]
    """Of all that were searched for, whatever their state, by state."""
    elements: tuple[Brief, ...]
    more_follows: bool


def listed(present: LogReader, server: int, wanted: ListQuery) -> Listed:
    """The objects, those with the latest change first; of those that changed together, by time, then by path."""
    event_id, views = object_views(present, server, (wanted.collection,), wanted.query)
    found = [
        (view.to, brief)
        for ref, view in sorted(views.items())
        if view.state is not None and (brief := vocabularies.brief_of(ref, view.state)).is_found_by(wanted.search)
    ]
    counts = Counter(brief.state for _, brief in found)
    # Reversed or not, a sort leaves equals as they are: in the order of their paths.
    found.sort(key=lambda one: (one[0], one[1].updated_at or ""), reverse=True)
    chosen = [brief for _, brief in found if wanted.state in (None, brief.state)]
    return Listed(event_id, dict(sorted(counts.items())), tuple(chosen[: wanted.limit]), len(chosen) > wanted.limit)
