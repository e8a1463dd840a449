"""Components of the embedded server and its worker processes, on SQLite files in the data directory."""

import logging
from pathlib import Path

from chalicelib.adapters.sqlite import outbox_table
from chalicelib.adapters.sqlite import views as sqlite_views
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.disposable import DisposableDatabase
from chalicelib.adapters.sqlite.library import check_library
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.log_upgrade import BATCH_COMMITS, upgrade_log
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.services.feeds.notifiers import CommitNotifier
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.group_commit import GroupCommit
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.notifications.deliverer import Mailer
from chalicelib.services.ports import Clock, Receipts, ignore_metric
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.tail_cache import TailCache
from chalicelib.settings import Settings
from chalicelib.wiring.components import (
    Components,
    Stores,
    build_components,
    build_log_services,
    page_size,
    request_ids,
)

LOG_BUSY_TIMEOUT_S = 0.5
"""Short, because the server's network thread writes too. The appender retries."""

_log = logging.getLogger("annals")


def build(settings: Settings, clock: Clock) -> Components:
    check_library(allow_old=settings.allow_old_sqlite)
    stores, receipts = _open_stores(settings.data_dir, clock)
    notifier = CommitNotifier()
    # A read of SQLite is faster than folding the commits after an earlier checkpoint.
    tails = TailCache(stores.log, stores.views, checkpoint_ttl_s=0)
    reader = LogReader(stores.log, stores.views, page_size(settings), tails)
    appender = Appender(stores.log, clock, reader=reader, receipts=receipts)
    publisher = Publisher(stores.log, GroupCommit(appender, on_commit=notifier.publish), request_ids())

    def refresh() -> None:
        if stores.has_external_writes():
            notifier.refresh(stores.log.head)

    log = build_log_services(settings, clock, reader, notifier, appender, publisher, refresh)

    def create_mailer() -> Mailer:
        from chalicelib.adapters.mail.maildir import MaildirMailer  # noqa: PLC0415  (only deliverers send mail)
        from chalicelib.adapters.mail.smtp import SmtpMailer  # noqa: PLC0415

        return SmtpMailer(settings.smtp_url) if settings.smtp_url else MaildirMailer(settings.data_dir / "maildir")

    return build_components(settings, clock, ignore_metric, stores, log, create_mailer)


def _open_stores(folder: Path, clock: Clock) -> tuple[Stores, Receipts]:
    upgrade_log(folder / "annals.sqlite", _log_progress)
    database = Database(folder / "annals.sqlite", busy_timeout_s=LOG_BUSY_TIMEOUT_S)
    views_database = DisposableDatabase(folder / "views.sqlite", sqlite_views.SCHEMA)
    # The views file may be deleted at any time. Checkpoints of notifications must survive that, so they are in the
    # outbox file.
    outbox_schema = f"{outbox_table.SCHEMA}{sqlite_views.SCHEMA.lstrip()}"
    outbox_database = Database(folder / "outbox.sqlite", outbox_schema, upgrades=outbox_table.UPGRADES)
    log = SqliteLog(database)

    def close() -> None:
        database.close()
        views_database.close()
        outbox_database.close()

    stores = Stores(
        log=log,
        views=sqlite_views.SqliteViews(views_database),
        progress=sqlite_views.SqliteViews(outbox_database),
        outbox=SqliteOutbox(outbox_database, clock),
        delete_commits=log.delete_up_to,
        has_external_writes=database.has_changed,
        last_sessions=log.last_sessions,
        close=close,
        has_copies_in_views=False,
    )
    return stores, log


def _log_progress(done: int, total: int) -> None:
    if done == total or done % (100 * BATCH_COMMITS) == 0:
        _log.warning("upgrading annals.sqlite to format 2: %d of %d commits", done, total)
