"""Throughput of observers: deliveries put in the outbox, and CPU time per message.

Runs in this process on SQLite, with 10,000 events and 20 observers. Each event matches five of them.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles

from benchmarks.load.job_events import job_events
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal
from chalicelib.domain.events.event import Event
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.notifications.delivery import Delivery, Dropped
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.vocabularies.job.events import new_event
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.notifications.matching import ObserverMatcher
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local
from chalicelib.wiring.notifications import build_message_builder

EVENTS = 10_000
OBSERVERS = 20
KINDS = ("backup", "deploy", "reindex", "certificate")
OBSERVERS_PER_EVENT = OBSERVERS // len(KINDS)
EVENTS_PER_COMMIT = 20
MESSAGES = 1_000
"""Messages rendered per channel."""

DELIVERY_GOAL = Goal(5_000)
MESSAGE_GOAL = Goal(1, at_most=True)

_CONFIG = {
    "mail": {"to": "ops@example.org", "mail_progress": "1"},
    "slack": {"url": "https://hooks.slack.com/services/x"},
    "app": {"to": "anna"},
}


def measure(directory: Path, events: int = EVENTS) -> Iterator[Table]:
    """Two tables: deliveries per second, and messages. Raises unless each event was delivered to five observers."""
    directory.mkdir(parents=True)
    environment = {
        "DATA_DIR": str(directory),
        "MAIL_FROM": "annals@example.org",
        "PUBLIC_URL": "https://annals.example",
    }
    components = build_local(Settings.from_environment(environment))
    try:
        server = _fill(components, events)
        title = f"{events:,} events, {OBSERVERS} observers, {OBSERVERS_PER_EVENT} told of each"
        yield Table(title, (_delivery_row(components, server, events),))
        yield Table("messages made", tuple(_message_rows(components, server)))
    finally:
        components.close()


def _fill(components: Components, events: int) -> int:
    """Configure the observers and append job events. Returns the server number."""
    components.log.organizations.create("bench")
    server = components.log.organizations.server("bench")
    for number in range(OBSERVERS):
        channel = list(_CONFIG)[number // len(KINDS) % len(_CONFIG)]
        pattern = f"job/?/?/{KINDS[number % len(KINDS)]}"
        configuration = Configuration.model_validate(
            {"channel": channel, "types": [pattern], "config": _CONFIG[channel]}
        )
        components.notifications.observers.put(server, f"observer-{number}", configuration)
    new_events = [new_event(event["payload"]["data"]) for event in job_events(events)]
    for start in range(0, events, EVENTS_PER_COMMIT):
        components.log.appender.append(
            Append(server, encode_within_limits(new_events[start : start + EVENTS_PER_COMMIT]), f"bench-{start}")
        )
    return server


def _delivery_row(components: Components, server: int, events: int) -> Row:
    """Deliveries per second from the log to the outbox."""
    observing = ObserverMatcher(
        components.notifications.observers,
        LogReader(components.stores.log, components.stores.views),
        components.stores.outbox,
        components.notifications.calm,
    )
    began = time.perf_counter()
    catch_up(observing.consumer, server, components.stores.log, components.stores.progress)
    per_s = events * OBSERVERS_PER_EVENT / (time.perf_counter() - began)
    put = sum(components.stores.outbox.counts(server, f"observer-{number}")["waiting"] for number in range(OBSERVERS))
    if put != events * OBSERVERS_PER_EVENT:
        raise RuntimeError(f"{put} deliveries instead of {events * OBSERVERS_PER_EVENT}")
    return Row("deliveries to the outbox", "/s", {"Annals": per_s}, (DELIVERY_GOAL,))


def _message_rows(components: Components, server: int) -> Iterator[Row]:
    """CPU time per message of each channel, with up-to-date views."""
    catch_up(projector(components.stores.views), server, components.stores.log, components.stores.views)
    commits = list(components.stores.log.read(server, 0, MESSAGES // EVENTS_PER_COMMIT))
    events = [event for commit in commits for event in commit.events]
    for place, channel in enumerate(_CONFIG):
        times = _message_times(components, server, f"observer-{place * len(KINDS)}", events)
        values = {"p50": median(times), "p99": quantiles(times, n=100)[98]}
        yield Row(f"a message of {channel}", "ms of CPU", values, (MESSAGE_GOAL,))


def _message_times(components: Components, server: int, name: str, events: Sequence[Event]) -> list[float]:
    """CPU milliseconds of each message. The first messages compile the templates and are not counted."""
    making, configured = build_message_builder(components), components.notifications.observers.load(server)
    observer = configured.observers[name]
    times: list[float] = []
    for event in (*events[: MESSAGES // 10], *events):
        delivery = Delivery(f"{event.id}/{name}", server, name, event.id, "", observer.addresses[0])
        began = time.thread_time()
        if isinstance(making.build(delivery, event, observer, configured), Dropped):
            raise RuntimeError("a message was dropped")
        times.append((time.thread_time() - began) * 1000)
    return times[MESSAGES // 10 :]
