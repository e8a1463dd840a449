"""Passes Arrow tables between Spark tasks, as rows that Spark can repartition."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

SHUFFLE_SCHEMA: Final = "bucket int, server int, day string, kind string, content binary"
ROWS_PER_BATCH: Final = 32


@dataclass(frozen=True, slots=True)
class ShuffleRow:
    """A table of one kind and server. Spark repartitions it by its bucket or its day."""

    server: int
    kind: str
    table: pa.Table
    bucket: int = 0
    day: str = ""


def to_batches(rows: Iterable[ShuffleRow]) -> Iterator[pa.RecordBatch]:
    """Encode tables as Spark rows. Skips empty tables."""
    batch: list[tuple[int, int, str, str, bytes]] = []
    for row in rows:
        if row.table.num_rows:
            batch.append((row.bucket, row.server, row.day, row.kind, _serialize(row.table)))
        if len(batch) == ROWS_PER_BATCH:
            yield _batch(batch)
            batch = []
    if batch:
        yield _batch(batch)


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[ShuffleRow]:
    """Decode tables from Spark rows."""
    for batch in batches:
        for row in batch.to_pylist():
            yield from_spark_row(row)


def from_spark_row(row: Mapping[str, object]) -> ShuffleRow:
    server, kind, bucket, day = row["server"], row["kind"], row["bucket"], row["day"]
    return ShuffleRow(server, kind, pa.ipc.open_stream(row["content"]).read_all(), bucket, day)  # type: ignore[arg-type]


def group_tables(rows: Iterable[ShuffleRow]) -> dict[tuple[int, str], dict[str, pa.Table]]:
    """Concatenate tables by server and day, then by kind."""
    grouped: dict[tuple[int, str], dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        grouped[row.server, row.day][row.kind].append(row.table)
    return {key: {kind: pa.concat_tables(tables) for kind, tables in kinds.items()} for key, kinds in grouped.items()}


def _serialize(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _batch(rows: list[tuple[int, int, str, str, bytes]]) -> pa.RecordBatch:
    kinds = (pa.int32(), pa.int32(), pa.string(), pa.string(), pa.binary())
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, ["bucket", "server", "day", "kind", "content"])
