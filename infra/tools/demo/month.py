"""The month: stories of all kinds, told in the order of time."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter

from infra.tools.demo.jobs import KINDS, Jobs
from infra.tools.demo.narration import Story, Told
from infra.tools.demo.orders import CHAINS, Orders
from infra.tools.demo.pushes import Pushes
from infra.tools.demo.rhythm import Month, Name

EVENTS_A_STORY = 12.4
"""A little less than they have, so that the first guess how many are needed is enough."""


@dataclass(frozen=True, slots=True)
class _Source:
    share: float
    rhythm: Name
    tell: Callable[[int], Story]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A month that ends then, with exactly so many events; the same for the same seed."""

    seed: int
    end_ms: int
    events: int
    first: int = 1
    """The number of its first job, set, order and task."""


def requests(wanted: Wanted, show: Callable[[int], None]) -> list[Told]:
    """What is told in the month, in the order of time. What has not ended by its end is still under way."""
    count = int(wanted.events / EVENTS_A_STORY) + 1
    while True:
        chance = random.Random(f"{wanted.seed}/{wanted.first}/{count}")
        stories = _stories(chance, wanted, count, show)
        if sum(map(_events, stories)) >= wanted.events:
            return _first(_thinned(chance, stories, wanted.events), wanted.events)
        count += count // 10 + 1


def _stories(chance: random.Random, wanted: Wanted, count: int, show: Callable[[int], None]) -> list[Story]:
    """Stories in the order in which they begin, as far as they are told before the month ends."""
    month, orders = Month(wanted.end_ms), Orders(chance, wanted.first)
    sources = _sources(chance, month, wanted.first, orders)
    chosen = chance.choices(range(len(sources)), [source.share for source in sources], k=count)
    begins = sorted((month.moment(chance, sources[place].rhythm), place) for place in chosen)
    stories, events = [orders.opening(month)], 0
    for at_ms, place in begins:
        stories.append([one for one in sources[place].tell(at_ms) if one.at_ms <= month.end_ms])
        events += _events(stories[-1])
        show(events)
    return stories


def _sources(chance: random.Random, month: Month, first: int, orders: Orders) -> Sequence[_Source]:
    jobs, pushes = Jobs(chance, month, first), Pushes(chance)
    return [
        *(_Source(0.82 * kind.share, kind.rhythm, partial(jobs.job, kind)) for kind in KINDS),
        *(_Source(1.0 * one.share, one.rhythm, partial(orders.order, one)) for one in CHAINS),
        _Source(2.0, "office", jobs.jobset),
        _Source(4.0, "office", pushes.push),
    ]


def _thinned(chance: random.Random, stories: list[Story], events: int) -> list[Story]:
    """Without some of the stories, any of them but the first, so that hardly more events are left than are wanted."""
    surplus = sum(map(_events, stories)) - events
    dropped: set[int] = set()
    for place in chance.sample(range(1, len(stories)), len(stories) - 1):
        if _events(stories[place]) <= surplus:
            surplus -= _events(stories[place])
            dropped.add(place)
        if surplus == 0:
            break
    return [story for place, story in enumerate(stories) if place not in dropped]


def _first(stories: Iterable[Story], events: int) -> list[Told]:
    """The requests in the order of time, with the first events: those that are left out would be the latest."""
    found: list[Told] = []
    for one in sorted(chain.from_iterable(stories), key=attrgetter("at_ms")):
        if events > 0:
            found.append(Told(one.at_ms, one.texts[:events]))
            events -= len(one.texts)
    return found


def _events(story: Story) -> int:
    return sum(len(one.texts) for one in story)
