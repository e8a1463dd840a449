"""OrderStatistics: the number of orders in each state."""

from collections.abc import Iterable, Mapping

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

_STATE_COUNTERS: dict[str, tuple[str, ...]] = {
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
_SOURCE_COUNTERS = {"Permanent": ("permanent",), "FileOrder": ("fileOrder",)}


def count_orders(orders: Iterable[State]) -> Statistics:
    counts = dict.fromkeys(COUNTERS, 0)
    for order in orders:
        for counter in counters_for(order):
            counts[counter] += 1
    return counts


def statistics_from_counts(states: Mapping[str, int], sources: Mapping[str, int]) -> Statistics:
    """The statistics of orders, from their number by state in lists, and by source."""
    counts = dict.fromkeys(COUNTERS, 0)
    for state, number in states.items():
        for counter in ("total", *_STATE_COUNTERS.get(state, ("suspended",))):
            counts[counter] += number
    for source, number in sources.items():
        for counter in _SOURCE_COUNTERS.get(source, ()):
            counts[counter] += number
    return counts


def changed_event_text(event_id: int, name: str, counts: Statistics) -> str:
    """The JSON of an event called OrderStatisticsChanged or, in later versions of JobScheduler, with the prefix Joc."""
    return to_json({"eventId": event_id, "TYPE": name, "orderStatistics": counts}).decode()


def counters_for(order: State) -> tuple[str, ...]:
    """The counters that include `order`. A suspended order counts as suspended, whatever its processing state."""
    source: tuple[str, ...] = _SOURCE_COUNTERS.get(order["orderSourceType"], ())
    if order["obstacles"]:
        return ("total", *source, "suspended")
    return ("total", *source, *_STATE_COUNTERS[order["orderProcessingState"]["TYPE"]])
