"""Generates the requests of a month, in order of time."""

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from infra.tools.demo.jobs import JOB_TYPES, JobGenerator
from infra.tools.demo.load_profile import LoadProfile, Month
from infra.tools.demo.orders import JOB_CHAINS, OrderGenerator
from infra.tools.demo.publish_request import Lifecycle, PublishRequest
from infra.tools.demo.pushes import PushJobGenerator

EVENTS_PER_LIFECYCLE = 12.4
"""Slightly below the true average, so that the first estimate of the number of lifecycles is enough."""


@dataclass(frozen=True, slots=True)
class _Source:
    share: float
    profile: LoadProfile
    generate: Callable[[int], Lifecycle]


@dataclass(frozen=True, slots=True)
class DemoSpec:
    """A month that ends at `end_ms`, with exactly `events` events. The same seed gives the same month."""

    seed: int
    end_ms: int
    events: int
    first: int = 1
    """Number of the first job, job set, order and task."""


def generate_requests(spec: DemoSpec, on_progress: Callable[[int], None]) -> list[PublishRequest]:
    """The requests of the month, in order of time. Objects that end after the month are left unfinished."""
    count = int(spec.events / EVENTS_PER_LIFECYCLE) + 1
    while True:
        rng = random.Random(f"{spec.seed}/{spec.first}/{count}")
        lifecycles = _generate_lifecycles(rng, spec, count, on_progress)
        if sum(map(_event_count, lifecycles)) >= spec.events:
            return _first_events(_drop_surplus(rng, lifecycles, spec.events), spec.events)
        count += count // 10 + 1


def _generate_lifecycles(
    rng: random.Random, spec: DemoSpec, count: int, on_progress: Callable[[int], None]
) -> list[Lifecycle]:
    """Lifecycles in the order in which they start, cut off at the end of the month."""
    month, orders = Month(spec.end_ms), OrderGenerator(rng, spec.first)
    sources = _sources(rng, month, spec.first, orders)
    choices = rng.choices(range(len(sources)), [source.share for source in sources], k=count)
    starts = sorted((month.random_time_ms(rng, sources[place].profile), place) for place in choices)
    lifecycles, events = [orders.opening(month)], 0
    for at_ms, place in starts:
        lifecycles.append([request for request in sources[place].generate(at_ms) if request.at_ms <= month.end_ms])
        events += _event_count(lifecycles[-1])
        on_progress(events)
    return lifecycles


def _sources(rng: random.Random, month: Month, first: int, orders: OrderGenerator) -> Sequence[_Source]:
    jobs, pushes = JobGenerator(rng, month, first), PushJobGenerator(rng)
    return [
        *(_Source(0.82 * kind.share, kind.profile, partial(jobs.single_job, kind)) for kind in JOB_TYPES),
        *(_Source(1.0 * chain.share, chain.profile, partial(orders.order, chain)) for chain in JOB_CHAINS),
        _Source(2.0, "office", jobs.release),
        _Source(4.0, "office", pushes.push_job),
    ]


def _drop_surplus(rng: random.Random, lifecycles: list[Lifecycle], events: int) -> list[Lifecycle]:
    """Drop random lifecycles, except the first, until hardly more than `events` events are left."""
    surplus = sum(map(_event_count, lifecycles)) - events
    dropped: set[int] = set()
    for place in rng.sample(range(1, len(lifecycles)), len(lifecycles) - 1):
        if _event_count(lifecycles[place]) <= surplus:
            surplus -= _event_count(lifecycles[place])
            dropped.add(place)
        if surplus == 0:
            break
    return [lifecycle for place, lifecycle in enumerate(lifecycles) if place not in dropped]


def _first_events(lifecycles: Iterable[Lifecycle], events: int) -> list[PublishRequest]:
    """The requests in order of time, with the first `events` events."""
    requests: list[PublishRequest] = []
    for request in sorted(itertools.chain.from_iterable(lifecycles), key=attrgetter("at_ms")):
        if events > 0:
            requests.append(PublishRequest(request.at_ms, request.texts[:events]))
            events -= len(request.texts)
    return requests


def _event_count(lifecycle: Lifecycle) -> int:
    return sum(len(request.texts) for request in lifecycle)
