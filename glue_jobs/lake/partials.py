"""The files of parts: beside each file of the history there is one of each kind, under the same name."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from glue_jobs.lake.lake import EVENTS, PARTS, EventFile, Lake
from glue_jobs.transforms.partial_aggregates import COLUMNS, FORMAT, SCHEMAS, parts_of
from glue_jobs.transforms.reports import KEYS, key_of, with_members

LAST: Final = "throughput"
"""The kind that is put in place last: where it is, the others are."""

_FOR_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **KEYS,
    "jobs": ("job", "jobset", "of_set_us", "ended_id", "code"),
    "jobsets": ("jobset",),
}
"""What of the parts is read if only their keys are asked for."""


def without_parts(lake: Lake, files: Iterable[EventFile]) -> list[EventFile]:
    """Those of the files that have no parts yet."""
    there = set(lake.storage.files(_folder(LAST)))
    return [file for file in files if _path(file, LAST) not in there]


def make_parts(lake: Lake, file: EventFile) -> None:
    """Write the parts of one file aside, then put them in their places."""
    storage = lake.storage
    with ExitStack() as stack:
        source = stack.enter_context(storage.random(file.path))
        outputs = {kind: stack.enter_context(storage.output(f"{_path(file, kind)}.new")) for kind in SCHEMAS}
        writers = {
            kind: stack.enter_context(pa.parquet.ParquetWriter(output, SCHEMAS[kind], compression="zstd"))
            for kind, output in outputs.items()
        }
        # A group of rows at a time: how large a day is does not matter.
        events = pa.parquet.ParquetFile(source)
        for group in range(events.num_row_groups):
            for kind, part in parts_of(events.read_row_group(group, columns=list(COLUMNS))).items():
                writers[kind].write_table(part)
    for kind in sorted(SCHEMAS, key=lambda one: one == LAST):
        storage.move(f"{_path(file, kind)}.new", _path(file, kind))


def parts_in(lake: Lake, file: EventFile) -> dict[str, pa.Table]:
    """The parts of a file, those of sets with what its jobs say of them."""
    return with_members({kind: _read(lake, _path(file, kind), SCHEMAS[kind].names) for kind in SCHEMAS})


def keys_in(lake: Lake, file: EventFile) -> dict[str, pa.Array]:
    """The keys of a file's parts, each once."""
    parts = with_members({kind: _read(lake, _path(file, kind), names) for kind, names in _FOR_KEYS.items()})
    return {kind: key_of(kind, table).unique() for kind, table in parts.items()}


def _read(lake: Lake, path: str, names: Iterable[str]) -> pa.Table:
    with lake.storage.random(path) as source:
        return pa.parquet.ParquetFile(source).read(columns=list(names))


def _folder(kind: str) -> str:
    return f"{PARTS}/{FORMAT}/{kind}"


def _path(file: EventFile, kind: str) -> str:
    return _folder(kind) + file.path.removeprefix(EVENTS)
