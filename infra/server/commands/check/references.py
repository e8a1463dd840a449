"""References to commits: checkpoints of consumers, deliveries. The commits must exist."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import apsw

from infra.server.commands.check.commits import SESSIONS_PER_LOG
from infra.server.commands.check.findings import OUTBOX, Finding, LogSummary
from infra.server.commands.check.sqlite_file import open_read_only

GENERATION = 2**44
"""A checkpoint is the session plus a multiple of this, the generation of the views."""

_CHECKPOINTS = "SELECT view, item, \"to\", data FROM record WHERE view LIKE '%/checkpoint'"
_DELIVERIES = """
SELECT server, max(session) FROM delivery
WHERE typeof(server) = 'integer' AND typeof(session) = 'integer' GROUP BY server
"""
"""A damaged row may have values of other types. The check of its checksum reports it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A claim that a log has a session and, if `end` is given, that this is its last EventId."""

    file: str
    owner: str
    log: int
    session: int
    end: int | None = None


def read_references(path: Path) -> list[Reference]:
    """The references in a file. Empty if it is unreadable: the check of the file reports that."""
    try:
        with open_read_only(path) as connection:
            references = [_checkpoint(path.name, *row) for row in connection.execute(_CHECKPOINTS)]
            if path.name == OUTBOX:
                deliveries = connection.execute(_DELIVERIES)
                references += [Reference(OUTBOX, "a delivery", log, session) for log, session in deliveries]
            return references
    except (apsw.Error, ValueError, LookupError, TypeError):
        return []


def check_references(
    connection: apsw.Connection, references: list[Reference], logs: Mapping[int, LogSummary]
) -> Iterator[Finding]:
    for reference in references:
        summary = logs.get(reference.log) or LogSummary(reference.log, None)
        if reference.session > summary.last:
            problem = f"{reference.owner} is at session {reference.session}, but the log ends at {summary.last}"
            yield Finding(reference.file, problem, reference.log, summary.organization, reference.session)
        elif reference.end is not None and (end := _end(connection, reference)) not in (None, reference.end):
            problem = f"{reference.owner} expects this session to end at {reference.end}, but it ends at {end}"
            yield Finding(reference.file, problem, reference.log, summary.organization, reference.session)


def _checkpoint(file: str, view: str, consumer: str, to: int, data: str) -> Reference:
    return Reference(file, consumer, int(view.partition("/")[0]), to % GENERATION, json.loads(data)["last"])


def _end(connection: apsw.Connection, reference: Reference) -> int | None:
    """The last EventId of the session, or None if it was removed."""
    try:
        query = "SELECT at + n - 1 FROM log WHERE place = ?"
        row = connection.execute(query, (reference.log * SESSIONS_PER_LOG + reference.session,)).fetchone()
    except apsw.Error:
        return None
    return None if row is None else int(row[0])
