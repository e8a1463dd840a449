"""Checks of the commits of all logs: no gaps, increasing EventIds, correct links and event counts."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import apsw

from infra.server.commands.check.findings import LOG, Finding, LogSummary, Report, ShowProgress
from infra.server.commands.check.sqlite_file import READ_ERRORS

SESSIONS_PER_LOG = 2**40
"""The key of a commit is log * SESSIONS_PER_LOG + session."""
MIN_KEY, MAX_KEY = -(2**63), 2**63 - 1
PROGRESS_INTERVAL_COMMITS = 10_000

_ROWS = "SELECT place, at, n, prev, req, CAST(body AS BLOB) FROM log WHERE place >= ? ORDER BY place"


class Row(NamedTuple):
    """A stored commit, with the column names of the table."""

    place: int
    at: int
    n: int
    prev: int
    req: str
    body: bytes


class UnreadableRange(NamedTuple):
    """Keys that SQLite cannot read. `next_place` is None if nothing readable follows."""

    place: int
    next_place: int | None
    reason: str


def check_commits(
    connection: apsw.Connection, names: Mapping[int, str], report: Report, show: ShowProgress
) -> Iterator[Finding]:
    """Check all commits, and add a summary of each log to the report."""
    is_after_gap = False
    for number, row in enumerate(_rows(connection), start=1):
        if isinstance(row, UnreadableRange):
            is_after_gap = True
            yield _unreadable_finding(row, names)
            continue
        if number % PROGRESS_INTERVAL_COMMITS == 0:
            show(f"{LOG}: {number:,} commits")
        log, session = divmod(row.place, SESSIONS_PER_LOG)
        summary = report.logs.setdefault(log, LogSummary(log, names.get(owner_of(log))))
        link_problems = () if is_after_gap else _link_problems(row, session, summary)
        for problem, byte in (*link_problems, *_body_problems(row)):
            yield Finding(LOG, problem, log, summary.organization, session, byte=byte)
        is_after_gap = False
        summary.first = summary.first or session
        summary.last, summary.end = session, row.at + row.n - 1
        summary.commits += 1
        summary.events += row.n


def organization_names(connection: apsw.Connection) -> dict[int, str]:
    """Organization names by log number, as far as the directory (log 0) is readable."""
    names: dict[int, str] = {}
    query = "SELECT place, body FROM log WHERE place > 0 AND place < ?"
    try:
        for place, body in connection.execute(query, (SESSIONS_PER_LOG,)):
            names[place] = json.loads(body)[0]["key"].removeprefix("/organization/")
    except (apsw.Error, ValueError, LookupError, AttributeError, TypeError):
        return names  # the check of the commits reports the damage
    return names


def owner_of(log: int) -> int:
    """The main log of the organization to which an observers or inbox log belongs."""
    return log if log >= 0 else (-log) // 2


def _rows(connection: apsw.Connection) -> Iterator[Row | UnreadableRange]:
    """All readable commits in order, and the unreadable ranges between them."""
    place = MIN_KEY
    while True:
        try:
            for row in connection.execute(_ROWS, (place,)):
                yield Row(*row)
                place = row[0] + 1
            return
        except READ_ERRORS as error:
            reason = str(error)
        next_place = _next_readable(connection, place)
        yield UnreadableRange(place, next_place, reason)
        if next_place is None:
            return
        place = next_place


def _next_readable(connection: apsw.Connection, place: int) -> int | None:
    """The next readable key after damage, by exponential and then binary search."""
    bad, step = place, 1
    while _first_row(connection, bad + step) is None:
        bad, step = bad + step, step * 2
        if bad + step > MAX_KEY:
            return None
    good = bad + step
    while good - bad > 1:
        middle = (bad + good) // 2
        bad, good = (middle, good) if _first_row(connection, middle) is None else (bad, middle)
    row = _first_row(connection, good)
    return None if row is None else row.place


def _first_row(connection: apsw.Connection, place: int) -> Row | None:
    """The first commit at or after `place`, or None if there is none or it is unreadable."""
    try:
        row = connection.execute(f"{_ROWS} LIMIT 1", (place,)).fetchone()
    except READ_ERRORS:
        return None
    return None if row is None else Row(*row)


def _unreadable_finding(gap: UnreadableRange, names: Mapping[int, str]) -> Finding:
    log, session = divmod(max(gap.place, 1), SESSIONS_PER_LOG)
    end = "to the end" if gap.next_place is None else f"up to {_commit_name(gap.next_place, names)}"
    problem = f"commits from here {end} cannot be read: {gap.reason}"
    return Finding(LOG, problem, log, names.get(owner_of(log)), session)


def _commit_name(place: int, names: Mapping[int, str]) -> str:
    log, session = divmod(place, SESSIONS_PER_LOG)
    return f"session {session} of {names.get(owner_of(log)) or 'log'} ({log})"


def _link_problems(row: Row, session: int, summary: LogSummary) -> Iterator[tuple[str, None]]:
    log = row.place // SESSIONS_PER_LOG
    has_no_retention = log <= 0 and log % 2 == 0
    expected = summary.last + 1 if summary.commits or has_no_retention else session
    if session > expected:
        is_single = session - expected == 1
        missing = f"session {expected} is" if is_single else f"sessions {expected} to {session - 1} are"
        yield f"{missing} missing before it", None
    elif session == 1 and row.prev:
        yield f"prev is {row.prev}, but this is the first commit", None
    elif summary.commits and row.prev != summary.end:
        yield f"prev is {row.prev}, but the previous commit ends at {summary.end}", None
    if row.at <= summary.end:
        yield f"its EventIds start at {row.at}, but the previous commit ends at {summary.end}", None
    if not row.req:
        yield "the id of the request that wrote it is missing", None


def _body_problems(row: Row) -> Iterator[tuple[str, int | None]]:
    try:
        events = json.loads(row.body.decode())
    except UnicodeDecodeError as error:
        yield f"its events are not UTF-8: {error.reason}", error.start
        return
    except json.JSONDecodeError as error:
        yield f"its events are not JSON: {error.msg}", error.pos
        return
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        yield "its events are not a list of objects", None
    elif len(events) != row.n:
        yield f"its event count is {row.n}, but it has {len(events)} events", None
    elif row.body.count(b",\n") != row.n - 1:
        yield "its events are not on a line each", None
