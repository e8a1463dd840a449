"""One process, and its companions, with all they keep in SQLite files."""

import secrets
from collections.abc import Callable
from itertools import count

from chalicelib.adapters.sqlite import outbox as sqlite_outbox
from chalicelib.adapters.sqlite import views as sqlite_views
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.http import fast_append_parser
from chalicelib.services.feeds.notifiers import Bell
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.group_commit import GroupCommit
from chalicelib.services.notifications.deliverer import Mailer
from chalicelib.services.ports import Clock, unmeasured
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.settings import Settings
from chalicelib.wiring.components import Means

BUSY_S = 0.5
"""The server's reading thread writes too, so it does not wait long for others; the appender tries again."""


def means(settings: Settings, clock: Clock) -> Means:
    """Group commit, and readers told at once."""
    folder = settings.data_dir
    database = Database(folder / "annals.sqlite", busy_s=BUSY_S)
    views_database = Database(folder / "views.sqlite", sqlite_views.SCHEMA, durable=False)
    # Views may be thrown away, and how far observers were told may not, so that is kept with the outbox.
    outbox_schema = f"{sqlite_outbox.SCHEMA}{sqlite_views.SCHEMA.lstrip()}"
    outbox_database = Database(folder / "outbox.sqlite", outbox_schema)
    log, views, bell = SqliteLog(database), sqlite_views.SqliteViews(views_database), Bell()
    present = LogReader(log, views)
    appender = Appender(log, clock, present=present)

    def mailer() -> Mailer:
        from chalicelib.adapters.mail.maildir import MaildirMailer  # noqa: PLC0415  (only who delivers needs them)
        from chalicelib.adapters.mail.smtp import SmtpMailer  # noqa: PLC0415

        return SmtpMailer(settings.smtp_url) if settings.smtp_url else MaildirMailer(folder / "maildir")

    def close() -> None:
        for each in (database, views_database, outbox_database):
            each.close()

    return Means(
        log=log,
        views=views,
        present=present,
        wake=bell,
        appender=appender,
        submit=GroupCommit(appender, written=bell.ring).submit,
        request_id=request_ids(),
        plainly=fast_append_parser.texts,
        outbox=sqlite_outbox.SqliteOutbox(outbox_database),
        progress=sqlite_views.SqliteViews(outbox_database),
        mailer=mailer,
        forget=log.forget,
        has_grown=database.has_changed,
        measure=unmeasured,
        close=close,
    )


def request_ids() -> Callable[[], str]:
    """New ids for one process: random once, then counted, for randomness takes a system call."""
    process, numbers = secrets.token_urlsafe(6), count()
    return lambda: f"{process}{next(numbers):x}"
