"""The server, with a record of how many rows each thread reads. Run as `python -m tests.server.recording_server`."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chalicelib.adapters.sqlite.database import Database
from infra.server.__main__ import main

FILE_NAME = "reads.txt"


class Read(NamedTuple):
    """A query of the store."""

    thread: str
    rows: int


def read_record(data_dir: Path) -> list[Read]:
    """The queries so far."""
    lines = (line.rsplit(maxsplit=1) for line in (data_dir / FILE_NAME).read_text().splitlines())
    return [Read(thread, int(rows)) for thread, rows in lines]


def _record_queries(path: Path) -> None:
    query = Database.query
    output = path.open("a", buffering=1)

    def record_query(self: Database, statement: str, values: Sequence[int | str] = ()) -> list[Any]:
        rows = query(self, statement, values)
        output.write(f"{threading.current_thread().name} {len(rows)}\n")
        return rows

    Database.query = record_query  # type: ignore[method-assign]


if __name__ == "__main__":
    _record_queries(Path(os.environ["DATA_DIR"]) / FILE_NAME)
    main()
