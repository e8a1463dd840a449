"""Checks of the commits of all logs: no gaps, increasing EventIds, correct links and event counts."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import apsw

from chalicelib.domain.log.commit import Commit
from infra.server.commands.check.findings import LOG, Finding, LogSummary, Report, ShowProgress
from infra.server.commands.check.sqlite_file import READ_ERRORS

SESSIONS_PER_LOG = 2**40
"""The key of a commit is log * SESSIONS_PER_LOG + session."""
MIN_KEY, MAX_KEY = -(2**63), 2**63 - 1
PROGRESS_INTERVAL_COMMITS = 10_000

_COLUMNS = "place, at, n, prev, req, CAST(body AS BLOB)"
_FORMAT_2_COLUMNS = "before, by, key, digest, crc"
_DOUBLED_KEYS = """
SELECT later.place, later.key FROM log AS later JOIN log AS earlier
ON later.key = earlier.key AND earlier.key <> '' AND later.key <> ''
AND later.place > earlier.place AND later.place >> 40 = earlier.place >> 40 AND later.at - earlier.at < ?
"""
_KEY_REUSE_US = 23 * 3_600_000_000
"""A key may be used again after a day. EventIds and clocks may differ a little."""


class Row(NamedTuple):
    """A stored commit, with the column names of the table. Version 0.1.0 has not the last five."""

    place: int
    at: int
    n: int
    prev: int
    req: str
    body: bytes
    before: int = 0
    by: str = ""
    key: str = ""
    digest: str = ""
    crc: int | None = None


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
    columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info('log')")]
    is_format_2 = "crc" in columns and connection.pragma("user_version") > 1
    rows = _Rows(connection, f"{_COLUMNS}, {_FORMAT_2_COLUMNS}" if is_format_2 else _COLUMNS)
    for number, row in enumerate(rows.read_all(), start=1):
        if isinstance(row, UnreadableRange):
            is_after_gap = True
            yield _unreadable_finding(row, names)
            continue
        if number % PROGRESS_INTERVAL_COMMITS == 0:
            show(f"{LOG}: {number:,} commits")
        log, session = divmod(row.place, SESSIONS_PER_LOG)
        summary = report.logs.setdefault(log, LogSummary(log, names.get(owner_of(log))))
        link_problems = () if is_after_gap else _link_problems(row, session, summary)
        for problem, byte in (*link_problems, *(_body_problems(row) or _checksum_problems(row))):
            yield Finding(LOG, problem, log, summary.organization, session, byte=byte)
        is_after_gap = False
        summary.first = summary.first or session
        summary.last, summary.end = session, row.at + row.n - 1
        summary.commits += 1
        summary.events += row.n
        summary.position = row.before + row.n
    if is_format_2:
        yield from _doubled_keys(connection, names)


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


class _Rows:
    """Reads the commits, also behind damaged ones."""

    def __init__(self, connection: apsw.Connection, columns: str) -> None:
        self._connection = connection
        self._query = f"SELECT {columns} FROM log WHERE place >= ? ORDER BY place"  # noqa: S608  (constants)

    def read_all(self) -> Iterator[Row | UnreadableRange]:
        """All readable commits in order, and the unreadable ranges between them."""
        place = MIN_KEY
        while True:
            try:
                for row in self._connection.execute(self._query, (place,)):
                    yield Row(*row)
                    place = row[0] + 1
                return
            except READ_ERRORS as error:
                reason = str(error)
            next_place = self._next_readable(place)
            yield UnreadableRange(place, next_place, reason)
            if next_place is None:
                return
            place = next_place

    def _next_readable(self, place: int) -> int | None:
        """The next readable key after damage, by exponential and then binary search."""
        bad, step = place, 1
        while self._first(bad + step) is None:
            bad, step = bad + step, step * 2
            if bad + step > MAX_KEY:
                return None
        good = bad + step
        while good - bad > 1:
            middle = (bad + good) // 2
            bad, good = (middle, good) if self._first(middle) is None else (bad, middle)
        row = self._first(good)
        return None if row is None else row.place

    def _first(self, place: int) -> Row | None:
        """The first commit at or after `place`, or None if there is none or it is unreadable."""
        try:
            row = self._connection.execute(f"{self._query} LIMIT 1", (place,)).fetchone()
        except READ_ERRORS:
            return None
        return None if row is None else Row(*row)


def _doubled_keys(connection: apsw.Connection, names: Mapping[int, str]) -> Iterator[Finding]:
    """Idempotency keys that two commits of a log have: a repeated request was written twice."""
    try:
        for place, key in connection.execute(_DOUBLED_KEYS, (_KEY_REUSE_US,)):
            log, session = divmod(place, SESSIONS_PER_LOG)
            problem = f"an earlier commit has the same Idempotency-Key {key!r}"
            yield Finding(LOG, problem, log, names.get(owner_of(log)), session)
    except READ_ERRORS as error:
        yield Finding(LOG, f"idempotency keys cannot be read: {error}")


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
    if row.crc is not None and summary.commits and row.before != summary.position:
        yield f"it counts {row.before} events before it, but there are {summary.position}", None


def _checksum_problems(row: Row) -> list[tuple[str, None]]:
    """Of a commit whose body is valid JSON."""
    if row.crc is None:
        return []
    place, at, n, prev, request_id, body, before, by, key, digest, _ = row
    log, session = divmod(place, SESSIONS_PER_LOG)
    commit = Commit(log, session, at, n, prev, request_id, body.decode(), before, by, key, digest)
    return [] if commit.checksum == row.crc else [("its checksum is wrong", None)]


def _body_problems(row: Row) -> list[tuple[str, int | None]]:
    try:
        events = json.loads(row.body.decode())
    except UnicodeDecodeError as error:
        return [(f"its events are not UTF-8: {error.reason}", error.start)]
    except json.JSONDecodeError as error:
        return [(f"its events are not JSON: {error.msg}", error.pos)]
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        return [("its events are not a list of objects", None)]
    if len(events) != row.n:
        return [(f"its event count is {row.n}, but it has {len(events)} events", None)]
    if row.body.count(b",\n") != row.n - 1:
        return [("its events are not on a line each", None)]
    return []
