"""`reports`: the history becomes tables, and the tables a page for each organization.

    python -m glue_jobs.reports --lake <directory>

Only what has changed since the last time is read again. What each file of the history says by itself is kept
(`_parts`); runs are added up from that, so a job that crosses midnight, or goes on for a week, is right, and only the
days that it is told in are written anew.

Spark spreads the work and brings together what belongs together: parts by their keys, then runs by their days. What is
done with them, whole columns at a time, is in `transforms`.
"""

import json
import sys
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from glue_jobs.arguments import arguments
from glue_jobs.errors import HistoryError
from glue_jobs.lake.lake import PARTS, REPORTS, EventFile, Lake, Load
from glue_jobs.lake.partials import keys_in, make_parts, parts_in, without_parts
from glue_jobs.lake.report_writer import ReportFile, replace_days, write_day
from glue_jobs.page.rendering import write_pages
from glue_jobs.spark.java import NoJava
from glue_jobs.spark.session import session, tasks_for
from glue_jobs.spark.shuffle import PARCEL, Parcel, parcel_of, received, sent, sorted_out
from glue_jobs.transforms.partial_aggregates import FORMAT
from glue_jobs.transforms.reports import KEYS, by_day, empty_parts, empty_runs, key_of, runs_of, tables_of

DONE: Final = f"{PARTS}/{FORMAT}/reported.json"
"""Which loads are in the reports."""

EVENTS_TOGETHER: Final = 2_000_000
"""About so many events are added up by one task."""

BUCKETS_PER_TASK: Final = 4
"""Spark deals them out by chance: of several, each task gets about its share."""

Days = Collection[tuple[int, str]]
Keys = Mapping[int, Mapping[str, pa.Array]]
"""Keys of parts, by server and kind."""


def main(argv: Sequence[str]) -> None:
    """Bring the reports up to date."""
    args = arguments(
        argv,
        "Make reports of the history.",
        {"lake": "where the history is"},
        names='what organizations are called, as JSON: {"1": "acme"}',
    )
    lake = Lake(args.lake.rstrip("/"))
    began = time.monotonic()
    try:
        names = {int(server): str(name) for server, name in json.loads(args.names or "{}").items()}
        with lake.storage.locked():
            days = make_reports(lake)
            pages = write_pages(lake, names, datetime.now(UTC))
    except (HistoryError, NoJava) as failure:
        sys.exit(f"There are no reports: {failure}")
    print(
        f"Reports of {len(days):,} days and {len(pages):,} pages in {time.monotonic() - began:.1f} s: "
        f"{lake.url}/{REPORTS}"
    )


def make_reports(lake: Lake) -> Days:
    """Bring the tables up to date; the days that were made anew."""
    loads = lake.loads()
    content = lake.storage.read(DONE)
    done = set() if content is None else set(json.loads(content))
    new = [load for load in loads if load.number not in done]
    days: Days = set()
    if any(load.files for load in new):
        days = make_tables(session("reports"), lake, loads, {day for load in new for day in load.days})
    lake.storage.write(DONE, json.dumps([load.number for load in loads]).encode())
    return days


def make_tables(spark: SparkSession, lake: Lake, loads: Sequence[Load], touched: Days) -> Days:
    """Make what the touched days are part of anew; which days that was."""
    files = [file for load in loads for file in load.files]
    _make_parts(spark, lake, without_parts(lake, files))
    days, keys = _affected(spark, lake, files, touched)
    written = _tables(spark, lake, files, days, keys)
    replace_days(lake, days, written)
    return days


def _affected(spark: SparkSession, lake: Lake, files: Sequence[EventFile], touched: Days) -> tuple[Days, Keys | None]:
    """The days whose runs may be others now, and the keys of all parts in them; None: of all parts there are."""
    if {(file.server, file.day) for file in files} <= set(touched):
        return touched, None
    changed = _keys(spark, lake, _of_days(files, touched))

    def has_one(file: EventFile) -> Iterator[Parcel]:
        of_file, wanted = keys_in(lake, file), changed.get(file.server, {})
        if any(pc.any(pc.is_in(of_file[kind], keys)).as_py() for kind, keys in wanted.items()):
            yield Parcel(file.server, "", pa.table({"key": [""]}), day=file.day)

    found = _of_each(spark, files, has_one).select("server", "day").distinct().collect()
    days = {(row.server, row.day) for row in found} | set(touched)
    return days, _keys(spark, lake, _of_days(files, days))


def _of_days(files: Sequence[EventFile], days: Days) -> list[EventFile]:
    """The files of some days."""
    return [file for file in files if (file.server, file.day) in days]


def _keys(spark: SparkSession, lake: Lake, files: Sequence[EventFile]) -> Keys:
    """The keys of the parts of these files."""

    def found(file: EventFile) -> Iterator[Parcel]:
        for kind, keys in keys_in(lake, file).items():
            yield Parcel(file.server, kind, pa.table({"key": keys}))

    parcels = [parcel_of(row.asDict()) for row in _of_each(spark, files, found).collect()]
    return {
        server: {kind: table["key"].combine_chunks().unique() for kind, table in kinds.items()}
        for (server, _), kinds in sorted_out(parcels).items()
    }


def _tables(
    spark: SparkSession, lake: Lake, files: Sequence[EventFile], days: Days, keys: Keys | None
) -> list[ReportFile]:
    """The files of all tables of these days."""
    events = sum(file.events for file in files)
    tasks = max(2 * spark.sparkContext.defaultParallelism, events // EVENTS_TOGETHER)

    def parts(file: EventFile) -> Iterator[Parcel]:
        return _in_buckets(
            file, parts_in(lake, file), BUCKETS_PER_TASK * tasks, None if keys is None else keys.get(file.server, {})
        )

    def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return sent(parcel for parcel in _added_up(received(batches)) if (parcel.server, parcel.day) in days)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nothing = empty_runs()
        for (server, day), found in sorted_out(received(batches)).items():
            for file in write_day(lake, server, day, tables_of({**nothing, **found})):
                yield pa.RecordBatch.from_pydict({"file": [json.dumps(asdict(file))]})

    by_bucket = _of_each(spark, files, parts).repartition(tasks, "bucket")
    by_day = by_bucket.mapInArrow(runs, PARCEL).repartition(tasks, "server", "day")
    return [ReportFile(**json.loads(row.file)) for row in by_day.mapInArrow(write, "file string").collect()]


def _of_each(
    spark: SparkSession, files: Sequence[EventFile], found: Callable[[EventFile], Iterable[Parcel]]
) -> DataFrame:
    """What is found in each of the files."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from sent(found(files[place]))

    return spark.range(0, len(files), 1, tasks_for(spark, len(files))).mapInArrow(look, PARCEL)


def _make_parts(spark: SparkSession, lake: Lake, files: Sequence[EventFile]) -> None:
    def make(file: EventFile) -> Iterable[Parcel]:
        make_parts(lake, file)
        return ()

    if files:
        _of_each(spark, files, make).collect()


def _in_buckets(
    file: EventFile, parts: Mapping[str, pa.Table], buckets: int, keys: Mapping[str, pa.Array] | None
) -> Iterator[Parcel]:
    """The parts of a file, those with equal keys in the same bucket; throughput is of the file's day alone."""
    yield Parcel(file.server, "throughput", parts["throughput"], day=file.day)
    for kind in KEYS:
        table, of = parts[kind], key_of(kind, parts[kind])
        if keys is not None:
            is_wanted = pc.is_in(of, keys.get(kind, pa.array([], pa.string())))
            table, of = table.filter(is_wanted), of.filter(is_wanted)
        bucket = _bucket(of, buckets)
        for number in np.unique(bucket):
            yield Parcel(file.server, kind, table.filter(pa.array(bucket == number)), bucket=int(number))


def _bucket(keys: pa.Array, buckets: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """A number for each key, equal for equal keys."""
    encoded = keys.dictionary_encode()
    numbers = [zlib.crc32(key.encode()) % buckets for key in encoded.dictionary.to_pylist()]
    return np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]


def _added_up(parcels: Iterable[Parcel]) -> Iterator[Parcel]:
    """The runs that parts add up to, by their days."""
    of_servers: dict[int, dict[str, pa.Table]] = {}
    for (server, day), found in sorted_out(parcels).items():
        for kind, table in found.items():
            if kind == "throughput":
                yield Parcel(server, kind, table, day=day)
            else:
                of_servers.setdefault(server, empty_parts())[kind] = table
    for server, parts in of_servers.items():
        for kind, table in runs_of(parts).items():
            for day, rows in by_day(table):
                yield Parcel(server, kind, rows, day=day)


if __name__ == "__main__":
    main(sys.argv[1:])
