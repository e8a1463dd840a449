"""Hat's timeseries query: which events, in which order."""

from dataclasses import dataclass

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.ids import Id
from chalicelib.domain.queries.event_filter import Selection

SortKey = tuple[int, Id]
"""Time in microseconds, then id."""


@dataclass(frozen=True, slots=True)
class TimeseriesQuery:
    """A query by time. Bounds are inclusive, in microseconds."""

    selection: Selection
    t_from: int | None = None
    t_to: int | None = None
    source_t_from: int | None = None
    source_t_to: int | None = None
    descending: bool = True
    by_source: bool = False
    """Order by source timestamp. Events without one are left out."""
    max_results: int | None = None
    last_event_id: Id | None = None
    """Return only events that follow this one in the result. Empty result if the query would not return it."""

    def selects(self, event: Event) -> bool:
        return self.is_in_time_range(event) and self.selection.selects(event)

    def sort_key(self, event: Event) -> SortKey:
        return (event.fields.source_timestamp or 0) if self.by_source else event.at_us, event.id

    def is_in_time_range(self, event: Event) -> bool:
        """Whether the query would return the event if it selected all types."""
        if not _is_within(event.at_us, self.t_from, self.t_to):
            return False
        if self.source_t_from is None and self.source_t_to is None and not self.by_source:
            return True
        source_us = event.fields.source_timestamp
        return source_us is not None and _is_within(source_us, self.source_t_from, self.source_t_to)


def _is_within(time_us: int, first_us: int | None, last_us: int | None) -> bool:
    return (first_us is None or time_us >= first_us) and (last_us is None or time_us <= last_us)
