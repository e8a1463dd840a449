"""Stored items and their attributes. The names are short because DynamoDB charges for them in each item."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from itertools import islice
from typing import TYPE_CHECKING

from chalicelib.adapters.dynamodb.capacity import WRITE_UNIT_BYTES, item_size, write_units
from chalicelib.domain.errors import DamagedRecord, LogBroken
from chalicelib.domain.events.body import join_body, split_body
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Item = dict[str, dict[str, str]]
    """An item in DynamoDB JSON: each value with its type, numbers as text, binary as base64."""

# Attributes of a commit, in the log table. An item may hold a run of several commits with consecutive sessions and
# EventIds. In such an item, lists are texts with one entry per commit and line.
SERVER = "server"
"""N, hash key: number of the log. Each organization has one."""
SESSION = "session"
"""N, sort key: 1, 2, 3 … Of a run, the first session. So two writers that know the same head put the same key."""
AT = "at"
"""N: EventId of the first event. Event i, counted from 0, has `at + i`."""
N = "n"
"""N: number of events. In a run, of all its commits."""
PREV = "prev"
"""N: EventId of the last event of the previous session. 0 for session 1."""
REQ = "req"
"""S: id of the request that wrote the item, so that a writer recognizes its own item after a lost response. List."""
BEFORE = "before"
"""N: number of events in the log before the item. Absent: written by version 0.1.0."""
BY = "by"
"""S: subject of the token that published it. Absent if unknown. List."""
IDEM = "idem"
"""S: digest of the request and its idempotency key. Absent without a key. List, with empty lines."""
ZIDEM = "zidem"
"""B: the deflated `idem`, stored instead of it in a run where that takes less."""
CRC = "crc"
"""S: CRC-32 of the commit, see `Commit.checksum`. Absent: written by version 0.1.0. List."""
K = "k"
"""N: number of commits in a run. Absent if it is one."""
NS = "ns"
"""S: number of events of each commit in a run. List."""
BODY = "body"
"""S: the events as a JSON array."""
Z = "z"
"""B: the deflated `body`, stored instead of it when that saves a write unit. In a record: the deflated `data`."""

# Attributes of a record, in the views table.
VIEW = "view"
"""S, hash key: server, generation and name of the view. `<server>/receipt` for receipts."""
ITEM = "item"
"""S, sort key: item of the view. In a receipt: the idempotency key."""
TO = "to"
"""N: the session up to which the record is folded. It is the version for optimistic locking."""
DATA = "data"
"""S: content of the record as JSON."""

PARTS = "parts"
"""N: number of items that contain the data, because it does not fit in one. See `large_records.py`."""
RECORD_CRC = "crc"
"""N: CRC-32 of the record, of its text and not of `z`. Version 0.1.0 stored none."""

# Attributes of commits and records.
TTL = "ttl"
"""N: expiry in seconds since 1970. DynamoDB deletes the item up to two days later."""

MAX_INFLATED_BYTES = 256 * 1024 * 1024
"""Far more than Annals stores in an item. Protects against items that inflate without end."""


def commit_key(server: int, session: int) -> Item:
    return {SERVER: {"N": str(server)}, SESSION: {"N": str(session)}}


def item_from_commit(commit: Commit, expires_s: int | None = None) -> Item:
    """The item of a single commit."""
    return item_from_commits([commit], expires_s)


def item_from_commits(commits: Sequence[Commit], expires_s: int | None = None) -> Item:
    """The item of a commit, or of a run of commits that follow each other without a pause.

    It is deflated if that makes it cheaper to write. It does not expire without `expires_s`.
    """
    first = commits[0]
    item: Item = {
        **commit_key(first.server, first.session),
        AT: {"N": str(first.at_us)},
        N: {"N": str(sum(commit.event_count for commit in commits))},
        PREV: {"N": str(first.previous_event_id)},
        REQ: {"S": _join(commit.request_id for commit in commits)},
        CRC: {"S": _join(str(commit.checksum) for commit in commits)},
    }
    if first.before is not None:
        item[BEFORE] = {"N": str(first.before)}
    if any(commit.by for commit in commits):
        item[BY] = {"S": _join(commit.by for commit in commits)}
    if any(commit.idempotency_key for commit in commits):
        item |= _keys_attribute(list(map(_digest_and_key, commits)))
    if len(commits) > 1:
        item[K] = {"N": str(len(commits))}
        item[NS] = {"S": _join(str(commit.event_count) for commit in commits)}
    if expires_s is not None:
        item[TTL] = {"N": str(expires_s)}
    body = first.body if len(commits) == 1 else join_body(text for commit in commits for text in commit.texts)
    return _with_text(item, BODY, body)


def commits_from_item(item: Item) -> list[Commit]:
    """The commits in an item, in order. Raises `LogBroken` if one does not have its checksum."""
    body = _read_text(item, BODY)
    counts = [int(item[N]["N"])] if K not in item else list(map(int, item[NS]["S"].split("\n")))
    bodies = [body] if K not in item else _split_run(body, counts)
    entries = len(counts)
    requests, by = item[REQ]["S"].split("\n"), _lines(item, BY, entries)
    keys = _inflate_text(item[ZIDEM]["B"]).split("\n") if ZIDEM in item else _lines(item, IDEM, entries)
    checksums = _lines(item, CRC, entries)
    if not len(requests) == len(by) == len(keys) == len(checksums) == len(bodies) == entries:
        raise LogBroken(f"session {item[SESSION]['N']} of server {item[SERVER]['N']} has lists of different lengths")
    server, session, at_us = int(item[SERVER]["N"]), int(item[SESSION]["N"]), int(item[AT]["N"])
    previous, before = int(item[PREV]["N"]), int(item[BEFORE]["N"]) if BEFORE in item else None
    commits = []
    for i, count in enumerate(counts):
        digest, _, key = keys[i].partition(" ")
        commit = Commit(server, session, at_us, count, previous, requests[i], bodies[i], before, by[i], key, digest)
        commits.append(commit.verify(int(checksums[i])) if checksums[i] else commit)
        session, at_us, previous = session + 1, at_us + count, at_us + count - 1
        before = None if before is None else before + count
    return commits


def head_from_item(item: Item) -> Head:
    """The head of the log if `item` is its last one. Needs no body."""
    at, n = int(item[AT]["N"]), int(item[N]["N"])
    last_count = int(item[NS]["S"].rpartition("\n")[2]) if K in item else n
    position = int(item[BEFORE]["N"]) + n if BEFORE in item else None
    return Head(int(item[SERVER]["N"]), last_session(item), last_count, at + n - 1, position)


def last_session(item: Item) -> int:
    return int(item[SESSION]["N"]) + (int(item[K]["N"]) if K in item else 1) - 1


def head_before_item(item: Item) -> Head:
    """The head of the log before the commits in `item`. The size of the previous commit is unknown, so it is 0."""
    position = int(item[BEFORE]["N"]) if BEFORE in item else None
    return Head(int(item[SERVER]["N"]), int(item[SESSION]["N"]) - 1, 0, int(item[PREV]["N"]), position)


def _digest_and_key(commit: Commit) -> str:
    return f"{commit.digest} {commit.idempotency_key}" if commit.idempotency_key else ""


def _keys_attribute(lines: Sequence[str]) -> Item:
    """Digests and UUIDs of version 7 deflate to half, if there are several."""
    keys = _join(lines)
    deflated = _deflate_text(keys)
    is_shorter = len(lines) > 1 and len(b64decode(deflated)) < len(keys)
    return {ZIDEM: {"B": deflated}} if is_shorter else {IDEM: {"S": keys}}


def _join(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _lines(item: Item, name: str, count: int) -> list[str]:
    return item[name]["S"].split("\n") if name in item else [""] * count


def _split_run(body: str, counts: Sequence[int]) -> list[str]:
    """The body of each commit in a run."""
    texts = iter(split_body(body))
    bodies = [join_body(islice(texts, count)) for count in counts]
    if next(texts, None) is not None:
        raise LogBroken(f"a run of {len(counts)} commits has more than {sum(counts)} events")
    return bodies


def record_key(view: str, item: str) -> Item:
    return {VIEW: {"S": view}, ITEM: {"S": item}}


def item_from_record(record: Record, expires_s: int | None = None) -> Item:
    """The item of `record`, deflated if that makes it cheaper to write. It does not expire without `expires_s`."""
    item: Item = {
        **record_key(record.view, record.item),
        TO: {"N": str(record.version)},
        RECORD_CRC: {"N": str(record.checksum)},
    }
    if expires_s is not None:
        item[TTL] = {"N": str(expires_s)}
    return _with_text(item, DATA, record.data)


def record_from_item(item: Item) -> Record:
    """Raises `DamagedRecord` if the checksum is wrong."""
    view, name, version = item[VIEW]["S"], item[ITEM]["S"], int(item[TO]["N"])
    try:
        record = Record(view, name, version, _read_text(item, DATA))
    except (LogBroken, ValueError) as error:
        raise DamagedRecord(view, name, version) from error
    return record.verify(int(item[RECORD_CRC]["N"])) if RECORD_CRC in item else record


def _with_text(item: Item, name: str, text: str) -> Item:
    """Add `text` to `item`. It stays readable in the AWS console unless deflating it saves a write unit."""
    plain: Item = {**item, name: {"S": text}}
    plain_bytes = item_size(plain)
    if plain_bytes <= WRITE_UNIT_BYTES:
        return plain
    deflated: Item = {**item, Z: {"B": _deflate_text(text)}}
    return deflated if write_units(item_size(deflated)) < write_units(plain_bytes) else plain


def _read_text(item: Item, name: str) -> str:
    """The text that `_with_text` added."""
    return _inflate_text(item[Z]["B"]) if Z in item else item[name]["S"]


def _deflate_text(text: str) -> str:
    return b64encode(zlib.compress(text.encode())).decode()


def _inflate_text(base64: str) -> str:
    return _inflate(b64decode(base64)).decode()


def _inflate(deflated: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(deflated, MAX_INFLATED_BYTES)
    except zlib.error as failure:
        raise LogBroken(f"an item cannot be inflated: {failure}") from failure
    if not decompressor.eof:
        raise LogBroken(f"an item is truncated, or inflates to more than {MAX_INFLATED_BYTES} bytes")
    return text
