"""Checks of a single SQLite file: header, length and pages. Files are only read."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from chalicelib.adapters.sqlite.disposable import VFS as CHECKSUM_VFS
from chalicelib.adapters.sqlite.disposable import check_reserved_bytes, has_page_checksums
from chalicelib.domain.errors import Unusable
from infra.server.commands.check.findings import LOG, OUTBOX, VIEWS, Finding, ShowProgress

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
MAX_FORMAT = {LOG: 2, OUTBOX: 3, VIEWS: 2}
"""The newest `user_version` of each file that this code can check."""
MAX_PAGE_FINDINGS = 100
PROGRESS_INTERVAL_STEPS = 500_000
"""SQLite virtual machine instructions between two progress messages."""

BUSY_TIMEOUT_MS = 5_000

READ_ERRORS = (apsw.Error, UnicodeDecodeError)
"""Errors of a query. A damaged text may be invalid UTF-8, which apsw reports as `UnicodeDecodeError`."""

_PAGE = re.compile(r"\bpage (\d+)", re.IGNORECASE)


@contextmanager
def open_read_only(path: Path) -> Iterator[apsw.Connection]:
    """A read-only connection. A server may be writing to the file."""
    # Without a write-ahead log no process has the file open. With mode=ro SQLite would create one, and leave it behind
    # with the owner of this process.
    mode = "mode=ro" if wal_path(path).exists() else "immutable=1"
    uri = f"{path.resolve().as_uri()}?{mode}"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    vfs = CHECKSUM_VFS if path.name == VIEWS and has_page_checksums() else None
    with closing(apsw.Connection(uri, flags, vfs=vfs)) as connection:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        yield connection


def wal_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def check_header(path: Path, tables: Sequence[str]) -> Finding | None:
    """Why the file cannot be checked any further: not SQLite, unreadable, newer, or of another application."""
    header = _header(path)
    if not header.startswith(MAGIC):
        start = header[:16].decode("ascii", "backslashreplace")
        return Finding(path.name, f"this is not a SQLite database: it begins with {start!r}", byte=0)
    try:
        with open_read_only(path) as connection:
            version = connection.pragma("user_version")
            existing = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except READ_ERRORS as error:
        return Finding(path.name, f"SQLite cannot read it: {error}", page=1, byte=0)
    if version > MAX_FORMAT[path.name]:
        return Finding(path.name, f"a newer version of Annals wrote it (format {version}): check it with that version")
    if path.name == VIEWS and version == MAX_FORMAT[VIEWS]:
        try:
            check_reserved_bytes(path)
        except Unusable as error:
            return Finding(path.name, f"its header is damaged: {error}", page=1, byte=0)
    if not existing.issuperset(tables):
        return Finding(path.name, f"this is not a database of Annals: it has no table {tables[0]}")
    return None


def check_pages(path: Path, show: ShowProgress) -> Iterator[Finding]:
    """Run SQLite's integrity check."""
    with open_read_only(path) as connection:
        page_bytes = connection.pragma("page_size")

        def show_progress() -> bool:
            show(f"{path.name}: checking pages")
            return False  # continue

        connection.set_progress_handler(show_progress, PROGRESS_INTERVAL_STEPS)
        for line in _integrity_errors(connection):
            page = _PAGE.search(line)
            number = None if page is None else int(page[1])
            yield Finding(path.name, line, page=number, byte=None if number is None else (number - 1) * page_bytes)


def check_length(path: Path) -> Iterator[Finding]:
    """Detect a truncated file. A file with a nonempty write-ahead log may legitimately be shorter."""
    wal, header = wal_path(path), _header(path)
    if (wal.exists() and wal.stat().st_size) or not header.startswith(MAGIC):
        return
    page_bytes, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    size = path.stat().st_size
    if size < page_bytes * pages:
        missing = page_bytes * pages - size
        problem = f"the file ends here, but it had {pages} pages of {page_bytes} bytes: {missing} bytes are missing"
        yield Finding(path.name, problem, page=size // page_bytes + 1, byte=size)


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEADER_BYTES)


def _integrity_errors(connection: apsw.Connection) -> Iterator[str]:
    texts: list[str] = []
    try:
        for (text,) in connection.execute(f"PRAGMA integrity_check({MAX_PAGE_FINDINGS})"):
            texts.append(str(text))
    except READ_ERRORS as error:
        # SQLite aborted the check. The rows before that still name damaged pages.
        texts = texts or [f"SQLite cannot check it: {error}"]
    lines = (line.strip() for text in texts for line in text.split("\n"))
    yield from (line for line in lines if line and line != "ok" and not line.startswith("***"))
