"""Commits in items of an export: verify their checksums, and split items that hold several commits.

Items of version 0.1.0 have no checksums and one commit each.
"""

import zlib
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from glue_jobs.errors import BrokenExport
from glue_jobs.exports.reader import ITEM, inflate_body

_SEPARATOR: Final = b",\n"
"""Between the events of a body. JSON text never contains a raw newline."""

Item = dict[str, dict[str, str] | None]


def single_commits(items: pa.StructArray, file: str) -> pa.StructArray:
    """The items with one commit each. Raises `BrokenExport` if a checksum is wrong."""
    if items.field("crc").null_count == len(items):
        return items
    rows: list[Item] = items.to_pylist()
    split = [commit for row in rows for commit in _commits(row, file)]
    return items if len(split) == len(rows) else pa.array(split, ITEM)


def _commits(item: Item, file: str) -> Iterator[Item]:
    if item["crc"] is None:
        yield item
        return
    try:
        yield from _verified_commits(item)
    except (KeyError, TypeError, ValueError, Base64Error, zlib.error) as error:
        name = f"session {_text(item, 'session')} of server {_text(item, 'server')}"
        raise BrokenExport(file, f"{name} is damaged: {error}") from error


def _verified_commits(item: Item) -> Iterator[Item]:
    checksums, requests = _lines(item, "crc"), _lines(item, "req")
    body = _body(item)
    counts = [int(_text(item, "n"))] if item["k"] is None else [int(count) for count in _lines(item, "ns")]
    bodies = [body] if item["k"] is None else _split(body, counts)
    by, keys = (lines or [""] * len(counts) for lines in (_lines(item, "by"), _keys(item)))
    session, at, previous = (int(_text(item, name)) for name in ("session", "at", "prev"))
    before = None if item["before"] is None else int(_text(item, "before"))
    for checksum, request, user, idem, count, text in zip(checksums, requests, by, keys, counts, bodies, strict=True):
        digest, _, key = idem.partition(" ")
        head = f"{_text(item, 'server')} {session} {at} {count} {previous} {before}\n"
        fields = f"{head}{request}\n{user}\n{key}\n{digest}\n"
        if zlib.crc32(text, zlib.crc32(fields.encode())) != int(checksum):
            raise ValueError("its checksum is wrong")
        if item["k"] is None:
            yield item
        else:
            numbers = {"session": session, "at": at, "n": count, "prev": previous}
            yield {
                **dict.fromkeys(item),
                "server": item["server"],
                **{name: {"N": str(number)} for name, number in numbers.items()},
                "req": {"S": request},
                "body": {"S": text.decode()},
            }
        session, previous, at = session + 1, at + count - 1, at + count
        before = None if before is None else before + count


def _split(body: bytes, counts: Sequence[int]) -> list[bytes]:
    """The body of each commit of a run."""
    events = body[1:-1].split(_SEPARATOR)
    if len(events) != sum(counts):
        raise ValueError(f"it has {len(events)} events, expected {sum(counts)}")
    bodies, start = [], 0
    for count in counts:
        bodies.append(b"[" + _SEPARATOR.join(events[start : start + count]) + b"]")
        start += count
    return bodies


def _body(item: Item) -> bytes:
    return _text(item, "body").encode() if item["body"] is not None else inflate_body(a2b_base64(_text(item, "z")))


def _keys(item: Item) -> list[str]:
    """Digests and idempotency keys."""
    if item["zidem"] is None:
        return _lines(item, "idem")
    return inflate_body(a2b_base64(_text(item, "zidem"))).decode().split("\n")


def _lines(item: Item, name: str) -> list[str]:
    return [] if item[name] is None else _text(item, name).split("\n")


def _text(item: Item, name: str) -> str:
    value: Any = item[name]
    (text,) = value.values()
    return str(text)
