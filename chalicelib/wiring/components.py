"""The components of one process, grouped by capability.

`local.py` and `on_aws.py` open the stores and build the log services. The other groups are built here, from those.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count

from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.observer import ConfigurationState, Observer
from chalicelib.domain.queries.size_limit import LAMBDA_PAGE, UTF8_PAGE, SizeLimit
from chalicelib.http.auth.tickets import Tickets
from chalicelib.http.auth.tokens import IssuerKeys, LocalKey, Verifier
from chalicelib.services.admin.health import CACHE_S, HealthCheck
from chalicelib.services.admin.sign_in import SignIn
from chalicelib.services.calm import held_messages as held
from chalicelib.services.calm.alerts import Alerts
from chalicelib.services.calm.decisions import CalmDecisions, Passes
from chalicelib.services.calm.held_messages import HeldMessages
from chalicelib.services.calm.states import CalmStates
from chalicelib.services.consumers.consumer import ClaimingConsumer
from chalicelib.services.consumers.due_index import DueIndex, TimedWork
from chalicelib.services.consumers.projector import projector
from chalicelib.services.expectations import expectation_alarms
from chalicelib.services.expectations.expectation_alarms import ExpectationAlarms
from chalicelib.services.expectations.fold_store import FoldStore
from chalicelib.services.expectations.registry import ExpectationRegistry
from chalicelib.services.expectations.status import ExpectationStatuses
from chalicelib.services.feeds.push_jobs import FeedSettings, PushFeeds
from chalicelib.services.jobs import job_timeouts
from chalicelib.services.jobs.job_publisher import NO_LIMIT, JobPublisher
from chalicelib.services.jobs.job_timeouts import JobTimeouts
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.notifications.deliverer import Mailer
from chalicelib.services.notifications.history.delivery_history import DeliveryHistory
from chalicelib.services.notifications.history.failure_events import FailureEvents
from chalicelib.services.notifications.history.observer_past import ObserverPasts
from chalicelib.services.notifications.inbox import Inbox, ReadMarks
from chalicelib.services.notifications.matching import ObserverMatcher
from chalicelib.services.notifications.registry import ObserverRegistry
from chalicelib.services.notifications.replay import Replayer
from chalicelib.services.pings.ping_keys import PingKeyRegistry
from chalicelib.services.pings.ping_recorder import PingRecorder
from chalicelib.services.ports import ChangeNotifier, Clock, Log, Measure, Outbox, Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.settings import Settings

MAX_WAITING_ON_HUB = 32
"""Requests that may wait for others about the same job set. A hub has 128 workers for all requests."""


@dataclass(frozen=True, slots=True)
class Stores:
    """All persistent data of the process."""

    log: Log
    views: Views
    """Can be rebuilt from the log."""
    progress: Views
    """Checkpoints of consumers with side effects. They cannot be rebuilt."""
    outbox: Outbox
    delete_commits: Callable[[int, int], int]
    """Delete a batch of commits of a log up to a session and return its size. On AWS the table's TTL deletes them."""
    has_external_writes: Callable[[], bool]
    """Whether another process may have written to the log since the previous call."""
    last_sessions: Callable[[], Mapping[int, int]]
    """The last session of each log, by server. On AWS the stream reports the logs that grow."""
    close: Callable[[], None]
    has_copies_in_views: bool
    """Whether the views contain idempotency keys and small events. On one machine they are read from the log."""


@dataclass(frozen=True, slots=True)
class LogServices:
    """Append to the logs, publish events to them and read them."""

    reader: LogReader
    retention: Retention
    """Which events readers may see."""
    stored_retention: Retention
    """Which commits are surely stored. The views are built from these."""
    notifier: ChangeNotifier
    appender: Appender
    publisher: Publisher
    organizations: Organizations
    health: HealthCheck
    refresh: Callable[[], None]
    """Notify waiting readers of commits that other processes have written. The server calls it at intervals."""


@dataclass(frozen=True, slots=True)
class ConsumerServices:
    """Build the views, and do the work whose time has come."""

    projector: ClaimingConsumer
    due: DueIndex
    """The deadlines that follow from the log, in the views."""
    held: DueIndex
    """The deadlines of held messages, in the store of the checkpoints. On AWS that is the store of the views."""

    @property
    def due_indexes(self) -> tuple[DueIndex, ...]:
        return (self.due,) if self.due is self.held else (self.due, self.held)


@dataclass(frozen=True, slots=True)
class JobServices:
    """Publish job events and serve the feeds of push jobs."""

    publisher: JobPublisher
    push_feeds: PushFeeds


@dataclass(frozen=True, slots=True)
class PingServices:
    """Verify ping keys, and record pings."""

    keys: PingKeyRegistry
    recorder: PingRecorder


@dataclass(frozen=True, slots=True)
class ExpectationServices:
    """Configure when jobs are expected to run, and report how it goes."""

    registry: ExpectationRegistry
    statuses: ExpectationStatuses


@dataclass(frozen=True, slots=True)
class NotificationServices:
    """Match events to observers and deliver messages about them."""

    observers: ObserverRegistry
    calm: CalmDecisions
    alerts: Alerts
    matcher: ObserverMatcher
    replayer: Replayer
    inbox: Inbox
    read_marks: ReadMarks
    history: DeliveryHistory
    failures: FailureEvents
    create_mailer: Callable[[], Mailer]


@dataclass(frozen=True, slots=True)
class AuthServices:
    """Verify tokens, exchange sign-in codes and issue tickets for report pages."""

    verifier: Verifier
    sign_in: SignIn
    tickets: Tickets


@dataclass(frozen=True, slots=True)
class Components:
    """All components of a process."""

    settings: Settings
    clock: Clock
    measure: Measure
    stores: Stores
    log: LogServices
    consumers: ConsumerServices
    jobs: JobServices
    pings: PingServices
    expectations: ExpectationServices
    notifications: NotificationServices
    auth: AuthServices

    def close(self) -> None:
        self.stores.close()


def page_size(settings: Settings) -> SizeLimit:
    """The size of pages. A Lambda function escapes its responses, which makes them larger."""
    return LAMBDA_PAGE if settings.function else UTF8_PAGE


def build_log_services(
    settings: Settings,
    clock: Clock,
    reader: LogReader,
    notifier: ChangeNotifier,
    appender: Appender,
    publisher: Publisher,
    refresh: Callable[[], None] = lambda: None,
) -> LogServices:
    organizations = Organizations(reader.log, appender, reader)
    retention = Retention(reader.log, clock, settings.retention_s, settings.retention_events)
    is_local = settings.store == "sqlite"
    return LogServices(
        reader=reader,
        retention=retention,
        stored_retention=retention if is_local else Retention(reader.log, clock, settings.stored_s),
        notifier=notifier,
        appender=appender,
        publisher=publisher,
        organizations=organizations,
        health=HealthCheck(reader.log, organizations, 0.0 if settings.store == "sqlite" else CACHE_S),
        refresh=refresh,
    )


def build_components(
    settings: Settings,
    clock: Clock,
    measure: Measure,
    stores: Stores,
    log: LogServices,
    create_mailer: Callable[[], Mailer],
) -> Components:
    jobs = _build_job_services(settings, clock, measure, log)
    observers, states = ObserverRegistry(stores.log, log.appender), CalmStates(stores.progress)
    expectations, folds = ExpectationRegistry(stores.log, log.appender), FoldStore(log.reader, log.stored_retention)
    consumers = _build_consumer_services(
        settings,
        clock,
        stores,
        log,
        ExpectationAlarms(expectations, folds, log.publisher),
        HeldMessages(observers, states, stores.log, stores.outbox),
    )
    calm = CalmDecisions(states, consumers.held, _lazy_event_filter(settings, log))
    keys = PingKeyRegistry(stores.log, log.appender, log.organizations)
    return Components(
        settings=settings,
        clock=clock,
        measure=measure,
        stores=stores,
        log=log,
        consumers=consumers,
        jobs=jobs,
        pings=PingServices(keys, PingRecorder(log.reader, jobs.publisher, expectations)),
        expectations=ExpectationServices(expectations, ExpectationStatuses(expectations, folds, clock)),
        notifications=_build_notification_services(clock, stores, log, observers, calm, create_mailer),
        auth=AuthServices(build_verifier(settings), SignIn(), Tickets(clock)),
    )


def _build_consumer_services(
    settings: Settings,
    clock: Clock,
    stores: Stores,
    log: LogServices,
    alarms: ExpectationAlarms,
    held_messages: HeldMessages,
) -> ConsumerServices:
    work: dict[str, TimedWork] = {
        job_timeouts.KIND: JobTimeouts(log.reader, log.publisher, settings.clean_timeout_s),
        expectation_alarms.KIND: alarms,
    }
    held_work: dict[str, TimedWork] = {held.KIND: held_messages}
    stored_deadlines = {held.KIND: held_messages.stored_deadlines}
    if stores.progress is stores.views:
        due = held_index = DueIndex(stores.views, clock, {**work, **held_work}, stored_deadlines)
    else:
        due = DueIndex(stores.views, clock, work)
        held_index = DueIndex(stores.progress, clock, held_work, stored_deadlines)
    return ConsumerServices(projector(stores.views, stores.has_copies_in_views, due.enter), due, held_index)


def _lazy_event_filter(settings: Settings, log: LogServices) -> Passes:
    @cache
    def event_filter() -> Passes:
        from chalicelib.wiring.notifications import build_event_filter  # noqa: PLC0415  (loading Jinja2 takes long)

        return build_event_filter(settings, log)

    def passes(event: Event, observer: Observer, configured: ConfigurationState) -> bool:
        return event_filter()(event, observer, configured)

    return passes


def _build_job_services(settings: Settings, clock: Clock, measure: Measure, log: LogServices) -> JobServices:
    feed_settings = FeedSettings(
        settings.keep_alive_s,
        settings.wait_complete_s,
        settings.org_feed_expiration_s,
        # Without streaming, a feed is one response that ends within the longest poll.
        max_duration_s=float("inf") if settings.streams else settings.max_poll_s,
        first_page_only=not settings.streams,
    )
    # The requests that wait for one job set must not occupy all workers of a hub.
    max_waiting = MAX_WAITING_ON_HUB if settings.is_hub else NO_LIMIT
    return JobServices(
        publisher=JobPublisher(log.publisher, log.reader, log.retention, clock, log.appender.has_receipt, max_waiting),
        push_feeds=PushFeeds(log.reader, log.retention, clock, feed_settings, measure),
    )


def _build_notification_services(
    clock: Clock,
    stores: Stores,
    log: LogServices,
    observers: ObserverRegistry,
    calm: CalmDecisions,
    create_mailer: Callable[[], Mailer],
) -> NotificationServices:
    matcher = ObserverMatcher(observers, log.reader, stores.outbox, calm)
    return NotificationServices(
        observers=observers,
        calm=calm,
        alerts=Alerts(calm.states, log.reader, log.publisher, clock),
        matcher=matcher,
        replayer=Replayer(log.reader, log.retention, matcher, stores.outbox, observers, calm),
        inbox=Inbox(log.appender),
        read_marks=ReadMarks(log.reader, log.retention, log.publisher),
        failures=FailureEvents(observers, stores.log, log.publisher),
        history=DeliveryHistory(stores.outbox, log.reader, log.retention, ObserverPasts(stores.log)),
        create_mailer=create_mailer,
    )


def build_verifier(settings: Settings) -> Verifier:
    """Verify tokens of the configured issuer, or of this installation's own key without one."""
    keys: IssuerKeys | LocalKey
    if settings.oidc_issuer:
        keys = IssuerKeys(settings.oidc_issuer, settings.oidc_audience, settings.jwks_url)
    else:
        # Without a configured key no token may pass. A random key ensures that.
        keys = LocalKey(settings.jwt_key or secrets.token_hex(32))
    return Verifier(keys, settings.org_claim, settings.groups_claim)


def new_request_id() -> str:
    """A random id. It is short because it is stored with each commit."""
    return secrets.token_urlsafe(9)


def request_ids() -> Callable[[], str]:
    """A generator of ids for one process: a random prefix and a counter, which needs no system call per id."""
    prefix, numbers = secrets.token_urlsafe(6), count()
    return lambda: f"{prefix}{next(numbers):x}"
