"""A SQLite file as such: whether it is one, whole, and sound in all its pages. It is only read."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from annals_client.checks.findings import Finding, Show

MAGIC = b"SQLite format 3\0"
HEADER = 100
FORMAT = 1
"""The newest format of the files that this knows."""
MOST = 100
"""So many problems of pages are told."""
STEPS = 500_000
"""How many steps SQLite takes between two signs of life."""

_PAGE = re.compile(r"\bpage (\d+)", re.IGNORECASE)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads; a server may be writing meanwhile."""
    # Without a write-ahead log nobody has the file open. SQLite would make one, and leave it behind as another user's.
    how = "mode=ro" if wal_of(path).exists() else "immutable=1"
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, isolation_level=None)) as connection:
        yield connection


def wal_of(path: Path) -> Path:
    """The write-ahead log of a file."""
    return path.with_name(f"{path.name}-wal")


def foreign(path: Path, tables: Sequence[str]) -> Finding | None:
    """Why the file is none of ours, or none that can be looked into any further."""
    head = _head(path)
    if not head.startswith(MAGIC):
        began = head[:16].decode("ascii", "backslashreplace")
        return Finding(path.name, f"this is not a SQLite database: it begins with {began!r}", byte=0)
    try:
        with opened(path) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as failure:
        return Finding(path.name, f"SQLite cannot read it: {failure}", page=1, byte=0)
    if version > FORMAT:
        return Finding(path.name, f"it was written by a newer Annals (format {version}): check it with that one")
    if not found.issuperset(tables):
        return Finding(path.name, f"it is a database of something else: there is no table {tables[0]}")
    return None


def page_findings(path: Path, show: Show) -> Iterator[Finding]:
    """What is wrong with the pages of the file."""
    with opened(path) as connection:
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.set_progress_handler(lambda: show(f"{path.name}: SQLite checks its pages"), STEPS)
        for line in _complaints(connection):
            page = _PAGE.search(line)
            number = None if page is None else int(page[1])
            yield Finding(path.name, line, page=number, byte=None if number is None else (number - 1) * page_bytes)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEADER)


def length_findings(path: Path) -> Iterator[Finding]:
    """Whether the end is missing; as long as a write-ahead log holds pages, that may be right."""
    wal, head = wal_of(path), _head(path)
    if (wal.exists() and wal.stat().st_size) or not head.startswith(MAGIC):
        return
    page_bytes, pages = int.from_bytes(head[16:18]), int.from_bytes(head[28:32])
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    size = path.stat().st_size
    if size < page_bytes * pages:
        missing = page_bytes * pages - size
        words = f"the file ends here, but it had {pages} pages of {page_bytes} bytes: {missing} bytes are missing"
        yield Finding(path.name, words, page=size // page_bytes + 1, byte=size)


def _complaints(connection: sqlite3.Connection) -> Iterator[str]:
    """What SQLite's own check says, a line each."""
    query = "SELECT integrity_check FROM pragma_integrity_check(?) LIMIT ?"
    try:
        found = connection.execute(query, (MOST, MOST)).fetchall()
    except sqlite3.DatabaseError as failure:
        # It gave up on the way; what it says first is what is wrong with the pages.
        found = _first_complaint(connection, query) or [(f"SQLite cannot check it: {failure}",)]
    lines = (line.strip() for (text,) in found for line in text.split("\n"))
    yield from (line for line in lines if line and line != "ok" and not line.startswith("***"))


def _first_complaint(connection: sqlite3.Connection, query: str) -> list[tuple[str]]:
    try:
        return connection.execute(query, (MOST, 1)).fetchall()
    except sqlite3.DatabaseError:
        return []
