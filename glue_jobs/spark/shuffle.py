"""Parcels: Arrow tables on their way between the tasks of Spark, which sees to it that what belongs together meets."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

PARCEL: Final = "bucket int, server int, day string, kind string, content binary"
AT_ONCE: Final = 32
"""So many are handed to Spark together."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Rows of a kind, of one server, and where they are to go: a bucket, or a day."""

    server: int
    kind: str
    table: pa.Table
    bucket: int = 0
    day: str = ""


def sent(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    """Parcels as rows of Spark; those without content stay here."""
    held: list[tuple[int, int, str, str, bytes]] = []
    for parcel in parcels:
        if parcel.table.num_rows:
            held.append((parcel.bucket, parcel.server, parcel.day, parcel.kind, _packed(parcel.table)))
        if len(held) == AT_ONCE:
            yield _batch(held)
            held = []
    if held:
        yield _batch(held)


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
    """The parcels in rows of Spark."""
    for batch in batches:
        for row in batch.to_pylist():
            yield parcel_of(row)


def parcel_of(row: Mapping[str, object]) -> Parcel:
    """The parcel in a row."""
    server, kind, bucket, day = row["server"], row["kind"], row["bucket"], row["day"]
    return Parcel(server, kind, pa.ipc.open_stream(row["content"]).read_all(), bucket, day)  # type: ignore[arg-type]


def sorted_out(parcels: Iterable[Parcel]) -> dict[tuple[int, str], dict[str, pa.Table]]:
    """What has arrived for each server and day: the rows of each kind in one table."""
    found: dict[tuple[int, str], dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
    for parcel in parcels:
        found[parcel.server, parcel.day][parcel.kind].append(parcel.table)
    return {of: {kind: pa.concat_tables(tables) for kind, tables in kinds.items()} for of, kinds in found.items()}


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _batch(rows: list[tuple[int, int, str, str, bytes]]) -> pa.RecordBatch:
    kinds = (pa.int32(), pa.int32(), pa.string(), pa.string(), pa.binary())
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, ["bucket", "server", "day", "kind", "content"])
