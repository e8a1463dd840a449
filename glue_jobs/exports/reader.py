"""Data files of exports: gzip, an item a line, read in parts and believed only when all of it was right."""

import hashlib
import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute

from glue_jobs.errors import BrokenExport
from glue_jobs.exports import json_lines
from glue_jobs.exports.manifest import DataFile
from glue_jobs.lake.storage import Storage

READ_BYTES: Final = 1 << 20
BLOCK_BYTES: Final = 4 << 20
"""So much text, at least a line of it, is parsed at once."""
LONGEST_LINE_BYTES: Final = 16 << 20
"""Far more than an item has; a few bytes can inflate to very many, and those are none of ours."""

_GZIP: Final = 31


def _attributes(**types: str) -> pa.DataType:
    """Attributes of an item, each with the type that DynamoDB writes beside it."""
    return pa.struct([(name, pa.struct([(kind, pa.string())])) for name, kind in types.items()])


ITEM: Final = _attributes(server="N", session="N", at="N", n="N", prev="N", req="S", body="S", z="B", ttl="N")
"""A commit, as the table of the log keeps it."""

_LINE: Final = pa.schema(
    [
        ("Item", ITEM),
        ("Metadata", _attributes(WriteTimestampMicros="N")),
        ("Keys", _attributes(server="N", session="N")),
        ("NewImage", ITEM),
    ]
)
"""A line of a full export has `Item`, one of an incremental export has the others; of what was deleted only `Keys`."""


def items(storage: Storage, file: DataFile) -> Iterator[pa.StructArray]:
    """The items of a file, some at a time; raises `BrokenExport` as soon as something is wrong with it."""
    count = 0
    for block in _blocks(storage, file):
        rows = _parsed(file, block, count)
        count += rows.num_rows
        yield _images(file, rows)
    if file.items is not None and count != file.items:
        raise BrokenExport(file.path, f"it has {count} items, but its manifest says {file.items}")


def _blocks(storage: Storage, file: DataFile) -> Iterator[bytes]:
    """The text of the file, cut between lines."""
    held: list[bytes] = []
    size = 0
    for text in _inflated(storage, file):
        cut = text.rfind(b"\n") + 1
        if size + len(text) < BLOCK_BYTES or not cut:
            held.append(text)
            size += len(text)
            if size > BLOCK_BYTES + LONGEST_LINE_BYTES:
                raise BrokenExport(file.path, f"a line has more than {LONGEST_LINE_BYTES} bytes")
            continue
        yield b"".join((*held, text[:cut]))
        held, size = [text[cut:]], len(text) - cut
    rest = b"".join(held)
    if rest.strip():
        yield rest


def _inflated(storage: Storage, file: DataFile) -> Iterator[bytes]:
    """The text of the file as it comes, until its end is seen and its checksum is right."""
    md5 = hashlib.md5(usedforsecurity=False)
    inflate = zlib.decompressobj(_GZIP)
    try:
        with storage.stream(file.path) as stream:
            while part := stream.read(READ_BYTES):
                md5.update(part)
                while part:
                    if inflate.eof:  # one gzip file may follow another
                        inflate = zlib.decompressobj(_GZIP)
                    yield from _pieces(inflate, part)
                    part = inflate.unused_data
    except FileNotFoundError as failure:
        raise BrokenExport(file.path, "the manifest lists it, but there is no such file") from failure
    except zlib.error as failure:
        raise BrokenExport(file.path, f"it is no gzip file, or a broken one: {failure}") from failure
    if not inflate.eof:
        raise BrokenExport(file.path, "it ends too early: it was cut off")
    if file.md5 is not None and md5.digest() != file.md5:
        raise BrokenExport(file.path, "it does not have the checksum that its manifest says")


def _pieces(inflate: "zlib._Decompress", part: bytes) -> Iterator[bytes]:
    """What the part inflates to, at most a block at a time."""
    text = inflate.decompress(part, BLOCK_BYTES)
    while text:
        yield text
        text = inflate.decompress(inflate.unconsumed_tail, BLOCK_BYTES)


def _parsed(file: DataFile, block: bytes, before: int) -> pa.Table:
    try:
        rows = json_lines.parsed(block, _LINE, "error")
        # The parser takes any bytes for text.
        rows.validate(full=True)
        return rows
    except pa.ArrowInvalid as failure:
        raise BrokenExport(file.path, f"after {before} good items: {failure}") from failure


def _images(file: DataFile, rows: pa.Table) -> pa.StructArray:
    """The items; what was deleted is history too, and stays: retention is for the log."""
    rows = rows.combine_chunks()
    item, image, keys = (_column(rows, name) for name in ("Item", "NewImage", "Keys"))
    is_full = item.is_valid()
    if not pa.compute.all(pa.compute.or_(is_full, keys.is_valid())).as_py():
        raise BrokenExport(file.path, "a line has neither an Item nor Keys: this is no export of DynamoDB")
    images = pa.compute.if_else(is_full, item, image)
    return images.filter(images.is_valid())


def _column(rows: pa.Table, name: str) -> pa.StructArray:
    column = rows[name]
    return column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
