"""Records that do not fit in an item: their deflated data is split into parts, and each part is an item.

The parts of a record have its sort key with a suffix, so that they follow it, and no version. They are written before
the record and deleted after it was replaced. The parts of a record that became small stay until its view is dropped.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from chalicelib.adapters.dynamodb.capacity import MAX_ITEM_BYTES, item_size
from chalicelib.adapters.dynamodb.items import DATA, ITEM, PARTS, RECORD_CRC, TO, VIEW, Z, record_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chalicelib.adapters.dynamodb.items import Item

MAX_PART_BYTES = 380 * 1024
"""Leaves room for the key of the item."""


def split_item(item: Item) -> tuple[Item, list[Item]]:
    """The item of a record without its data, and the items of its parts. There are none if the item is small."""
    if item_size(item) <= MAX_ITEM_BYTES:
        return item, []
    deflated = b64decode(item[Z]["B"]) if Z in item else zlib.compress(item[DATA]["S"].encode())
    chunks = [deflated[start : start + MAX_PART_BYTES] for start in range(0, len(deflated), MAX_PART_BYTES)]
    main = {name: value for name, value in item.items() if name not in (Z, DATA)}
    main[PARTS] = {"N": str(len(chunks))}
    return main, [
        {**key, Z: {"B": b64encode(chunk).decode()}} for key, chunk in zip(part_keys(main), chunks, strict=True)
    ]


def join_item(item: Item, parts: Sequence[Item]) -> Item:
    """The inverse of `split_item`. The parts may have any order."""
    in_order = sorted(parts, key=lambda part: part[ITEM]["S"])
    return {**item, Z: {"B": b64encode(b"".join(b64decode(part[Z]["B"]) for part in in_order)).decode()}}


def part_keys(item: Item) -> list[Item]:
    """The keys of the parts of a record. None if it has no parts.

    They contain its checksum: a write that is refused does not change the parts of the stored record.
    """
    if PARTS not in item:
        return []
    prefix = f"{part_prefix(item[ITEM]['S'])}{int(item[TO]['N']):018d}.{item[RECORD_CRC]['N']}"
    return [record_key(item[VIEW]["S"], f"{prefix}.{n:06d}") for n in range(int(item[PARTS]["N"]))]


def part_prefix(name: str) -> str:
    """All parts of a record start with this prefix. Those of earlier versions come first."""
    return f"{name}\0"


def is_part(item: Item) -> bool:
    return TO not in item
