"""Files of partial aggregates: for each history file, one file of each kind with the same name."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from glue_jobs.lake.lake import EVENTS, PARTIALS, EventFile, Lake
from glue_jobs.transforms.partial_aggregates import COLUMNS, FORMAT, SCHEMAS, aggregate_events
from glue_jobs.transforms.reports import GROUPING_KEYS, grouping_key, with_members

LAST_KIND: Final = "throughput"
"""The kind whose file is moved last. Where it exists, the files of all kinds exist."""

_REPORT_READY: Final = "^report/ready(/|$)"

_KEY_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    **GROUPING_KEYS,
    "jobs": ("job", "jobset", "of_set_us", "ended_id", "code"),
    "jobsets": ("jobset",),
}
"""The columns that are read for keys only."""


def files_without_partials(lake: Lake, files: Iterable[EventFile]) -> list[EventFile]:
    """The files whose partials are missing."""
    existing = set(lake.storage.files(_folder(LAST_KIND)))
    return [file for file in files if _path(file, LAST_KIND) not in existing]


def write_partials(lake: Lake, file: EventFile) -> None:
    """Write the partials of a file under temporary names, then move them into place."""
    storage = lake.storage
    with ExitStack() as stack:
        source = stack.enter_context(storage.open_random(file.path))
        outputs = {kind: stack.enter_context(storage.create(f"{_path(file, kind)}.new")) for kind in SCHEMAS}
        writers = {
            kind: stack.enter_context(pa.parquet.ParquetWriter(output, SCHEMAS[kind], compression="zstd"))
            for kind, output in outputs.items()
        }
        # Read one row group at a time, to bound memory for any size of a day.
        events = pa.parquet.ParquetFile(source)
        for group in range(events.num_row_groups):
            for kind, part in aggregate_events(events.read_row_group(group, columns=list(COLUMNS))).items():
                writers[kind].write_table(part)
    for kind in sorted(SCHEMAS, key=lambda kind: kind == LAST_KIND):
        storage.move(f"{_path(file, kind)}.new", _path(file, kind))


def has_news(lake: Lake, file: EventFile) -> bool:
    """Whether a file with partials has any event other than `report/ready`, which earlier reports caused."""
    types = _read(lake, _path(file, "throughput"), ["type"])["type"]
    return not pc.all(pc.match_substring_regex(types, _REPORT_READY)).as_py()


def read_partials(lake: Lake, file: EventFile) -> dict[str, pa.Table]:
    """The partials of a file. Those of job sets include the members in partials of jobs."""
    return with_members({kind: _read(lake, _path(file, kind), SCHEMAS[kind].names) for kind in SCHEMAS})


def read_keys(lake: Lake, file: EventFile) -> dict[str, pa.Array]:
    """The distinct keys of a file's partials."""
    parts = with_members({kind: _read(lake, _path(file, kind), names) for kind, names in _KEY_COLUMNS.items()})
    return {kind: grouping_key(kind, table).unique() for kind, table in parts.items()}


def _read(lake: Lake, path: str, names: Iterable[str]) -> pa.Table:
    with lake.storage.open_random(path) as source:
        return pa.parquet.ParquetFile(source).read(columns=list(names))


def _folder(kind: str) -> str:
    return f"{PARTIALS}/{FORMAT}/{kind}"


def _path(file: EventFile, kind: str) -> str:
    return _folder(kind) + file.path.removeprefix(EVENTS)
