"""Reads data files of exports: gzip with one JSON item per line, validated while it is read."""

import hashlib
import zlib
from collections.abc import Iterator
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute
import pyarrow.json

from glue_jobs.errors import BrokenExport
from glue_jobs.exports.manifest import DataFile
from glue_jobs.lake.storage import Storage

READ_BYTES: Final = 1 << 20
BLOCK_BYTES: Final = 4 << 20
"""Text that is parsed at once. At least one line."""
MAX_LINE_BYTES: Final = 16 << 20
"""Far above the size of any item. Protects against decompression bombs."""
MAX_BODY_BYTES: Final = 16 << 20
"""Maximum size of an inflated commit body, far above that of any commit. Protects against decompression bombs."""

_GZIP: Final = 31
"""zlib's window size for gzip."""


def _attributes(**types: str) -> pa.DataType:
    """The attributes of an item, each with its DynamoDB type."""
    return pa.struct([(name, pa.struct([(kind, pa.string())])) for name, kind in types.items()])


_FORMAT_1: Final = {"server": "N", "session": "N", "at": "N", "n": "N", "prev": "N", "req": "S", "body": "S", "z": "B"}
_FORMAT_2: Final = {"before": "N", "by": "S", "idem": "S", "zidem": "B", "crc": "S", "k": "N", "ns": "S"}
ITEM: Final = _attributes(**_FORMAT_1, **_FORMAT_2, ttl="N")
"""A commit as the log's table stores it. Version 0.1.0 has the attributes of format 1 only."""

_LINE: Final = pa.schema(
    [
        ("Item", ITEM),
        ("Metadata", _attributes(WriteTimestampMicros="N")),
        ("Keys", _attributes(server="N", session="N")),
        ("NewImage", ITEM),
    ]
)
"""A full export has `Item`. An incremental export has the other members; a deleted item only has `Keys`."""


def read_items(storage: Storage, file: DataFile) -> Iterator[pa.StructArray]:
    """The items of a file in batches. Raises `BrokenExport` at the first error."""
    count = 0
    for block in _blocks(storage, file):
        rows = _parse_block(file, block, count)
        count += rows.num_rows
        yield _extract_items(file, rows)
    if file.items is not None and count != file.items:
        raise BrokenExport(file.path, f"the file has {count} items, but its manifest says {file.items}")


def _blocks(storage: Storage, file: DataFile) -> Iterator[bytes]:
    """The text of the file, split at line ends."""
    held: list[bytes] = []
    size = 0
    for text in _decompress(storage, file):
        cut = text.rfind(b"\n") + 1
        if size + len(text) < BLOCK_BYTES or not cut:
            held.append(text)
            size += len(text)
            if size > BLOCK_BYTES + MAX_LINE_BYTES:
                raise BrokenExport(file.path, f"a line has more than {MAX_LINE_BYTES} bytes")
            continue
        yield b"".join((*held, text[:cut]))
        held, size = [text[cut:]], len(text) - cut
    rest = b"".join(held)
    if rest.strip():
        yield rest


def _decompress(storage: Storage, file: DataFile) -> Iterator[bytes]:
    """The decompressed text. Checks for truncation and the checksum at the end."""
    md5 = hashlib.md5(usedforsecurity=False)
    inflate = zlib.decompressobj(_GZIP)
    try:
        with storage.open_stream(file.path) as stream:
            while part := stream.read(READ_BYTES):
                md5.update(part)
                while part:
                    if inflate.eof:  # a gzip file may have several members
                        inflate = zlib.decompressobj(_GZIP)
                    yield from _decompress_part(inflate, part)
                    part = inflate.unused_data
    except FileNotFoundError as error:
        raise BrokenExport(file.path, "the manifest lists the file, but there is no such file") from error
    except zlib.error as error:
        raise BrokenExport(file.path, f"the file is not valid gzip: {error}") from error
    if not inflate.eof:
        raise BrokenExport(file.path, "the file is cut off: the gzip stream has no end")
    if file.md5 is not None and md5.digest() != file.md5:
        raise BrokenExport(file.path, "the file does not match the checksum in its manifest")


def _decompress_part(inflate: "zlib._Decompress", part: bytes) -> Iterator[bytes]:
    """Decompress a part of the file, at most a block at a time."""
    text = inflate.decompress(part, BLOCK_BYTES)
    while text:
        yield text
        text = inflate.decompress(inflate.unconsumed_tail, BLOCK_BYTES)


def _parse_block(file: DataFile, block: bytes, before: int) -> pa.Table:
    try:
        rows = parse_json_lines(block, _LINE, "error")
        # The parser does not check that the text is UTF-8.
        rows.validate(full=True)
        return rows
    except pa.ArrowInvalid as error:
        raise BrokenExport(file.path, f"after {before} valid items: {error}") from error


def _extract_items(file: DataFile, rows: pa.Table) -> pa.StructArray:
    """The items. Items that were deleted from the log are skipped: retention does not apply to the history."""
    rows = rows.combine_chunks()
    item, image, keys = (_column(rows, name) for name in ("Item", "NewImage", "Keys"))
    is_full = item.is_valid()
    if not pa.compute.all(pa.compute.or_(is_full, keys.is_valid())).as_py():
        raise BrokenExport(file.path, "a line has neither Item nor Keys: this is not a DynamoDB export")
    images = pa.compute.if_else(is_full, item, image)
    return images.filter(images.is_valid())


def _column(rows: pa.Table, name: str) -> pa.StructArray:
    column = rows[name]
    return column.chunk(0) if column.num_chunks else pa.array([], type=column.type)


def parse_json_lines(text: bytes, schema: pa.Schema, unexpected_fields: Literal["error", "ignore"]) -> pa.Table:
    """Parse newline-delimited JSON at once. Raises `ArrowInvalid` for invalid JSON and for values of another type."""
    return pyarrow.json.read_json(
        pa.BufferReader(text),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected_fields),
    )


def inflate_body(deflated: bytes) -> bytes:
    """The text of a deflated commit body. Raises `zlib.error` if it is damaged, truncated or too long."""
    inflate = zlib.decompressobj()
    text = inflate.decompress(deflated, MAX_BODY_BYTES)
    if not inflate.eof:
        raise zlib.error(f"the body is truncated, or has more than {MAX_BODY_BYTES} bytes")
    return text
