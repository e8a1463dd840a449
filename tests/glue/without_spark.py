"""The jobs without Spark: the same steps in one process, to try many histories in little time."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa

from glue_jobs.exports.manifest import DataFile, find_exports
from glue_jobs.exports.reader import items
from glue_jobs.history import new_commits
from glue_jobs.lake.event_writer import by_server_and_day, written
from glue_jobs.lake.lake import EventFile
from glue_jobs.lake.storage import Storage
from glue_jobs.schemas import TABLES
from glue_jobs.transforms.commits import Known, commits_of, each_once
from glue_jobs.transforms.events import events_of
from glue_jobs.transforms.partial_aggregates import parts_of
from glue_jobs.transforms.reports import by_day, empty_parts, empty_runs, runs_of, tables_of, with_members

AT_ONCE = 7
"""So few commits make a part: runs are told in several of them."""

Days = dict[tuple[int, str], list[pa.Table]]


def tables(exports: Path) -> dict[str, pa.Table]:
    """All tables of what was exported, with the server and the day as columns."""
    days = _events(exports)
    made: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for server in {server for server, _ in days}:
        parts = {day: [parts_of(table) for table in found] for (of, day), found in days.items() if of == server}
        told = [part for found in parts.values() for part in found]
        runs = runs_of({kind: pa.concat_tables([with_members(one)[kind] for one in told]) for kind in empty_parts()})
        of_days = {kind: dict(by_day(table)) for kind, table in runs.items()}
        of_days["throughput"] = {
            day: pa.concat_tables([part["throughput"] for part in found]) for day, found in parts.items()
        }
        for day in {day for kind in of_days.values() for day in kind}:
            found = {kind: rows[day] for kind, rows in of_days.items() if day in rows}
            for name, table in tables_of({**empty_runs(), **found}).items():
                made[name].append(with_day(table, server, day))
    nothing = {name: with_day(schema.empty_table(), 0, "2026-01-01") for name, schema in TABLES.items()}
    return {name: pa.concat_tables([nothing[name], *found]) for name, found in made.items()}


def write(exports: Storage, files: Sequence[DataFile], known: Mapping[int, Known], aside: Storage) -> list[EventFile]:
    """The files of the history that data files become."""
    paths = [file.path for file in files]
    batches = [batch for place in range(len(files)) for batch in new_commits(exports, files, place, known)]
    if not batches:
        return []
    commits = pa.Table.from_batches(batches).sort_by([("server", "ascending"), ("session", "ascending")])
    made = written(aside, each_once(commits.combine_chunks().to_batches(), paths), paths)
    return [EventFile(**json.loads(file)) for file in made]


def with_day(table: pa.Table, server: int, day: str) -> pa.Table:
    """The table with the columns that its directory says."""
    columns = {"server": pa.array([server] * len(table), pa.int64()), "day": [date.fromisoformat(day)] * len(table)}
    of_day = pa.table({"server": columns["server"], "day": pa.array(columns["day"], pa.date32())})
    for name in table.column_names:
        of_day = of_day.append_column(name, table[name])
    return of_day


def _events(exports: Path) -> Days:
    """The events of each server and day."""
    storage = Storage(str(exports))
    batches = [
        commits_of(found, file.path)
        for export in find_exports(storage)
        for file in export.files
        for found in items(storage, file)
    ]
    days: Days = {}
    if not batches:
        return days
    commits = pa.Table.from_batches(batches).sort_by([("server", "ascending"), ("session", "ascending")])
    for batch in each_once(commits.combine_chunks().to_batches(), []):
        for server, number, part in by_server_and_day(batch):
            day = date.fromordinal(date(1970, 1, 1).toordinal() + number).isoformat()
            days.setdefault((server, day), []).extend(
                events_of(part.slice(begin, AT_ONCE)) for begin in range(0, part.num_rows, AT_ONCE)
            )
    return days
