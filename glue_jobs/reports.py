"""`reports`: make tables from the history, and a page per organization from the tables.

    python -m glue_jobs.reports --lake <directory>

A run reads only files that changed since the last run. Partial aggregates of each history file are stored (`_parts`)
and combined to runs. So a run that crosses midnight, or takes a week, is complete, and only the days that it touches
are rewritten. A page is written if its tables changed, and the pages with news are recorded for the run.

Spark distributes the work and brings related rows together: first partials by their keys, then runs by their days. The
computations, on whole columns, are in `transforms`.
"""

import json
import sys
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from glue_jobs.arguments import parse_arguments
from glue_jobs.errors import HistoryError
from glue_jobs.lake.lake import PARTIALS, REPORTS, EventFile, Lake, Load
from glue_jobs.lake.partials import files_without_partials, has_news, read_keys, read_partials, write_partials
from glue_jobs.lake.report_writer import ReportFile, replace_days, write_day
from glue_jobs.page.rendering import record_new_pages, write_pages
from glue_jobs.spark.java import JavaNotFound
from glue_jobs.spark.session import spark_session, task_count
from glue_jobs.spark.shuffle import SHUFFLE_SCHEMA, ShuffleRow, from_batches, from_spark_row, group_tables, to_batches
from glue_jobs.transforms.partial_aggregates import FORMAT
from glue_jobs.transforms.reports import (
    GROUPING_KEYS,
    combine_runs,
    empty_parts,
    empty_runs,
    grouping_key,
    report_tables,
    split_by_day,
)

REPORTED_LOADS: Final = f"{PARTIALS}/{FORMAT}/reported.json"
"""The loads that the reports include."""

EVENTS_PER_TASK: Final = 2_000_000
"""Approximate number of events that one task aggregates."""

BUCKETS_PER_TASK: Final = 4
"""Several per task: Spark assigns buckets to tasks at random, and this evens out their sizes."""

Days = Collection[tuple[int, str]]
Keys = Mapping[int, Mapping[str, pa.Array]]
"""Keys of partials by server and kind."""


@dataclass(frozen=True, slots=True)
class TableUpdate:
    """An update of the tables by all loads that were not reported yet."""

    loads: Sequence[Load]
    """All loads that the tables include now."""
    days: Days
    """The days that were rewritten."""
    servers_with_news: Collection[int]


def main(argv: Sequence[str]) -> None:
    args = parse_arguments(
        argv,
        "Make reports of the history.",
        {"lake": "directory of the history"},
        names='names of organizations as JSON, in addition to those in the lake: {"1": "acme"}',
        JOB_RUN_ID="id of this run, as Glue passes it; the new pages are recorded under it",
    )
    lake = Lake(args.lake.rstrip("/"))
    started_s = time.monotonic()
    try:
        names = {int(server): str(name) for server, name in json.loads(args.names or "{}").items()}
        with lake.storage.lock():
            update = update_tables(lake)
            names = lake.organization_names() | names
            pages = write_pages(lake, names, datetime.now(UTC), {server for server, _ in update.days})
            if args.JOB_RUN_ID:
                record_new_pages(
                    lake, args.JOB_RUN_ID, [page for page in pages if page.server in update.servers_with_news]
                )
            mark_reported(lake, update)
    except (HistoryError, JavaNotFound) as error:
        sys.exit(f"No reports were made: {error}")
    print(
        f"Reports of {len(update.days):,} days and {len(pages):,} pages in {time.monotonic() - started_s:.1f} s: "
        f"{lake.url}/{REPORTS}"
    )


def update_tables(lake: Lake) -> TableUpdate:
    """Update the tables by the loads that were not reported yet."""
    loads = lake.complete_loads()
    content = lake.storage.read(REPORTED_LOADS)
    reported = set() if content is None else set(json.loads(content))
    new = [file for load in loads if load.number not in reported for file in load.files]
    if not new:
        return TableUpdate(loads, set(), set())
    days = make_tables(spark_session("reports"), lake, loads, {(file.server, file.day) for file in new})
    return TableUpdate(loads, days, {file.server for file in new if has_news(lake, file)})


def mark_reported(lake: Lake, update: TableUpdate) -> None:
    """Mark the loads of an update as reported. Comes last, so that an interrupted run is repeated as a whole."""
    lake.storage.write(REPORTED_LOADS, json.dumps([load.number for load in update.loads]).encode())


def make_tables(spark: SparkSession, lake: Lake, loads: Sequence[Load], touched: Days) -> Days:
    """Rewrite the tables of all days affected by the touched ones. Returns these days."""
    files = [file for load in loads for file in load.files]
    _write_missing_partials(spark, lake, files_without_partials(lake, files))
    days, keys = _affected_days(spark, lake, files, touched)
    written = _write_tables(spark, lake, files, days, keys)
    replace_days(lake, days, written)
    return days


def _affected_days(
    spark: SparkSession, lake: Lake, files: Sequence[EventFile], touched: Days
) -> tuple[Days, Keys | None]:
    """The days whose runs may have changed, and the keys of all partials in them. None means all keys."""
    if {(file.server, file.day) for file in files} <= set(touched):
        return touched, None
    changed = _read_all_keys(spark, lake, _files_of_days(files, touched))

    def changed_days(file: EventFile) -> Iterator[ShuffleRow]:
        file_keys, changed_keys = read_keys(lake, file), changed.get(file.server, {})
        if any(pc.any(pc.is_in(file_keys[kind], keys)).as_py() for kind, keys in changed_keys.items()):
            yield ShuffleRow(file.server, "", pa.table({"key": [""]}), day=file.day)

    rows = _for_each_file(spark, files, changed_days).select("server", "day").distinct().collect()
    days = {(row.server, row.day) for row in rows} | set(touched)
    return days, _read_all_keys(spark, lake, _files_of_days(files, days))


def _files_of_days(files: Sequence[EventFile], days: Days) -> list[EventFile]:
    return [file for file in files if (file.server, file.day) in days]


def _read_all_keys(spark: SparkSession, lake: Lake, files: Sequence[EventFile]) -> Keys:
    """The keys of the partials of files."""

    def file_keys(file: EventFile) -> Iterator[ShuffleRow]:
        for kind, keys in read_keys(lake, file).items():
            yield ShuffleRow(file.server, kind, pa.table({"key": keys}))

    rows = [from_spark_row(row.asDict()) for row in _for_each_file(spark, files, file_keys).collect()]
    return {
        server: {kind: table["key"].combine_chunks().unique() for kind, table in kinds.items()}
        for (server, _), kinds in group_tables(rows).items()
    }


def _write_tables(
    spark: SparkSession, lake: Lake, files: Sequence[EventFile], days: Days, keys: Keys | None
) -> list[ReportFile]:
    """Write all tables of these days."""
    events = sum(file.events for file in files)
    tasks = max(2 * spark.sparkContext.defaultParallelism, events // EVENTS_PER_TASK)

    def parts(file: EventFile) -> Iterator[ShuffleRow]:
        return _assign_buckets(
            file,
            read_partials(lake, file),
            BUCKETS_PER_TASK * tasks,
            None if keys is None else keys.get(file.server, {}),
        )

    def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_batches(row for row in _combine(from_batches(batches)) if (row.server, row.day) in days)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        no_runs = empty_runs()
        for (server, day), tables in group_tables(from_batches(batches)).items():
            for file in write_day(lake, server, day, report_tables({**no_runs, **tables})):
                yield pa.RecordBatch.from_pydict({"file": [json.dumps(asdict(file))]})

    by_bucket = _for_each_file(spark, files, parts).repartition(tasks, "bucket")
    by_day = by_bucket.mapInArrow(runs, SHUFFLE_SCHEMA).repartition(tasks, "server", "day")
    return [ReportFile(**json.loads(row.file)) for row in by_day.mapInArrow(write, "file string").collect()]


def _for_each_file(
    spark: SparkSession, files: Sequence[EventFile], rows: Callable[[EventFile], Iterable[ShuffleRow]]
) -> DataFrame:
    """Apply `rows` to each of the files, in parallel."""

    def apply(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from to_batches(rows(files[index]))

    return spark.range(0, len(files), 1, task_count(spark, len(files))).mapInArrow(apply, SHUFFLE_SCHEMA)


def _write_missing_partials(spark: SparkSession, lake: Lake, files: Sequence[EventFile]) -> None:
    def write(file: EventFile) -> Iterable[ShuffleRow]:
        write_partials(lake, file)
        return ()

    if files:
        _for_each_file(spark, files, write).collect()


def _assign_buckets(
    file: EventFile, parts: Mapping[str, pa.Table], buckets: int, keys: Mapping[str, pa.Array] | None
) -> Iterator[ShuffleRow]:
    """The partials of a file, with equal keys in the same bucket. Throughput needs no bucket: it is per day."""
    yield ShuffleRow(file.server, "throughput", parts["throughput"], day=file.day)
    for kind in GROUPING_KEYS:
        table, row_keys = parts[kind], grouping_key(kind, parts[kind])
        if keys is not None:
            is_selected = pc.is_in(row_keys, keys.get(kind, pa.array([], pa.string())))
            table, row_keys = table.filter(is_selected), row_keys.filter(is_selected)
        bucket = _bucket(row_keys, buckets)
        for number in np.unique(bucket):
            yield ShuffleRow(file.server, kind, table.filter(pa.array(bucket == number)), bucket=int(number))


def _bucket(keys: pa.Array, buckets: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """A bucket number for each key, equal for equal keys."""
    encoded = keys.dictionary_encode()
    numbers = [zlib.crc32(key.encode()) % buckets for key in encoded.dictionary.to_pylist()]
    return np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]


def _combine(rows: Iterable[ShuffleRow]) -> Iterator[ShuffleRow]:
    """Combine partials to runs, and split these by day."""
    partials: dict[int, dict[str, pa.Table]] = {}
    for (server, day), tables in group_tables(rows).items():
        for kind, table in tables.items():
            if kind == "throughput":
                yield ShuffleRow(server, kind, table, day=day)
            else:
                partials.setdefault(server, empty_parts())[kind] = table
    for server, parts in partials.items():
        for kind, table in combine_runs(parts).items():
            for day, runs in split_by_day(table):
                yield ShuffleRow(server, kind, runs, day=day)


if __name__ == "__main__":
    main(sys.argv[1:])
