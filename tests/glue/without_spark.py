"""The jobs without Spark: the same steps in one process, to run many histories quickly."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa

from glue_jobs.exports.manifest import DataFile, find_exports
from glue_jobs.exports.reader import read_items
from glue_jobs.history import new_commits
from glue_jobs.lake.event_writer import split_by_server_and_day, write_event_files
from glue_jobs.lake.lake import EventFile
from glue_jobs.lake.storage import Storage
from glue_jobs.schemas import TABLES
from glue_jobs.transforms.commits import LoadedLog, drop_duplicates, parse_commits
from glue_jobs.transforms.events import parse_events
from glue_jobs.transforms.partial_aggregates import aggregate_events
from glue_jobs.transforms.reports import (
    combine_runs,
    empty_parts,
    empty_runs,
    report_tables,
    split_by_day,
    with_members,
)

COMMITS_PER_PART = 7
"""Small, so that runs are spread over several parts."""

Days = dict[tuple[int, str], list[pa.Table]]


def tables(exports: Path) -> dict[str, pa.Table]:
    """All tables of an export, with server and day as columns."""
    days = _events(exports)
    result: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for server in {server for server, _ in days}:
        parts = {
            day: [aggregate_events(table) for table in found] for (log, day), found in days.items() if log == server
        }
        partials = [part for found in parts.values() for part in found]
        runs = combine_runs(
            {kind: pa.concat_tables([with_members(partial)[kind] for partial in partials]) for kind in empty_parts()}
        )
        days_by_kind = {kind: dict(split_by_day(table)) for kind, table in runs.items()}
        days_by_kind["throughput"] = {
            day: pa.concat_tables([part["throughput"] for part in found]) for day, found in parts.items()
        }
        for day in {day for kind in days_by_kind.values() for day in kind}:
            found = {kind: rows[day] for kind, rows in days_by_kind.items() if day in rows}
            for name, table in report_tables({**empty_runs(), **found}).items():
                result[name].append(with_day(table, server, day))
    empty = {name: with_day(schema.empty_table(), 0, "2026-01-01") for name, schema in TABLES.items()}
    return {name: pa.concat_tables([empty[name], *found]) for name, found in result.items()}


def write(
    exports: Storage, files: Sequence[DataFile], loaded: Mapping[int, LoadedLog], staging: Storage
) -> list[EventFile]:
    """Write the history files of data files."""
    paths = [file.path for file in files]
    batches = [batch for index in range(len(files)) for batch in new_commits(exports, files, index, loaded)]
    if not batches:
        return []
    commits = pa.Table.from_batches(batches).sort_by([("server", "ascending"), ("session", "ascending")])
    files_json = write_event_files(staging, drop_duplicates(commits.combine_chunks().to_batches(), paths), paths)
    return [EventFile(**json.loads(file)) for file in files_json]


def with_day(table: pa.Table, server: int, day: str) -> pa.Table:
    """The table with the columns of its path."""
    columns = {"server": pa.array([server] * len(table), pa.int64()), "day": [date.fromisoformat(day)] * len(table)}
    result = pa.table({"server": columns["server"], "day": pa.array(columns["day"], pa.date32())})
    for name in table.column_names:
        result = result.append_column(name, table[name])
    return result


def _events(exports: Path) -> Days:
    storage = Storage(str(exports))
    batches = [
        parse_commits(items, file.path)
        for export in find_exports(storage)
        for file in export.files
        for items in read_items(storage, file)
    ]
    days: Days = {}
    if not batches:
        return days
    commits = pa.Table.from_batches(batches).sort_by([("server", "ascending"), ("session", "ascending")])
    for batch in drop_duplicates(commits.combine_chunks().to_batches(), []):
        for server, number, part in split_by_server_and_day(batch):
            day = date.fromordinal(date(1970, 1, 1).toordinal() + number).isoformat()
            days.setdefault((server, day), []).extend(
                parse_events(part.slice(begin, COMMITS_PER_PART)) for begin in range(0, part.num_rows, COMMITS_PER_PART)
            )
    return days
