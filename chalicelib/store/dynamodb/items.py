"""Items as they are stored, and what they mean. Short names: every byte of them is paid with every item."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from chalicelib.domain.appends import Receipt
from chalicelib.domain.commits import Commit
from chalicelib.domain.heads import Head
from chalicelib.store.dynamodb.capacity import WRITE_UNIT_BYTES, item_size, write_units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

    Item = dict[str, AttributeValueTypeDef]
    """An item as the low-level client takes and gives it: each value with its type, numbers as text."""

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
"""B: `body` deflated, in its place when that saves a write unit."""

# Of a receipt, in the table of views.
VIEW = "view"
"""S, hash key: which view; `<server>/receipt` for receipts."""
ITEM = "item"
"""S, sort key: which item of the view; of a receipt its idempotency key."""
DIGEST = "digest"
"""S: equal for equal requests."""

# Of both.
TTL = "ttl"
"""N: seconds since 1970, when DynamoDB may forget the item; it does so up to two days late."""

_RECEIPTS = "/receipt"


def item_from_commit(commit: Commit) -> Item:
    """The item that keeps `commit`, deflated if that makes it cheaper to write."""
    item: Item = {
        SERVER: {"N": str(commit.server)},
        SESSION: {"N": str(commit.session)},
        AT: {"N": str(commit.at)},
        N: {"N": str(commit.n)},
        PREV: {"N": str(commit.prev)},
        REQ: {"S": commit.request_id},
    }
    return _cheapest(item, commit.body)


def commit_from_item(item: Mapping[str, AttributeValueTypeDef]) -> Commit:
    """The commit that `item` keeps."""
    return Commit(
        server=int(item[SERVER]["N"]),
        session=int(item[SESSION]["N"]),
        at=int(item[AT]["N"]),
        n=int(item[N]["N"]),
        prev=int(item[PREV]["N"]),
        request_id=item[REQ]["S"],
        body=zlib.decompress(item[Z]["B"]).decode() if Z in item else item[BODY]["S"],
    )


def head_from_item(item: Mapping[str, AttributeValueTypeDef]) -> Head:
    """Where the log ends if `item` keeps its last commit; needs no body."""
    at, n = int(item[AT]["N"]), int(item[N]["N"])
    return Head(int(item[SERVER]["N"]), int(item[SESSION]["N"]), n, at + n - 1)


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


def receipt_from_item(item: Mapping[str, AttributeValueTypeDef]) -> Receipt:
    """The receipt that `item` keeps."""
    return Receipt(
        server=int(item[VIEW]["S"].removesuffix(_RECEIPTS)),
        key=item[ITEM]["S"],
        digest=item[DIGEST]["S"],
        session=int(item[SESSION]["N"]),
        request_id=item[REQ]["S"],
        expires_s=int(item[TTL]["N"]),
    )


def _cheapest(item: Item, body: str) -> Item:
    """`item` with `body`, as text unless deflating it saves a write unit: text can be read in the console."""
    plain: Item = {**item, BODY: {"S": body}}
    plain_bytes = item_size(plain)
    if plain_bytes <= WRITE_UNIT_BYTES:
        return plain
    deflated: Item = {**item, Z: {"B": zlib.compress(body.encode())}}
    return deflated if write_units(item_size(deflated)) < write_units(plain_bytes) else plain
