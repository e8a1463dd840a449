"""Writes report files. A table has one file per server and day, replaced as a whole."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from glue_jobs.lake.lake import REPORTS, Lake
from glue_jobs.schemas import TABLES

_STAGING: Final = "_replacing"


@dataclass(frozen=True, slots=True)
class ReportFile:
    """The rows of a table for one server and day."""

    table: str
    server: int
    day: str
    name: str

    @property
    def folder(self) -> str:
        """Final directory."""
        return _folder(self.table, self.server, self.day)

    @property
    def staging_path(self) -> str:
        return f"{_STAGING}/{self.folder}/{self.name}"


def write_day(lake: Lake, server: int, day: str, tables: Mapping[str, pa.Table]) -> list[ReportFile]:
    """Write the tables of a day to staging. Tables without rows have no file."""
    files = []
    for name, table in tables.items():
        if table.num_rows:
            file = ReportFile(name, server, day, f"{uuid.uuid4().hex}.parquet")
            with lake.storage.create(file.staging_path) as output:
                pa.parquet.write_table(table, output, compression="zstd")
            files.append(file)
    return files


def replace_days(lake: Lake, days: Iterable[tuple[int, str]], files: Iterable[ReportFile]) -> None:
    """Replace all tables of these days by these files."""
    new = {file.folder: file for file in files}
    for server, day in days:
        for table in TABLES:
            folder = _folder(table, server, day)
            lake.storage.remove(folder)
            if folder in new:
                lake.storage.move(new[folder].staging_path, f"{folder}/{new[folder].name}")
    lake.storage.remove(_STAGING)


def _folder(table: str, server: int, day: str) -> str:
    return f"{REPORTS}/{table}/server={server}/day={day}"
