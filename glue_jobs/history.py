"""`history`: exports of the log become its history, one row an event.

    python -m glue_jobs.history --exports <directory> --lake <directory>

Exports that were loaded before are passed over, and so are commits: exports may overlap, repeat each other and come in
any order. Something wrong in one of them ends the run, and the lake stays as it was.
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

from glue_jobs.arguments import arguments
from glue_jobs.errors import HistoryError
from glue_jobs.exports.manifest import DataFile, find_exports
from glue_jobs.exports.reader import items
from glue_jobs.lake.event_writer import written
from glue_jobs.lake.lake import EventFile, Lake, Load, known_logs
from glue_jobs.lake.storage import Storage
from glue_jobs.spark.java import NoJava
from glue_jobs.spark.session import session, tasks_for
from glue_jobs.transforms.commits import COMMIT, Known, commits_of, each_once, unknown

SESSIONS_TOGETHER: Final = 10_000
"""So many sessions that follow each other are written by one task: they are of few days."""

_CAUSES: Final = ("BrokenExport", "Conflict", "HistoryError")


def main(argv: Sequence[str]) -> None:
    """Load what is new."""
    args = arguments(
        argv,
        "Load exports of the log into its history.",
        {"exports": "where exports are", "lake": "where the history is"},
    )
    lake = Lake(args.lake.rstrip("/"))
    began = time.monotonic()
    try:
        with lake.storage.locked():
            load = load_exports(Storage(args.exports.rstrip("/")), lake)
    except (HistoryError, NoJava) as failure:
        sys.exit(f"Nothing was loaded: {failure}")
    if load is None:
        print("No export is new.")
        return
    events = sum(file.events for file in load.files)
    print(
        f"{events:,} events of {len(load.days):,} days, from {len(load.exports):,} exports, "
        f"in {time.monotonic() - began:.1f} s: {lake.url}"
    )


Writing = Callable[[Storage, Sequence[DataFile], Mapping[int, Known], Storage], list[EventFile]]
"""Turns data files, without what is known, into files of the history, written aside."""


def by_spark(
    exports: Storage, files: Sequence[DataFile], known: Mapping[int, Known], aside: Storage
) -> list[EventFile]:
    """The files of the history that Spark makes of data files."""
    spark = session("history")
    commits = read_commits(spark, exports, files, known)
    try:
        return [EventFile(**json.loads(row.file)) for row in write_events(commits, files, aside).collect()]
    except PythonException as failure:
        raise HistoryError(_reason(failure)) from failure


def load_exports(exports: Storage, lake: Lake, write: Writing = by_spark) -> Load | None:
    """Load the exports that are new; None if none are."""
    lake.recover()
    loads = lake.loads()
    loaded = {export for load in loads for export in load.exports}
    new = [export for export in find_exports(exports, loaded) if export.id not in loaded]
    if not new:
        return None
    number = loads[-1].number + 1 if loads else 1
    data_files = [file for export in new for file in export.files]
    try:
        files = write(exports, data_files, known_logs(loads), lake.aside(number))
    except HistoryError:
        lake.recover()
        raise
    load = Load(number, [export.id for export in new], files)
    lake.keep(load)
    return load


def new_commits(
    exports: Storage, files: Sequence[DataFile], place: int, known: Mapping[int, Known]
) -> Iterator[pa.RecordBatch]:
    """The commits in one of the files that are not known yet."""
    path = files[place].path
    for found in items(exports, files[place]):
        yield unknown(commits_of(found, path, place), known, path)


def read_commits(
    spark: SparkSession, exports: Storage, files: Sequence[DataFile], known: Mapping[int, Known]
) -> DataFrame:
    """The commits in these files that are not known yet; one that is in several files comes several times."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from new_commits(exports, files, place, known)

    return spark.range(0, len(files), 1, tasks_for(spark, len(files))).mapInArrow(read, COMMIT)


def write_events(commits: DataFrame, files: Sequence[DataFile], to: Storage) -> DataFrame:
    """Write the events of commits that were found in these files, each of them once; a row for each new file."""
    paths = [file.path for file in files]

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in written(to, each_once(batches, paths), paths):
            yield pa.RecordBatch.from_pydict({"file": [file]})

    together = F.floor(F.col("session") / SESSIONS_TOGETHER)
    in_order = commits.repartition("server", together).sortWithinPartitions("server", "session")
    return in_order.mapInArrow(write, "file string")


def _reason(failure: PythonException) -> str:
    """What a worker said: the last line of its traceback, without the class."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    for line in reversed(lines):
        name, _, reason = line.partition(": ")
        if name.rpartition(".")[2] in _CAUSES:
            return reason
    return str(failure)


if __name__ == "__main__":
    main(sys.argv[1:])
