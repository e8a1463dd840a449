"""Items as they are stored, and what they mean. Short names: every byte of them is paid with every item."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from chalicelib.adapters.dynamodb.capacity import WRITE_UNIT_BYTES, item_size, write_units
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import Record

if TYPE_CHECKING:
    Item = dict[str, dict[str, str]]
    """An item as it goes over the wire: each value with its type, numbers as text, binary as base64."""

# Of a commit, in the table of the log.
SERVER = "server"
"""N, hash key: the log, one per organization."""
SESSION = "session"
"""N, sort key: 1, 2, 3 … with no gaps. In a receipt: the commit that answered."""
AT = "at"
"""N: EventId of the first event; the i-th, from 0, has `at + i`."""
N = "n"
"""N: how many events."""
PREV = "prev"
"""N: EventId of the last event of the session before; 0 for session 1."""
REQ = "req"
"""S: id of the request that wrote it, so that a writer knows its own item after a lost answer."""
BODY = "body"
"""S: the events, a JSON array."""
Z = "z"
"""B: `body` deflated, in its place when that saves a write unit. In a record: `data`."""

# Of a record, in the table of views.
VIEW = "view"
"""S, hash key: which view of which server and generation; `<server>/receipt` for receipts."""
ITEM = "item"
"""S, sort key: which item of the view; of a receipt its idempotency key."""
TO = "to"
"""N: the session up to which it is folded; a write is refused if this is no longer what the writer read."""
DATA = "data"
"""S: what the record says, JSON."""

# Of a receipt, in the same table.
DIGEST = "digest"
"""S: equal for equal requests."""

# Of commits and receipts.
TTL = "ttl"
"""N: seconds since 1970, when DynamoDB may forget the item; it does so up to two days late."""

MOST_INFLATED_BYTES = 16 * 1024 * 1024
"""Far more than is ever put there. A few bytes can inflate to very many, but then the item is none of ours."""

_RECEIPTS = "/receipt"


def commit_key(server: int, session: int) -> Item:
    """The primary key of a commit."""
    return {SERVER: {"N": str(server)}, SESSION: {"N": str(session)}}


def item_from_commit(commit: Commit, expires_s: int | None = None) -> Item:
    """The item that keeps `commit`, deflated if that makes it cheaper to write; for ever if nothing is said."""
    item: Item = {
        **commit_key(commit.server, commit.session),
        AT: {"N": str(commit.at)},
        N: {"N": str(commit.n)},
        PREV: {"N": str(commit.prev)},
        REQ: {"S": commit.request_id},
    }
    if expires_s is not None:
        item[TTL] = {"N": str(expires_s)}
    return _cheapest(item, BODY, commit.body)


def commit_from_item(item: Item) -> Commit:
    """The commit that `item` keeps."""
    return Commit(
        server=int(item[SERVER]["N"]),
        session=int(item[SESSION]["N"]),
        at=int(item[AT]["N"]),
        n=int(item[N]["N"]),
        prev=int(item[PREV]["N"]),
        request_id=item[REQ]["S"],
        body=_text(item, BODY),
    )


def head_from_item(item: Item) -> Head:
    """Where the log ends if `item` keeps its last commit; needs no body."""
    at, n = int(item[AT]["N"]), int(item[N]["N"])
    return Head(int(item[SERVER]["N"]), int(item[SESSION]["N"]), n, at + n - 1)


def head_before_item(item: Item) -> Head:
    """Where the log ended before the commit that `item` keeps; how many events the last one had is not known."""
    return Head(int(item[SERVER]["N"]), int(item[SESSION]["N"]) - 1, 0, int(item[PREV]["N"]))


def receipt_key(server: int, key: str) -> Item:
    """The primary key of the receipt for this idempotency key."""
    return {VIEW: {"S": f"{server}{_RECEIPTS}"}, ITEM: {"S": key}}


def item_from_receipt(receipt: Receipt) -> Item:
    """The item that keeps `receipt`."""
    return {
        **receipt_key(receipt.server, receipt.key),
        DIGEST: {"S": receipt.digest},
        SESSION: {"N": str(receipt.session)},
        REQ: {"S": receipt.request_id},
        TTL: {"N": str(receipt.expires_s)},
    }


def receipt_from_item(item: Item) -> Receipt:
    """The receipt that `item` keeps."""
    return Receipt(
        server=int(item[VIEW]["S"].removesuffix(_RECEIPTS)),
        key=item[ITEM]["S"],
        digest=item[DIGEST]["S"],
        session=int(item[SESSION]["N"]),
        request_id=item[REQ]["S"],
        expires_s=int(item[TTL]["N"]),
    )


def record_key(view: str, item: str) -> Item:
    """The primary key of a view's item."""
    return {VIEW: {"S": view}, ITEM: {"S": item}}


def item_from_record(record: Record) -> Item:
    """The item that keeps `record`, deflated if that makes it cheaper to write."""
    return _cheapest({**record_key(record.view, record.item), TO: {"N": str(record.to)}}, DATA, record.data)


def record_from_item(item: Item) -> Record:
    """The record that `item` keeps."""
    return Record(item[VIEW]["S"], item[ITEM]["S"], int(item[TO]["N"]), _text(item, DATA))


def _cheapest(item: Item, name: str, text: str) -> Item:
    """`item` with `text`, plain unless deflating it saves a write unit: what is plain can be read in the console."""
    plain: Item = {**item, name: {"S": text}}
    plain_bytes = item_size(plain)
    if plain_bytes <= WRITE_UNIT_BYTES:
        return plain
    deflated: Item = {**item, Z: {"B": b64encode(zlib.compress(text.encode())).decode()}}
    return deflated if write_units(item_size(deflated)) < write_units(plain_bytes) else plain


def _text(item: Item, name: str) -> str:
    """What `_cheapest` put there."""
    return _inflated(b64decode(item[Z]["B"])).decode() if Z in item else item[name]["S"]


def _inflated(deflated: bytes) -> bytes:
    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(deflated, MOST_INFLATED_BYTES)
    except zlib.error as failure:
        raise LogBroken(f"an item cannot be inflated: {failure}") from failure
    if not inflate.eof:
        raise LogBroken(f"an item is cut off, or inflates to more than {MOST_INFLATED_BYTES} bytes")
    return text
