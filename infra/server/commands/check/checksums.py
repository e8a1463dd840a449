"""Checks of the checksums of view records, checkpoints and deliveries."""

from collections.abc import Iterator
from pathlib import Path

import apsw

from chalicelib.adapters.sqlite import outbox_table
from chalicelib.adapters.sqlite.views import read_damaged
from infra.server.commands.check.findings import OUTBOX, Finding
from infra.server.commands.check.sqlite_file import READ_ERRORS, open_read_only

FIRST_FORMAT_WITH_CHECKSUMS = 2


def check_checksums(path: Path) -> Iterator[Finding]:
    """Verify every row. Rows after one that SQLite cannot read are not verified."""
    with open_read_only(path) as connection:
        try:
            if connection.pragma("user_version") >= FIRST_FORMAT_WITH_CHECKSUMS:
                yield from _wrong_checksums(connection, path.name)
        except READ_ERRORS as error:
            yield Finding(path.name, f"its records cannot be read: {error}")


def _wrong_checksums(connection: apsw.Connection, file: str) -> Iterator[Finding]:
    for view, item in read_damaged(connection):
        yield Finding(file, f"record '{item}' of view '{view}' is damaged: its checksum is wrong")
    if file == OUTBOX:
        for n in outbox_table.read_damaged(connection):
            yield Finding(file, f"delivery {n} is damaged: its checksum is wrong, and it is not sent")
