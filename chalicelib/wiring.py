"""Wiring: the parts put together, once a process, when first needed."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from chalicelib.api.tokens import IssuerKeys, LocalKey, Verifier
from chalicelib.domain.pending import Settled
from chalicelib.services.append import Appender
from chalicelib.services.organizations import Organizations
from chalicelib.services.ports import Clock, Log, Wake
from chalicelib.services.publish import Publish
from chalicelib.settings import Settings


@dataclass(frozen=True, slots=True)
class Annals:
    """Everything a request may need."""

    settings: Settings
    log: Log
    wake: Wake
    appender: Appender
    publish: Publish
    organizations: Organizations
    verifier: Verifier
    close: Callable[[], None]


@cache
def annals() -> Annals:
    """The process's own, as its environment says."""
    settings = Settings.from_environment()
    return embedded(settings) if settings.store == "sqlite" else on_aws(settings)


def embedded(settings: Settings, clock: Clock = lambda: time.time_ns() // 1_000_000) -> Annals:
    """One process with its log in SQLite: group commit, and readers told at once."""
    from chalicelib.services.group_commit import GroupCommit  # noqa: PLC0415  (each way to run loads its own)
    from chalicelib.services.wakes import Bell  # noqa: PLC0415
    from chalicelib.store.sqlite.database import Database  # noqa: PLC0415
    from chalicelib.store.sqlite.log import SqliteLog  # noqa: PLC0415

    database = Database(settings.data_dir / "annals.sqlite")
    log = SqliteLog(database)
    bell = Bell()
    appender = Appender(log, clock)

    publish = Publish(log, GroupCommit(appender, written=bell.ring).submit, request_id)
    return Annals(
        settings, log, bell, appender, publish, Organizations(log, appender), verifier(settings), database.close
    )


def on_aws(settings: Settings, clock: Clock = lambda: time.time_ns() // 1_000_000) -> Annals:
    """A Lambda function with its log in DynamoDB."""
    from chalicelib.services.wakes import Looking  # noqa: PLC0415  (each way to run loads its own)
    from chalicelib.store.dynamodb.client import dynamodb_client  # noqa: PLC0415
    from chalicelib.store.dynamodb.log import DynamoLog  # noqa: PLC0415

    log = DynamoLog(dynamodb_client(), settings.log_table, settings.views_table)
    appender = Appender(log, clock)
    publish = Publish(log, lambda append: Settled(appender.append(append)), request_id)
    organizations = Organizations(log, appender)
    return Annals(settings, log, Looking(), appender, publish, organizations, verifier(settings), close=lambda: None)


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
