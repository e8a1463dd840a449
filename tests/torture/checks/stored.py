"""The log as it is stored: items with checksums, decoded without the code of the product.

On DynamoDB an item holds a run of one or more commits. On SQLite it is a row with one commit.
"""

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from chalicelib.domain.log.commit import Commit
from tests.torture.checks.checker import Kind, Violation

_EVENT_SEPARATOR = ",\n"
MAX_SESSIONS = 2**40
"""Sessions per log in the `place` column of SQLite."""


class StoredItem(NamedTuple):
    """The commits of an item with their stored checksums."""

    commits: Sequence[Commit]
    checksums: Sequence[int]


def item_from_dynamodb(item: Mapping[str, Mapping[str, Any]]) -> StoredItem:
    """Decode an item in DynamoDB JSON."""
    text = zlib.decompress(base64.b64decode(item["z"]["B"])).decode() if "z" in item else item["body"]["S"]
    counts = [int(count) for count in item["ns"]["S"].split("\n")] if "k" in item else [int(item["n"]["N"])]
    requests, checksums = item["req"]["S"].split("\n"), item["crc"]["S"].split("\n")
    by = item["by"]["S"].split("\n") if "by" in item else [""] * len(counts)
    keys = _keys(item) or [""] * len(counts)
    events = text[1:-1].split(_EVENT_SEPARATOR)
    server, session, at_us = (int(item[name]["N"]) for name in ("server", "session", "at"))
    previous, before = int(item["prev"]["N"]), int(item["before"]["N"])
    commits = []
    for i, count in enumerate(counts):
        body = f"[{_EVENT_SEPARATOR.join(events[:count])}]"
        digest, _, key = keys[i].partition(" ")
        commits.append(
            Commit(server, session + i, at_us, count, previous, requests[i], body, before, by[i], key, digest)
        )
        events, at_us, previous, before = events[count:], at_us + count, at_us + count - 1, before + count
    return StoredItem(commits, [int(checksum) for checksum in checksums])


def _keys(item: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Digest and idempotency key of each commit, if any has one."""
    if "zidem" in item:
        return zlib.decompress(base64.b64decode(item["zidem"]["B"])).decode().split("\n")
    return item["idem"]["S"].split("\n") if "idem" in item else []


def item_from_sqlite(row: Sequence[Any]) -> StoredItem:
    """Decode a row: place, at, n, prev, req, body, before, by, key, digest, crc."""
    place, at_us, count, previous, request, body, before, by, key, digest, checksum = row
    server, session = divmod(place, MAX_SESSIONS)
    commit = Commit(server, session, at_us, count, previous, request, body, before, by, key, digest)
    return StoredItem([commit], [checksum])


def stored_violations(items: Iterable[StoredItem]) -> list[Violation]:
    """Checksums that are wrong, and items that contain sessions of the next one."""
    items = list(items)
    return [*_check_checksums(items), *_check_overlaps(items)]


def _check_checksums(items: Sequence[StoredItem]) -> Iterator[Violation]:
    for item in items:
        if len(item.commits) != len(item.checksums):
            yield Violation(Kind.CHECKSUM, f"{len(item.checksums)} checksums for {len(item.commits)} commits")
        for commit, stored in zip(item.commits, item.checksums, strict=False):
            if _checksum(commit) != stored:
                yield Violation(Kind.CHECKSUM, f"session {commit.session} has {stored}, not {_checksum(commit)}")


def _check_overlaps(items: Sequence[StoredItem]) -> Iterator[Violation]:
    for earlier, later in pairwise(items):
        first, last = earlier.commits[0].session, earlier.commits[-1].session
        if later.commits[0].session <= last:
            text = f"the item with sessions {first} to {last} is followed by one from {later.commits[0].session}"
            yield Violation(Kind.OVERLAP, text)


def _checksum(commit: Commit) -> int:
    numbers = (commit.server, commit.session, commit.at_us, commit.event_count, commit.previous_event_id, commit.before)
    texts = (commit.request_id, commit.by, commit.idempotency_key, commit.digest)
    return zlib.crc32("\n".join([" ".join(map(str, numbers)), *texts, commit.body]).encode())
