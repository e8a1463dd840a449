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
    """Return only events after this one in the query's order. Empty result if it has no place in that order."""

    def selects(self, event: Event) -> bool:
        return self._is_in_time_range(event) and self.selection.selects(event)

    def sort_key(self, event: Event) -> SortKey:
        return (event.fields.source_timestamp or 0) if self.by_source else event.at_us, event.id

    def has_place(self, event: Event) -> bool:
        """Whether the time that orders the result is within its bounds. The other filters do not matter, as in Hat."""
        return self._is_source_in_range(event) if self.by_source else _is_within(event.at_us, self.t_from, self.t_to)

    def _is_in_time_range(self, event: Event) -> bool:
        if not _is_within(event.at_us, self.t_from, self.t_to):
            return False
        needs_source = self.by_source or self.source_t_from is not None or self.source_t_to is not None
        return not needs_source or self._is_source_in_range(event)

    def _is_source_in_range(self, event: Event) -> bool:
        source_us = event.fields.source_timestamp
        return source_us is not None and _is_within(source_us, self.source_t_from, self.source_t_to)


def _is_within(time_us: int, first_us: int | None, last_us: int | None) -> bool:
    return (first_us is None or time_us >= first_us) and (last_us is None or time_us <= last_us)
