"""Hat's timeseries query: which events, in which order."""

from dataclasses import dataclass

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.ids import Id
from chalicelib.domain.queries.event_filter import Selection

Order = tuple[int, Id]
"""What events are ordered by: a time, then the id."""


@dataclass(frozen=True, slots=True)
class TimeseriesQuery:
    """Which events; bounds are inclusive, in microseconds."""

    selection: Selection
    t_from: int | None = None
    t_to: int | None = None
    source_t_from: int | None = None
    source_t_to: int | None = None
    descending: bool = True
    by_source: bool = False
    """By the source's time: events that have none are absent."""
    max_results: int | None = None
    last_event_id: Id | None = None
    """Only what comes after this event; nothing if the query would not come across it."""

    def selects(self, event: Event) -> bool:
        """Tell whether the event's times and type are within bounds."""
        return self._in_time(event) and self.selection.selects(event)

    def order(self, event: Event) -> Order:
        """The event's place in the answer's order."""
        return (event.stored.source_timestamp or 0) if self.by_source else event.at, event.id

    def comes_across(self, event: Event) -> bool:
        """Tell whether the query, for all types, would answer with the event."""
        return self._in_time(event)

    def _in_time(self, event: Event) -> bool:
        if not _within(event.at, self.t_from, self.t_to):
            return False
        if self.source_t_from is None and self.source_t_to is None and not self.by_source:
            return True
        source = event.stored.source_timestamp
        return source is not None and _within(source, self.source_t_from, self.source_t_to)


def _within(time_us: int, first: int | None, last: int | None) -> bool:
    return (first is None or time_us >= first) and (last is None or time_us <= last)
