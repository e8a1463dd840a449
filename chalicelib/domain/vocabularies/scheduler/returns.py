"""What JobScheduler's clients ask for with `return=`."""

from dataclasses import dataclass
from enum import Enum

from chalicelib.domain.errors import BadInput
from chalicelib.domain.event_types import EventType
from chalicelib.domain.vocabularies.scheduler.events import patterns
from chalicelib.domain.vocabularies.scheduler.overviews import COLLECTIONS

EVENTS = "event"
"""The collection of everything that has events."""


class Returned(Enum):
    """A snapshot of objects, or of their statistics, or the next change of these."""

    OVERVIEWS = "Overview"
    STATISTICS = "OrderStatistics"
    STATISTICS_CHANGED = "OrderStatisticsChanged"


@dataclass(frozen=True, slots=True)
class Events:
    """Events of these types."""

    patterns: tuple[EventType, ...]


def returned(collection: str, text: str | None) -> Returned | Events:
    """What `return=` means for a collection; without it, overviews, or all events."""
    if collection not in COLLECTIONS and collection != EVENTS:
        raise BadInput(f"there is no collection '{collection[:80]}', only {', '.join((*COLLECTIONS, EVENTS))}")
    if text is None:
        return Events(patterns("Event")) if collection == EVENTS else Returned.OVERVIEWS
    if text == f"{collection[0].upper()}{collection[1:]}Overview" and collection != EVENTS:
        return Returned.OVERVIEWS
    if collection == "order" and text.removeprefix("Joc") in ("OrderStatistics", "OrderStatisticsChanged"):
        return Returned(text.removeprefix("Joc"))
    return Events(patterns(text))
