"""Ten thousand events seen by twenty observers: how fast deliveries come to the outbox, and how long a message takes.

In this process, on SQLite. Every event concerns five of the observers.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles

from benchmarks.events import job_events
from benchmarks.results import Row, Table
from benchmarks.table import Goal
from chalicelib.domain.events.event import Event
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.notifications.delivery import Delivery, Dropped
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.vocabularies.job import new_event
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.notifications.matching import Observing
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.settings import Settings
from chalicelib.wiring import Annals, embedded
from chalicelib.wiring.notifications import messages

EVENTS = 10_000
OBSERVERS = 20
KINDS = ("backup", "deploy", "reindex", "certificate")
EACH = OBSERVERS // len(KINDS)
COMMIT = 20
"""Events in one commit."""
MESSAGES = 1_000
"""So many messages of each channel are made."""

PUT = Goal(5_000)
RENDERED = Goal(1, at_most=True)

_CONFIG = {
    "mail": {"to": "ops@example.org", "mail_progress": "1"},
    "slack": {"url": "https://hooks.slack.com/services/x"},
    "app": {"to": "anna"},
}


def measured(directory: Path, events: int = EVENTS) -> Iterator[Table]:
    """Write, observe, render; two tables. Raises unless every event came to five observers."""
    directory.mkdir(parents=True)
    given = {"DATA_DIR": str(directory), "MAIL_FROM": "annals@example.org", "PUBLIC_URL": "https://annals.example"}
    parts = embedded(Settings.from_environment(given))
    try:
        server = _filled(parts, events)
        title = f"{events:,} events, {OBSERVERS} observers, {EACH} told of each"
        yield Table(title, (_observed(parts, server, events),))
        yield Table("messages made", tuple(_rendered(parts, server)))
    finally:
        parts.close()


def _filled(parts: Annals, events: int) -> int:
    """A log of events of jobs, and observers who saw none of them."""
    parts.organizations.create("bench")
    server = parts.organizations.server("bench")
    for number in range(OBSERVERS):
        channel = list(_CONFIG)[number // len(KINDS) % len(_CONFIG)]
        pattern = f"job/?/?/{KINDS[number % len(KINDS)]}"
        configuration = Configuration.model_validate(
            {"channel": channel, "types": [pattern], "config": _CONFIG[channel]}
        )
        parts.observers.put(server, f"observer-{number}", configuration)
    told = [new_event(event["payload"]["data"]) for event in job_events(events)]
    for start in range(0, events, COMMIT):
        parts.appender.append(Append(server, encoded(told[start : start + COMMIT]), f"bench-{start}"))
    return server


def _observed(parts: Annals, server: int, events: int) -> Row:
    """From the log to the outbox."""
    observing = Observing(parts.observers, LogReader(parts.log, parts.views), parts.outbox)
    began = time.perf_counter()
    catch_up(observing.consumer, server, parts.log, parts.progress)
    per_s = events * EACH / (time.perf_counter() - began)
    put = sum(parts.outbox.counts(server, f"observer-{number}")["waiting"] for number in range(OBSERVERS))
    if put != events * EACH:
        raise RuntimeError(f"{put} deliveries instead of {events * EACH}")
    return Row("deliveries to the outbox", "/s", {"Annals": per_s}, (PUT,))


def _rendered(parts: Annals, server: int) -> Iterator[Row]:
    """What each channel's messages take, once the views are up to date as the pump keeps them."""
    catch_up(projector(parts.views), server, parts.log, parts.views)
    commits = list(parts.log.read(server, 0, MESSAGES // COMMIT))
    events = [event for commit in commits for event in commit.events]
    for place, channel in enumerate(_CONFIG):
        times = _times(parts, server, f"observer-{place * len(KINDS)}", events)
        values = {"p50": median(times), "p99": quantiles(times, n=100)[98]}
        yield Row(f"a message of {channel}", "ms of CPU", values, (RENDERED,))


def _times(parts: Annals, server: int, name: str, events: Sequence[Event]) -> list[float]:
    """Milliseconds of each message, of CPU as nothing else is used; the first compile templates and do not count."""
    making, configured = messages(parts), parts.observers.of(server)
    observer = configured.observers[name]
    times: list[float] = []
    for event in (*events[: MESSAGES // 10], *events):
        delivery = Delivery(f"{event.id}/{name}", server, name, event.id, "", observer.addresses[0])
        began = time.thread_time()
        if isinstance(making.message(delivery, event, observer, configured), Dropped):
            raise RuntimeError("a message was dropped")
        times.append((time.thread_time() - began) * 1000)
    return times[MESSAGES // 10 :]
