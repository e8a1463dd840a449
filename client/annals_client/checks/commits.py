"""The commits of all logs: numbered without a gap, each the very next, each with the events it says it has."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from annals_client.checks.findings import LOG, Finding, LogSeen, Report, Show

SESSIONS = 2**40
"""Room for sessions in the place of a log."""
LOWEST, HIGHEST = -(2**63), 2**63 - 1
EVERY = 10_000

_ROWS = "SELECT place, at, n, prev, req, CAST(body AS BLOB) FROM log WHERE place >= ? ORDER BY place"


class Row(NamedTuple):
    """A commit as it is stored."""

    place: int
    at: int
    n: int
    prev: int
    req: str
    body: bytes


class Unreadable(NamedTuple):
    """SQLite gives nothing between two places; `next_place` is None if nothing comes after it."""

    place: int
    next_place: int | None
    reason: str


def walk(connection: sqlite3.Connection, names: Mapping[int, str], report: Report, show: Show) -> Iterator[Finding]:
    """Go through all commits, and note in the report what there is."""
    is_torn = False
    for number, row in enumerate(_rows(connection), start=1):
        if isinstance(row, Unreadable):
            is_torn = True
            yield _unreadable(row, names)
            continue
        if number % EVERY == 0:
            show(f"{LOG}: {number:,} commits")
        log, session = divmod(row.place, SESSIONS)
        seen = report.logs.setdefault(log, LogSeen(log, names.get(owner_of(log))))
        for problem, byte in (*(() if is_torn else _chain_problems(row, session, seen)), *_body_problems(row)):
            yield Finding(LOG, problem, log, seen.organization, session, byte=byte)
        is_torn = False
        seen.first = seen.first or session
        seen.last, seen.end = session, row.at + row.n - 1
        seen.commits += 1
        seen.events += row.n


def names_of(connection: sqlite3.Connection) -> dict[int, str]:
    """The organizations by their logs, as far as the directory can be read."""
    names: dict[int, str] = {}
    try:
        for place, body in connection.execute("SELECT place, body FROM log WHERE place > 0 AND place < ?", (SESSIONS,)):
            names[place] = json.loads(body)[0]["key"].removeprefix("/organization/")
    except (sqlite3.DatabaseError, ValueError, LookupError, AttributeError, TypeError):
        return names  # what is wrong there is found when its turn comes
    return names


def owner_of(log: int) -> int:
    """The organization's own log, for that of its observers or its inbox."""
    return log if log >= 0 else (-log) // 2


def _rows(connection: sqlite3.Connection) -> Iterator[Row | Unreadable]:
    """All that SQLite can give, in order, and what lies between."""
    place = LOWEST
    while True:
        try:
            for row in connection.execute(_ROWS, (place,)):
                yield Row(*row)
                place = row[0] + 1
            return
        except sqlite3.DatabaseError as failure:
            reason = str(failure)
        # Python reads ahead: the last rows before the damage are had only one by one.
        while found := _row(connection, place):
            yield found
            place = found.place + 1
        after = _next_readable(connection, place)
        yield Unreadable(place, after, reason)
        if after is None:
            return
        place = after


def _next_readable(connection: sqlite3.Connection, place: int) -> int | None:
    """The next place after damage from which SQLite can read on, found by leaps and then by halves."""
    bad, step = place, 1
    while _row(connection, bad + step) is None:
        bad, step = bad + step, step * 2
        if bad + step > HIGHEST:
            return None
    good = bad + step
    while good - bad > 1:
        middle = (bad + good) // 2
        bad, good = (middle, good) if _row(connection, middle) is None else (bad, middle)
    found = _row(connection, good)
    return None if found is None else found.place


def _row(connection: sqlite3.Connection, place: int) -> Row | None:
    """The first commit from there on; None if there is none, or none that SQLite can read."""
    try:
        row = connection.execute(f"{_ROWS} LIMIT 1", (place,)).fetchone()
    except sqlite3.DatabaseError:
        return None
    return None if row is None else Row(*row)


def _unreadable(gap: Unreadable, names: Mapping[int, str]) -> Finding:
    log, session = divmod(max(gap.place, 1), SESSIONS)
    end = "to the end" if gap.next_place is None else f"up to {_named(gap.next_place, names)}"
    problem = f"commits from here {end} cannot be read: {gap.reason}"
    return Finding(LOG, problem, log, names.get(owner_of(log)), session)


def _named(place: int, names: Mapping[int, str]) -> str:
    log, session = divmod(place, SESSIONS)
    return f"session {session} of {names.get(owner_of(log)) or 'log'} ({log})"


def _chain_problems(row: Row, session: int, seen: LogSeen) -> Iterator[tuple[str, None]]:
    log = row.place // SESSIONS
    is_kept_whole = log <= 0 and log % 2 == 0
    first = seen.last + 1 if seen.commits or is_kept_whole else session
    if session > first:
        missing = f"session {first} is" if session - first == 1 else f"sessions {first} to {session - 1} are"
        yield f"{missing} missing before it", None
    elif session == 1 and row.prev:
        yield f"prev is {row.prev}, but this is the first commit", None
    elif seen.commits and row.prev != seen.end:
        yield f"prev is {row.prev}, but the commit before ends at {seen.end}", None
    if row.at <= seen.end:
        yield f"it is numbered from {row.at}, but the commit before ends at {seen.end}", None
    if not row.req:
        yield "it does not say which request wrote it", None


def _body_problems(row: Row) -> Iterator[tuple[str, int | None]]:
    try:
        events = json.loads(row.body.decode())
    except UnicodeDecodeError as failure:
        yield f"its events are not UTF-8: {failure.reason}", failure.start
        return
    except json.JSONDecodeError as failure:
        yield f"its events are not JSON: {failure.msg}", failure.pos
        return
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        yield "its events are not a list of objects", None
    elif len(events) != row.n or row.body.count(b",\n") != row.n - 1:
        yield f"it says that it has {row.n} events, and has {len(events)}", None
