"""`history`: load exports of the log into its history, one row per event.

    python -m glue_jobs.history --exports <directory> --lake <directory>

Skips exports and commits that were loaded before: exports may overlap, repeat each other and arrive in any order. An
invalid export ends the run, and the lake stays unchanged.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from glue_jobs.arguments import parse_arguments
from glue_jobs.errors import HistoryError
from glue_jobs.exports.manifest import DataFile, find_exports
from glue_jobs.exports.reader import read_items
from glue_jobs.lake.event_writer import write_event_files
from glue_jobs.lake.lake import EventFile, Lake, Load, loaded_logs
from glue_jobs.lake.storage import Storage
from glue_jobs.spark.java import JavaNotFound
from glue_jobs.spark.session import spark_session, task_count
from glue_jobs.transforms.commits import COMMIT, LoadedLog, drop_duplicates, drop_loaded, parse_commits

SESSIONS_PER_TASK: Final = 10_000
"""Consecutive sessions that one task writes, so that a task's events are from few days."""

_CAUSES: Final = ("BrokenExport", "Conflict", "HistoryError")


def main(argv: Sequence[str]) -> None:
    args = parse_arguments(
        argv,
        "Load exports of the log into its history.",
        {"exports": "directory of exports", "lake": "directory of the history"},
    )
    lake = Lake(args.lake.rstrip("/"))
    started_s = time.monotonic()
    try:
        with lake.storage.lock():
            load = load_exports(Storage(args.exports.rstrip("/")), lake)
    except (HistoryError, JavaNotFound) as error:
        sys.exit(f"Nothing was loaded: {error}")
    if load is None:
        print("No new exports.")
        return
    events = sum(file.events for file in load.files)
    print(
        f"{events:,} events of {len(load.days):,} days, from {len(load.exports):,} exports, "
        f"in {time.monotonic() - started_s:.1f} s: {lake.url}"
    )


WriteEvents = Callable[[Storage, Sequence[DataFile], Mapping[int, LoadedLog], Storage], list[EventFile]]
"""Writes the events of data files, except loaded ones, to files of the history in a staging directory."""


def write_with_spark(
    exports: Storage, files: Sequence[DataFile], loaded: Mapping[int, LoadedLog], staging: Storage
) -> list[EventFile]:
    """Write the events of data files with Spark."""
    spark = spark_session("history")
    commits = read_commits(spark, exports, files, loaded)
    try:
        return [EventFile(**json.loads(row.file)) for row in write_events(commits, files, staging).collect()]
    except PythonException as error:
        raise HistoryError(_reason(error)) from error


def load_exports(exports: Storage, lake: Lake, write: WriteEvents = write_with_spark) -> Load | None:
    """Load new exports. None if there are no new ones."""
    lake.recover()
    loads = lake.loads()
    loaded = {export for load in loads for export in load.exports}
    new = [export for export in find_exports(exports, loaded) if export.id not in loaded]
    if not new:
        return None
    number = loads[-1].number + 1 if loads else 1
    data_files = [file for export in new for file in export.files]
    try:
        files = write(exports, data_files, loaded_logs(loads), lake.staging(number))
    except HistoryError:
        lake.recover()
        raise
    load = Load(number, [export.id for export in new], files)
    lake.commit(load)
    return load


def new_commits(
    exports: Storage, files: Sequence[DataFile], index: int, loaded: Mapping[int, LoadedLog]
) -> Iterator[pa.RecordBatch]:
    """The commits of one file that are not loaded yet."""
    path = files[index].path
    for batch in read_items(exports, files[index]):
        yield drop_loaded(parse_commits(batch, path, index), loaded, path)


def read_commits(
    spark: SparkSession, exports: Storage, files: Sequence[DataFile], loaded: Mapping[int, LoadedLog]
) -> DataFrame:
    """The commits of files that are not loaded yet. A commit in several files appears several times."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from new_commits(exports, files, index, loaded)

    return spark.range(0, len(files), 1, task_count(spark, len(files))).mapInArrow(read, COMMIT)


def write_events(commits: DataFrame, files: Sequence[DataFile], to: Storage) -> DataFrame:
    """Write the events of commits, without duplicates. Returns a row per new file."""
    paths = [file.path for file in files]

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in write_event_files(to, drop_duplicates(batches, paths), paths):
            yield pa.RecordBatch.from_pydict({"file": [file]})

    session_group = F.floor(F.col("session") / SESSIONS_PER_TASK)
    sorted_commits = commits.repartition("server", session_group).sortWithinPartitions("server", "session")
    return sorted_commits.mapInArrow(write, "file string")


def _reason(error: PythonException) -> str:
    """The worker's error: the last line of its traceback, without the class name."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in reversed(lines):
        name, _, reason = line.partition(": ")
        if name.rpartition(".")[2] in _CAUSES:
            return reason
    return str(error)


if __name__ == "__main__":
    main(sys.argv[1:])
