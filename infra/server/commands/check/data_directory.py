"""Check all files of a data directory. A server may be writing to it meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import apsw

from infra.server.commands.check.checksums import check_checksums
from infra.server.commands.check.commits import check_commits, organization_names
from infra.server.commands.check.findings import LOG, OUTBOX, VIEWS, Finding, Report, ShowProgress
from infra.server.commands.check.references import Reference, check_references, read_references
from infra.server.commands.check.sqlite_file import (
    check_header,
    check_length,
    check_pages,
    open_read_only,
)

MAX_FINDINGS = 1_000

TABLES = {LOG: ("log",), OUTBOX: ("delivery", "record"), VIEWS: ("record",)}


def check(data_dir: Path, report: Report, show: ShowProgress) -> Iterator[Finding]:
    """Yield findings as they are discovered, and add them to the report. Memory use does not grow with the log."""
    for finding in _findings(data_dir, report, show):
        report.findings.append(finding)
        yield finding
        if len(report.findings) >= MAX_FINDINGS:
            return


def _findings(data_dir: Path, report: Report, show: ShowProgress) -> Iterator[Finding]:
    references: list[Reference] = []
    # The log comes last: it only grows, so references that were read before must point into it.
    for name in (VIEWS, OUTBOX, LOG):
        path = data_dir / name
        if not path.exists():
            continue
        yield from check_length(path)
        if (finding := check_header(path, TABLES[name])) is not None:
            yield finding
            continue
        references += read_references(path) if name != LOG else []
        yield from check_pages(path, show)
        if name != LOG:
            yield from check_checksums(path)
        else:
            with open_read_only(path) as connection:
                yield from _log_findings(connection, references, report, show)


def _log_findings(
    connection: apsw.Connection, references: list[Reference], report: Report, show: ShowProgress
) -> Iterator[Finding]:
    connection.execute("BEGIN")  # one snapshot for all queries
    yield from check_commits(connection, organization_names(connection), report, show)
    yield from check_references(connection, references, report.logs)
