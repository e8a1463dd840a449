"""Stored items and their attributes. The names are short because DynamoDB charges for them in each item."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from chalicelib.adapters.dynamodb.capacity import WRITE_UNIT_BYTES, item_size, write_units
from chalicelib.domain.errors import DamagedRecord, LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import Record

if TYPE_CHECKING:
    Item = dict[str, dict[str, str]]
    """An item in DynamoDB JSON: each value with its type, numbers as text, binary as base64."""

# Attributes of a commit, in the log table.
SERVER = "server"
"""N, hash key: number of the log. Each organization has one."""
SESSION = "session"
"""N, sort key: 1, 2, 3 … without gaps. In a receipt: session of the commit that the request wrote."""
AT = "at"
"""N: EventId of the first event. Event i, counted from 0, has `at + i`."""
N = "n"
"""N: number of events."""
PREV = "prev"
"""N: EventId of the last event of the previous session. 0 for session 1."""
REQ = "req"
"""S: id of the request that wrote the item, so that a writer recognizes its own item after a lost response."""
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

CRC = "crc"
"""N: CRC-32 of the record, of its text and not of `z`. Version 0.1.0 stored none."""

# Attributes of a receipt, in the views table.
DIGEST = "digest"
"""S: digest of the request."""

# Attributes of commits, receipts and records.
TTL = "ttl"
"""N: expiry in seconds since 1970. DynamoDB deletes the item up to two days later."""

MAX_INFLATED_BYTES = 16 * 1024 * 1024
"""Far more than Annals stores in an item. Protects against items that inflate without end."""

_RECEIPTS_SUFFIX = "/receipt"


def commit_key(server: int, session: int) -> Item:
    return {SERVER: {"N": str(server)}, SESSION: {"N": str(session)}}


def item_from_commit(commit: Commit, expires_s: int | None = None) -> Item:
    """The item of `commit`, deflated if that makes it cheaper to write. It does not expire without `expires_s`."""
    item: Item = {
        **commit_key(commit.server, commit.session),
        AT: {"N": str(commit.at_us)},
        N: {"N": str(commit.event_count)},
        PREV: {"N": str(commit.previous_event_id)},
        REQ: {"S": commit.request_id},
    }
    if expires_s is not None:
        item[TTL] = {"N": str(expires_s)}
    return _with_text(item, BODY, commit.body)


def commit_from_item(item: Item) -> Commit:
    return Commit(
        server=int(item[SERVER]["N"]),
        session=int(item[SESSION]["N"]),
        at_us=int(item[AT]["N"]),
        event_count=int(item[N]["N"]),
        previous_event_id=int(item[PREV]["N"]),
        request_id=item[REQ]["S"],
        body=_read_text(item, BODY),
    )


def head_from_item(item: Item) -> Head:
    """The head of the log if `item` is its last commit. Needs no body."""
    at, n = int(item[AT]["N"]), int(item[N]["N"])
    return Head(int(item[SERVER]["N"]), int(item[SESSION]["N"]), n, at + n - 1)


def head_before_item(item: Item) -> Head:
    """The head of the log before the commit in `item`. The size of the previous commit is unknown, so it is 0."""
    return Head(int(item[SERVER]["N"]), int(item[SESSION]["N"]) - 1, 0, int(item[PREV]["N"]))


def receipt_key(server: int, key: str) -> Item:
    return {VIEW: {"S": f"{server}{_RECEIPTS_SUFFIX}"}, ITEM: {"S": key}}


def item_from_receipt(receipt: Receipt) -> Item:
    return {
        **receipt_key(receipt.server, receipt.key),
        DIGEST: {"S": receipt.digest},
        SESSION: {"N": str(receipt.session)},
        REQ: {"S": receipt.request_id},
        TTL: {"N": str(receipt.expires_s)},
    }


def receipt_from_item(item: Item) -> Receipt:
    return Receipt(
        server=int(item[VIEW]["S"].removesuffix(_RECEIPTS_SUFFIX)),
        key=item[ITEM]["S"],
        digest=item[DIGEST]["S"],
        session=int(item[SESSION]["N"]),
        request_id=item[REQ]["S"],
        expires_s=int(item[TTL]["N"]),
    )


def record_key(view: str, item: str) -> Item:
    return {VIEW: {"S": view}, ITEM: {"S": item}}


def item_from_record(record: Record, expires_s: int | None = None) -> Item:
    """The item of `record`, deflated if that makes it cheaper to write. It does not expire without `expires_s`."""
    item: Item = {
        **record_key(record.view, record.item),
        TO: {"N": str(record.version)},
        CRC: {"N": str(record.checksum)},
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
    return record.verify(int(item[CRC]["N"])) if CRC in item else record


def _with_text(item: Item, name: str, text: str) -> Item:
    """Add `text` to `item`. It stays readable in the AWS console unless deflating it saves a write unit."""
    plain: Item = {**item, name: {"S": text}}
    plain_bytes = item_size(plain)
    if plain_bytes <= WRITE_UNIT_BYTES:
        return plain
    deflated: Item = {**item, Z: {"B": b64encode(zlib.compress(text.encode())).decode()}}
    return deflated if write_units(item_size(deflated)) < write_units(plain_bytes) else plain


def _read_text(item: Item, name: str) -> str:
    """The text that `_with_text` added."""
    return _inflate(b64decode(item[Z]["B"])).decode() if Z in item else item[name]["S"]


def _inflate(deflated: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(deflated, MAX_INFLATED_BYTES)
    except zlib.error as failure:
        raise LogBroken(f"an item cannot be inflated: {failure}") from failure
    if not decompressor.eof:
        raise LogBroken(f"an item is truncated, or inflates to more than {MAX_INFLATED_BYTES} bytes")
    return text
