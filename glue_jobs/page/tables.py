"""Reads the report tables of one server, a day at a time, and only the requested columns."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from glue_jobs.lake.lake import REPORTS, Lake
from glue_jobs.lake.storage import Storage
from glue_jobs.schemas import TABLES

_SERVER: Final = re.compile(r"/server=(\d+)$")
_FILE: Final = re.compile(r"/day=(\d{4}-\d\d-\d\d)/[^/]+\.parquet$")

Files = Mapping[str, Mapping[date, Sequence[str]]]
"""Paths by table and day."""

Order = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ServerTables:
    """The report tables of a server."""

    server: int
    storage: Storage
    files: Files

    @property
    def days(self) -> set[date]:
        """The days that have any table."""
        return {day for days in self.files.values() for day in days}

    def folder(self, table: str) -> str:
        """Path of a table, relative to the page."""
        return f"{table}/server={self.server}/"

    def has_rows(self, table: str) -> bool:
        """Whether the table has rows on any day."""
        return bool(self.files.get(table))

    def tables_by_day(
        self, table: str, days: Iterable[date], columns: Sequence[str]
    ) -> Iterator[tuple[date, pa.Table]]:
        """The table of each day that has rows."""
        for day in days:
            found = [self._read(path, columns) for path in self.files.get(table, {}).get(day, ())]
            if found:
                yield day, pa.concat_tables(found)

    def first_rows(
        self, table: str, days: Iterable[date], order: Order, limit: int, keep: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """The first rows over all days in the given order, after `keep`. Holds only one day in memory."""
        rows = keep(TABLES[table].empty_table())
        for _, found in self.tables_by_day(table, days, TABLES[table].names):
            rows = pa.concat_tables([rows, keep(found)]).sort_by(list(order)).slice(0, limit)
        return rows

    def _read(self, path: str, columns: Sequence[str]) -> pa.Table:
        with self.storage.open_random(path) as file:
            found = pa.parquet.ParquetFile(file).read(columns=list(columns))
        return found.select(list(columns)).cast(pa.schema([TABLES[_table(path)].field(name) for name in columns]))


def servers_with_reports(lake: Lake) -> list[int]:
    """The servers that have any report."""
    folders = (folder for table in TABLES for folder in lake.storage.folders(f"{REPORTS}/{table}"))
    return sorted({int(match[1]) for folder in folders if (match := _SERVER.search(folder))})


def find_tables(lake: Lake, server: int) -> ServerTables:
    """Find the files of a server's tables."""
    return ServerTables(server, lake.storage, {table: _files(lake, server, table) for table in TABLES})


def _files(lake: Lake, server: int, table: str) -> dict[date, list[str]]:
    found: dict[date, list[str]] = {}
    for path in lake.storage.files(f"{REPORTS}/{table}/server={server}"):
        if match := _FILE.search(path):
            found.setdefault(date.fromisoformat(match[1]), []).append(path)
    return found


def _table(path: str) -> str:
    return path.removeprefix(f"{REPORTS}/").partition("/")[0]
