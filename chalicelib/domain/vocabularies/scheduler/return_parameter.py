"""The parameter `return=` of JobScheduler's API."""

from dataclasses import dataclass
from enum import Enum

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.vocabularies.scheduler.events import RETURNED_EVENT_NAMES, parse_event_types
from chalicelib.domain.vocabularies.scheduler.overviews import COLLECTIONS

EVENT_COLLECTION = "event"
"""The pseudo-collection that stands for the events of all collections."""

RENAMED_COLLECTIONS = {"job": "schedulerJob"}
"""JobScheduler's name -> our name. Ours differs because other vocabularies have jobs too."""

COLLECTION_NAMES = (*(name for name in COLLECTIONS if name not in RENAMED_COLLECTIONS.values()), *RENAMED_COLLECTIONS)
"""JobScheduler's names of the collections, without `EVENT_COLLECTION`."""

_OVERVIEW = "|".join(f"{name[0].upper()}{name[1:]}Overview" for name in (*COLLECTIONS, *RENAMED_COLLECTIONS))
_EVENT = rf"\s*(?:{'|'.join(RETURNED_EVENT_NAMES)})\s*"
RETURN_PATTERN = rf"^(?:{_OVERVIEW}|(?:Joc)?OrderStatistics(?:Changed)?|{_EVENT}(?:,{_EVENT})*)$"
"""All values of `return=`. Which of them are valid depends on the collection."""


class ReturnKind(Enum):
    """A snapshot of objects, a snapshot of their statistics, or the next change of the statistics."""

    OVERVIEWS = "Overview"
    STATISTICS = "OrderStatistics"
    STATISTICS_CHANGED = "OrderStatisticsChanged"


@dataclass(frozen=True, slots=True)
class ReturnEvents:
    """Events of these types."""

    patterns: tuple[EventType, ...]


def collection_for_name(name: str) -> str:
    """The collection that JobScheduler calls `name`."""
    names = (*COLLECTION_NAMES, EVENT_COLLECTION)
    if name not in names:
        raise BadInput(f"unknown collection '{name[:80]}'; use one of {', '.join(names)}")
    return RENAMED_COLLECTIONS.get(name, name)


def parse_return(name: str, text: str | None) -> ReturnKind | ReturnEvents:
    """Parse `return=` for the collection that JobScheduler calls `name`. The default is overviews, or all events."""
    if text is None:
        return ReturnEvents(parse_event_types("Event")) if name == EVENT_COLLECTION else ReturnKind.OVERVIEWS
    if text == f"{name[0].upper()}{name[1:]}Overview" and name != EVENT_COLLECTION:
        return ReturnKind.OVERVIEWS
    if name == "order" and text.removeprefix("Joc") in ("OrderStatistics", "OrderStatisticsChanged"):
        return ReturnKind(text.removeprefix("Joc"))
    return ReturnEvents(parse_event_types(text))
