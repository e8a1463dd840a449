"""What points at commits: receipts of requests, checkpoints of consumers, deliveries. It must point at what exists."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from annals_client.checks.commits import SESSIONS
from annals_client.checks.files import opened
from annals_client.checks.findings import LOG, OUTBOX, Finding, LogSeen

GENERATIONS = 2**44
"""Room for sessions in what a checkpoint says; above that are generations of views."""

_CHECKPOINTS = "SELECT view, item, \"to\", data FROM record WHERE view LIKE '%/checkpoint'"
_DELIVERIES = "SELECT server, max(session) FROM delivery GROUP BY server"
_RECEIPTS = """
SELECT receipt.server, receipt.key, receipt.session, receipt.req, log.req
FROM receipt LEFT JOIN log ON log.place = receipt.server * ? + receipt.session
"""


@dataclass(frozen=True, slots=True)
class Pointer:
    """What something says of a log: that it has this session, and perhaps how that ends."""

    file: str
    who: str
    log: int
    session: int
    end: int | None = None


def pointers(path: Path) -> list[Pointer]:
    """What a file says of the logs. It is read before the logs are, for those only grow."""
    try:
        with opened(path) as connection:
            found = [_checkpoint(path.name, *row) for row in connection.execute(_CHECKPOINTS)]
            if path.name == OUTBOX:
                deliveries = connection.execute(_DELIVERIES)
                found += [Pointer(OUTBOX, "a delivery", log, session) for log, session in deliveries]
            return found
    except (sqlite3.DatabaseError, ValueError, LookupError, TypeError):
        return []  # the check of the file itself says why


def pointer_findings(
    connection: sqlite3.Connection, some: list[Pointer], logs: Mapping[int, LogSeen]
) -> Iterator[Finding]:
    """What points at nothing, or at something else than it says."""
    for one in some:
        seen = logs.get(one.log) or LogSeen(one.log, None)
        if one.session > seen.last:
            problem = f"{one.who} has come to session {one.session}, but the log ends at {seen.last}"
            yield Finding(one.file, problem, one.log, seen.organization, one.session)
        elif one.end is not None and (end := _end(connection, one)) not in (None, one.end):
            problem = f"{one.who} says that this session ends at {one.end}, but it ends at {end}"
            yield Finding(one.file, problem, one.log, seen.organization, one.session)


def receipt_findings(connection: sqlite3.Connection, logs: Mapping[int, LogSeen]) -> Iterator[Finding]:
    """Receipts that a repeated request would be answered from, and wrongly."""
    for log, key, session, wrote, committed in connection.execute(_RECEIPTS, (SESSIONS,)):
        seen = logs.get(log) or LogSeen(log, None)
        if committed is None and session > seen.last:
            problem = f"the receipt of Idempotency-Key {key!r} names this session, but the log ends at {seen.last}"
            yield Finding(LOG, problem, log, seen.organization, session)
        elif committed is not None and committed != wrote:
            problem = f"the receipt of Idempotency-Key {key!r} names this session, but another request wrote it"
            yield Finding(LOG, problem, log, seen.organization, session)


def _checkpoint(file: str, view: str, consumer: str, to: int, data: str) -> Pointer:
    return Pointer(file, consumer, int(view.partition("/")[0]), to % GENERATIONS, json.loads(data)["last"])


def _end(connection: sqlite3.Connection, one: Pointer) -> int | None:
    """The EventId with which the session ends; None if it is not there any more."""
    try:
        query = "SELECT at + n - 1 FROM log WHERE place = ?"
        row = connection.execute(query, (one.log * SESSIONS + one.session,)).fetchone()
    except sqlite3.DatabaseError:
        return None
    return None if row is None else int(row[0])
