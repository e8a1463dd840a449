"""All files of a data directory, one after the other."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from annals_client.checks.commits import names_of, walk
from annals_client.checks.files import foreign, length_findings, opened, page_findings
from annals_client.checks.findings import LOG, OUTBOX, VIEWS, Finding, Report, Show
from annals_client.checks.followers import Pointer, pointer_findings, pointers, receipt_findings

MOST = 1_000
"""So many findings are told: who has more has seen enough."""

TABLES = {LOG: ("log", "receipt"), OUTBOX: ("delivery", "record"), VIEWS: ("record",)}


def check(data_dir: Path, report: Report, show: Show) -> Iterator[Finding]:
    """What is wrong, as it is found; the report knows it, too, and what there is. Needs little memory."""
    for finding in _findings(data_dir, report, show):
        report.findings.append(finding)
        yield finding
        if len(report.findings) >= MOST:
            return


def _findings(data_dir: Path, report: Report, show: Show) -> Iterator[Finding]:
    some: list[Pointer] = []
    for name in (VIEWS, OUTBOX, LOG):
        path = data_dir / name
        if not path.exists():
            continue
        yield from length_findings(path)
        if (finding := foreign(path, TABLES[name])) is not None:
            yield finding
            continue
        some += pointers(path) if name != LOG else []
        yield from page_findings(path, show)
        if name == LOG:
            with opened(path) as connection:
                yield from _log_findings(connection, some, report, show)


def _log_findings(connection: sqlite3.Connection, some: list[Pointer], report: Report, show: Show) -> Iterator[Finding]:
    """All of it as it is at one moment, whoever writes meanwhile."""
    connection.execute("BEGIN")
    yield from walk(connection, names_of(connection), report, show)
    try:
        yield from receipt_findings(connection, report.logs)
    except sqlite3.DatabaseError as failure:
        yield Finding(LOG, f"receipts cannot be read: {failure}")
    yield from pointer_findings(connection, some, report.logs)
