"""The parts that a process is made of: those that depend on where it runs, and those made of them."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from chalicelib.domain.log.append import Append
from chalicelib.http.auth.tickets import Tickets
from chalicelib.http.auth.tokens import IssuerKeys, LocalKey, Verifier
from chalicelib.services.admin.sign_in import SigningIn
from chalicelib.services.feeds.push_jobs import Manner, PushFeeds
from chalicelib.services.jobs.job_publisher import JobPublishing
from chalicelib.services.jobs.job_timeouts import Cleaning
from chalicelib.services.log.append_future import Pending
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.log.publisher import Publish
from chalicelib.services.notifications.deliverer import Mailer
from chalicelib.services.notifications.inbox import Inbox
from chalicelib.services.notifications.matching import Observing
from chalicelib.services.notifications.registry import Observers
from chalicelib.services.notifications.replay import Replaying
from chalicelib.services.ports import Clock, Log, Measure, Outbox, Views, Wake
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.settings import Settings


@dataclass(frozen=True, slots=True)
class Means:
    """What depends on where the process runs."""

    log: Log
    views: Views
    present: LogReader
    wake: Wake
    appender: Appender
    submit: Callable[[Append], Pending]
    request_id: Callable[[], str]
    plainly: Callable[[bytes], tuple[str, ...] | None]
    """The encoded events of a request's body, if that can be read in a faster way than any."""
    outbox: Outbox
    progress: Views
    """Where those who act on the world keep how far they have come."""
    mailer: Callable[[], Mailer]
    forget: Callable[[int, int], int]
    """Delete some of a log's commits up to a session; how many. On AWS the tables do that by themselves."""
    has_grown: Callable[[], bool]
    """Whether another process may have written to the log since this was asked last."""
    measure: Measure
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Annals:
    """Everything a request may need."""

    settings: Settings
    clock: Clock
    log: Log
    views: Views
    present: LogReader
    retention: Retention
    wake: Wake
    appender: Appender
    publish: Publish
    plainly: Callable[[bytes], tuple[str, ...] | None]
    job_publishing: JobPublishing
    push_feeds: PushFeeds
    organizations: Organizations
    outbox: Outbox
    progress: Views
    observers: Observers
    observing: Observing
    replaying: Replaying
    cleaning: Cleaning
    inbox: Inbox
    mailer: Callable[[], Mailer]
    verifier: Verifier
    signing_in: SigningIn
    tickets: Tickets
    forget: Callable[[int, int], int]
    has_grown: Callable[[], bool]
    measure: Measure
    close: Callable[[], None]


def assembled(settings: Settings, clock: Clock, means: Means) -> Annals:
    """All parts."""
    log, present, appender, outbox = means.log, means.present, means.appender, means.outbox
    retention = Retention(log, clock, settings.retention_s, settings.retention_events)
    publish = Publish(log, means.submit, means.request_id)
    observers = Observers(log, appender)
    observing = Observing(observers, present, outbox)
    return Annals(
        settings=settings,
        clock=clock,
        log=log,
        views=means.views,
        present=present,
        retention=retention,
        wake=means.wake,
        appender=appender,
        publish=publish,
        plainly=means.plainly,
        job_publishing=JobPublishing(publish, present, retention, clock),
        push_feeds=PushFeeds(present, retention, clock, _manner(settings), means.measure),
        organizations=Organizations(log, appender),
        outbox=outbox,
        progress=means.progress,
        observers=observers,
        observing=observing,
        replaying=Replaying(present, retention, observing, outbox),
        cleaning=Cleaning(present, means.views, publish, clock, settings.clean_timeout_s),
        inbox=Inbox(appender),
        mailer=means.mailer,
        verifier=verifier(settings),
        signing_in=SigningIn(),
        tickets=Tickets(clock),
        forget=means.forget,
        has_grown=means.has_grown,
        measure=means.measure,
        close=means.close,
    )


def verifier(settings: Settings) -> Verifier:
    """Tokens of the configured issuer, or else of this installation's own key."""
    keys: IssuerKeys | LocalKey
    if settings.oidc_issuer:
        keys = IssuerKeys(settings.oidc_issuer, settings.oidc_audience, settings.jwks_url)
    else:
        # Without a key nothing may pass, so a random one that nobody knows.
        keys = LocalKey(settings.jwt_key or secrets.token_hex(32))
    return Verifier(keys, settings.org_claim, settings.groups_claim)


def request_id() -> str:
    """A new request's id: short, for it is stored with each commit."""
    return secrets.token_urlsafe(9)


def _manner(settings: Settings) -> Manner:
    """How push feeds behave; one that cannot stream answers within the longest poll."""
    return Manner(
        settings.keep_alive_s,
        settings.wait_complete_s,
        settings.org_feed_expiration_s,
        longest_s=float("inf") if settings.streams else settings.longest_poll_s,
        is_page=not settings.streams,
    )
