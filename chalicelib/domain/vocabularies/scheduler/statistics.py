"""OrderStatistics: how many orders are in which state."""

from collections.abc import Iterable

from pydantic_core import to_json

from chalicelib.domain.objects.ref import State

COUNTERS = (
    "total",
    "notPlanned",
    "planned",
    "due",
    "started",
    "inTask",
    "inTaskProcess",
    "occupiedByClusterMember",
    "setback",
    "waitingForResource",
    "suspended",
    "blacklisted",
    "permanent",
    "fileOrder",
)

Statistics = dict[str, int]

_COUNTED: dict[str, tuple[str, ...]] = {
    "NotPlanned": ("notPlanned",),
    "Planned": ("planned",),
    "Due": ("due",),
    "WaitingInTask": ("started", "inTask"),
    "InTaskProcess": ("started", "inTask", "inTaskProcess"),
    "OccupiedByClusterMember": ("started", "occupiedByClusterMember"),
    "Setback": ("started", "setback"),
    "WaitingForResource": ("started", "waitingForResource"),
    "Blacklisted": ("blacklisted",),
}
_SOURCES = {"Permanent": ("permanent",), "FileOrder": ("fileOrder",)}


def statistics(orders: Iterable[State]) -> Statistics:
    """The counts of all `orders`."""
    counts = dict.fromkeys(COUNTERS, 0)
    for order in orders:
        for counter in counted(order):
            counts[counter] += 1
    return counts


def changed_text(event_id: int, counts: Statistics) -> str:
    """The JSON of the event that tells that the statistics have changed."""
    return to_json({"eventId": event_id, "TYPE": "OrderStatisticsChanged", "orderStatistics": counts}).decode()


def counted(order: State) -> tuple[str, ...]:
    """The counters that one order is counted in; a suspended one counts as nothing but suspended."""
    source: tuple[str, ...] = _SOURCES.get(order["orderSourceType"], ())
    if order["obstacles"]:
        return ("total", *source, "suspended")
    return ("total", *source, *_COUNTED[order["orderProcessingState"]["TYPE"]])
