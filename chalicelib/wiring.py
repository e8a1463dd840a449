"""Wiring: the parts put together, once a process, when first needed."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import count

from chalicelib.api.tokens import IssuerKeys, LocalKey, Verifier
from chalicelib.domain.pending import Settled
from chalicelib.services.append import Appender
from chalicelib.services.job_publishing import JobPublishing
from chalicelib.services.organizations import Organizations
from chalicelib.services.ports import Clock, Log, Views, Wake
from chalicelib.services.present import Present
from chalicelib.services.publish import Publish
from chalicelib.services.push_feeds import Manner, PushFeeds
from chalicelib.services.retention import Retention
from chalicelib.settings import Settings


@dataclass(frozen=True, slots=True)
class Annals:
    """Everything a request may need."""

    settings: Settings
    clock: Clock
    log: Log
    views: Views
    present: Present
    retention: Retention
    wake: Wake
    appender: Appender
    publish: Publish
    job_publishing: JobPublishing
    push_feeds: PushFeeds
    organizations: Organizations
    verifier: Verifier
    forget: Callable[[int, int], int]
    """Delete some of a log's commits up to a session; how many. On AWS the tables do that by themselves."""
    has_grown: Callable[[], bool]
    """Whether another process may have written to the log since this was asked last."""
    close: Callable[[], None]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@cache
def annals() -> Annals:
    """The process's own, as its environment says."""
    settings = Settings.from_environment()
    return embedded(settings) if settings.store == "sqlite" else on_aws(settings)


def embedded(settings: Settings, clock: Clock = _now_ms) -> Annals:
    """One process with its log in SQLite: group commit, and readers told at once."""
    from chalicelib.services.group_commit import GroupCommit  # noqa: PLC0415  (each way to run loads its own)
    from chalicelib.services.wakes import Bell  # noqa: PLC0415
    from chalicelib.store.sqlite import views as sqlite_views  # noqa: PLC0415
    from chalicelib.store.sqlite.database import Database  # noqa: PLC0415
    from chalicelib.store.sqlite.log import SqliteLog  # noqa: PLC0415

    database = Database(settings.data_dir / "annals.sqlite")
    views_database = Database(settings.data_dir / "views.sqlite", sqlite_views.SCHEMA, durable=False)
    log, views, bell = SqliteLog(database), sqlite_views.SqliteViews(views_database), Bell()
    present = Present(log, views)
    retention = Retention(log, clock, settings.retention_s, settings.retention_events)
    appender = Appender(log, clock, present=present)

    def close() -> None:
        database.close()
        views_database.close()

    publish = Publish(log, GroupCommit(appender, written=bell.ring).submit, request_ids())
    return Annals(
        settings=settings,
        clock=clock,
        log=log,
        views=views,
        present=present,
        retention=retention,
        wake=bell,
        appender=appender,
        publish=publish,
        job_publishing=JobPublishing(publish, present, retention, clock),
        push_feeds=PushFeeds(present, retention, clock, _manner(settings)),
        organizations=Organizations(log, appender),
        verifier=verifier(settings),
        forget=log.forget,
        has_grown=database.has_changed,
        close=close,
    )


def on_aws(settings: Settings, clock: Clock = _now_ms) -> Annals:
    """A Lambda function with its log in DynamoDB."""
    from chalicelib.services.wakes import Looking  # noqa: PLC0415  (each way to run loads its own)
    from chalicelib.store.dynamodb.client import dynamodb_client  # noqa: PLC0415
    from chalicelib.store.dynamodb.log import DynamoLog  # noqa: PLC0415
    from chalicelib.store.dynamodb.views import DynamoViews  # noqa: PLC0415

    client = dynamodb_client()
    log = DynamoLog(client, settings.log_table, settings.views_table, retention_s=settings.retention_s)
    views = DynamoViews(client, settings.views_table)
    present = Present(log, views)
    retention = Retention(log, clock, settings.retention_s, settings.retention_events)
    appender = Appender(log, clock, present=present)
    publish = Publish(log, lambda append: Settled(appender.append(append)), request_id)
    return Annals(
        settings=settings,
        clock=clock,
        log=log,
        views=views,
        present=present,
        retention=retention,
        wake=Looking(),
        appender=appender,
        publish=publish,
        job_publishing=JobPublishing(publish, present, retention, clock),
        push_feeds=PushFeeds(present, retention, clock, _manner(settings)),
        organizations=Organizations(log, appender),
        verifier=verifier(settings),
        forget=lambda _server, _session: 0,
        has_grown=lambda: True,
        close=lambda: None,
    )


def _manner(settings: Settings) -> Manner:
    """How push feeds behave; one that cannot stream answers within the longest poll."""
    return Manner(
        settings.keep_alive_s,
        settings.wait_complete_s,
        settings.org_feed_expiration_s,
        longest_s=float("inf") if settings.streams else settings.longest_poll_s,
        is_page=not settings.streams,
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


def request_ids() -> Callable[[], str]:
    """New ids for one process: random once, then counted, for randomness takes a system call."""
    process, numbers = secrets.token_urlsafe(6), count()
    return lambda: f"{process}{next(numbers):x}"
