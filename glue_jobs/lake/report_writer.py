"""The files of the reports: a table's rows of one day are one file, replaced as a whole."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from glue_jobs.lake.lake import REPORTS, Lake
from glue_jobs.schemas import TABLES

_ASIDE: Final = "_replacing"


@dataclass(frozen=True, slots=True)
class ReportFile:
    """The rows of a table of one day, written aside."""

    table: str
    server: int
    day: str
    name: str

    @property
    def folder(self) -> str:
        """Where it belongs."""
        return _folder(self.table, self.server, self.day)

    @property
    def aside(self) -> str:
        """Where it is until then."""
        return f"{_ASIDE}/{self.folder}/{self.name}"


def write_day(lake: Lake, server: int, day: str, tables: Mapping[str, pa.Table]) -> list[ReportFile]:
    """Write the tables of a day aside; those without rows have no file."""
    files = []
    for name, table in tables.items():
        if table.num_rows:
            file = ReportFile(name, server, day, f"{uuid.uuid4().hex}.parquet")
            with lake.storage.output(file.aside) as output:
                pa.parquet.write_table(table, output, compression="zstd")
            files.append(file)
    return files


def replace_days(lake: Lake, days: Iterable[tuple[int, str]], files: Iterable[ReportFile]) -> None:
    """Have these files, and no others, in these days of all tables."""
    new = {file.folder: file for file in files}
    for server, day in days:
        for table in TABLES:
            folder = _folder(table, server, day)
            lake.storage.remove(folder)
            if folder in new:
                lake.storage.move(new[folder].aside, f"{folder}/{new[folder].name}")
    lake.storage.remove(_ASIDE)


def _folder(table: str, server: int, day: str) -> str:
    return f"{REPORTS}/{table}/server={server}/day={day}"
