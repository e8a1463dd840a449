"""The port `Log` on DynamoDB."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.adapters.dynamodb.batches import MOST_KEYS, Pause, get_all
from chalicelib.adapters.dynamodb.items import (
    AT,
    ITEM,
    PREV,
    REQ,
    SERVER,
    SESSION,
    TTL,
    N,
    commit_from_item,
    commit_key,
    head_before_item,
    head_from_item,
    item_from_commit,
    item_from_receipt,
    receipt_from_item,
    receipt_key,
    record_from_item,
    record_key,
)
from chalicelib.domain.errors import Conflict, KeyTaken, SessionTaken, Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.organizations.organization import is_configuration
from chalicelib.domain.views.record import PROJECT, Checkpoint, checkpoints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chalicelib.adapters.aws.protocol import Calls
    from chalicelib.adapters.dynamodb.items import Item

# Most of our names are reserved words: in expressions every one of them stands behind a "#".
_KEY_NAMES = {"#server": SERVER, "#session": SESSION}
_OF_SERVER = "#server = :server"
_AFTER = f"{_OF_SERVER} AND #session > :session"
_BEFORE = f"{_OF_SERVER} AND #session < :session"
_SESSION_IS_FREE = "attribute_not_exists(#session)"
_KEY_IS_FREE = "attribute_not_exists(#item) OR #ttl < :now"

_REFUSED = "ConditionalCheckFailedException"
_CANCELLED = "TransactionCanceledException"
_HELD = "ConditionalCheckFailed"
_WRITABLE = "None"
_PASSING = frozenset({"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"})
"""Reasons to cancel a transaction that may be gone at the next try."""


class DynamoLog:
    """The logs of all servers in one table, their receipts in another.

    With `retention_s` DynamoDB deletes commits that are older, sooner or later and in any order.
    """

    def __init__(
        self,
        client: Calls,
        log_table: str,
        views_table: str,
        pause: Pause = time.sleep,
        retention_s: float | None = None,
    ) -> None:
        self._client = client
        self._log_table = log_table
        self._views_table = views_table
        self._pause = pause
        self._retention_s = retention_s

    def head(self, server: int) -> Head:
        """Where the log of `server` ends."""
        last = self._outermost(server, ascending=False)
        head = Head(server) if last is None else head_from_item(last)
        if self._retention_s is None:
            return head
        # The last commit may be deleted too, if nothing came for so long; the numbers go on all the same.
        return max(head, self._projected(server), key=lambda one: one.session)

    def start(self, server: int) -> Head:
        """The head before the first commit that is kept."""
        first = self._outermost(server, ascending=True)
        return Head(server) if first is None else head_before_item(first)

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        """Store all of it durably, or none and raise `SessionTaken` or `KeyTaken`.

        One commit is one PutItem; more, at most 100 of both kinds and 4 MB, are one transaction at twice the price.
        """
        writes = [_commit_write(self._log_table, commit, self._expires_s(commit)) for commit in commits]
        writes += [_receipt_write(self._views_table, receipt, now_s) for receipt in receipts]
        match writes:
            case []:
                pass
            case [write]:
                self._put(write)
            case _:
                self._transact(writes)

    def commit(self, server: int, session: int) -> Commit | None:
        """The commit with this session, if there is one."""
        found = self._item(self._log_table, commit_key(server, session))
        return None if found is None else commit_from_item(found)

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        """The commits with these sessions, in the order given, fetched page by page; missing ones are left out.

        What an eventually consistent read finds is right, for commits never change, and it costs half.
        """
        for start in range(0, len(sessions), MOST_KEYS):
            page = sessions[start : start + MOST_KEYS]
            found = self._found(server, set(page), consistent=False)
            found |= self._found(server, set(page) - found.keys(), consistent=True)
            yield from (found[session] for session in page if session in found)

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        """Commits with sessions greater than `after`, ascending, `most` at most, fetched page by page."""
        return self._commits(_AFTER, server, after, most, ascending=True)

    def read_back(self, server: int, before: int, most: int | None = None) -> Iterator[Commit]:
        """Commits with sessions smaller than `before`, descending, `most` at most, fetched page by page."""
        return self._commits(_BEFORE, server, before, most, ascending=False)

    def goes_on(self, head: Head) -> bool:
        """Tell whether there is a commit after `head`, perhaps a moment too late: half the price of any other look."""
        look = {
            "TableName": self._log_table,
            "Key": commit_key(head.server, head.session + 1),
            "ProjectionExpression": "#session",
            "ExpressionAttributeNames": {"#session": SESSION},
        }
        return "Item" in self._client.call("GetItem", look)

    def receipt(self, server: int, key: str, now_s: int) -> Receipt | None:
        """What the idempotency key was used for, unless it expired before `now_s`."""
        found = self._item(self._views_table, receipt_key(server, key))
        if found is None:
            return None
        receipt = receipt_from_item(found)
        return receipt if receipt.expires_s >= now_s else None

    def _projected(self, server: int) -> Head:
        """Where the log ended when the views were built."""
        found = self._item(self._views_table, record_key(checkpoints(server), PROJECT))
        return Checkpoint.of(server, None if found is None else record_from_item(found)).head

    def _expires_s(self, commit: Commit) -> int | None:
        """When DynamoDB may forget the commit; what says how things are configured stays."""
        if self._retention_s is None or is_configuration(commit.server):
            return None
        return commit.at // 1_000_000 + int(self._retention_s) + 1

    def _item(self, table: str, key: Item) -> Item | None:
        """The item with this key, if there is one."""
        found = self._client.call("GetItem", {"TableName": table, "Key": key, "ConsistentRead": True})
        return found.get("Item")

    def _outermost(self, server: int, ascending: bool) -> Item | None:
        """The first or the last commit without its body, if there is one."""
        query = {
            "TableName": self._log_table,
            "KeyConditionExpression": _OF_SERVER,
            "ProjectionExpression": "#server, #session, #at, #n, #prev",
            "ExpressionAttributeNames": {**_KEY_NAMES, "#at": AT, "#n": N, "#prev": PREV},
            "ExpressionAttributeValues": {":server": {"N": str(server)}},
            "ScanIndexForward": ascending,
            "Limit": 1,
            "ConsistentRead": True,
        }
        return next(iter(self._client.call("Query", query)["Items"]), None)

    def _found(self, server: int, sessions: Set[int], consistent: bool) -> dict[int, Commit]:
        keys = [commit_key(server, session) for session in sessions]
        items = get_all(self._client, self._log_table, keys, consistent, self._pause)
        return {commit.session: commit for commit in map(commit_from_item, items)}

    def _put(self, write: _Write) -> None:
        try:
            self._client.call("PutItem", write.put)
        except Refusal as refusal:
            if refusal.code != _REFUSED:
                raise
            # After a lost answer the client's own repeat meets our item: that is success.
            if not write.is_in(refusal.answer):
                raise write.taken from refusal

    def _transact(self, writes: Sequence[_Write]) -> None:
        try:
            self._client.call("TransactWriteItems", {"TransactItems": [{"Put": write.put} for write in writes]})
        except Refusal as refusal:
            if refusal.code != _CANCELLED:
                raise
            missing = _missing(writes, refusal)
        else:
            return
        if missing:
            self._transact(missing)

    def _commits(
        self, condition: str, server: int, session: int, most: int | None, *, ascending: bool
    ) -> Iterator[Commit]:
        query: dict[str, Any] = {
            "TableName": self._log_table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": _KEY_NAMES,
            "ExpressionAttributeValues": {":server": {"N": str(server)}, ":session": {"N": str(session)}},
            "ScanIndexForward": ascending,
            "ConsistentRead": True,
        }
        left = most
        while left is None or left > 0:
            if left is not None:
                query["Limit"] = left
            page = self._client.call("Query", query)
            yield from map(commit_from_item, page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]
            left = None if left is None else left - len(page["Items"])


@dataclass(frozen=True, slots=True)
class _Write:
    """A conditional put, whose it is, and what to raise if its place is another's."""

    put: dict[str, Any]
    request_id: str
    taken: Conflict

    def is_in(self, reason: Mapping[str, Any]) -> bool:
        """Tell whether the item that failed the condition is the one that this write, sent before, has made."""
        held = reason.get("Item", {})
        return REQ in held and held[REQ]["S"] == self.request_id


def _commit_write(table: str, commit: Commit, expires_s: int | None) -> _Write:
    put: dict[str, Any] = {
        "TableName": table,
        "Item": item_from_commit(commit, expires_s),
        "ConditionExpression": _SESSION_IS_FREE,
        "ExpressionAttributeNames": {"#session": SESSION},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    return _Write(put, commit.request_id, SessionTaken(commit.server, commit.session))


def _receipt_write(table: str, receipt: Receipt, now_s: int) -> _Write:
    put: dict[str, Any] = {
        "TableName": table,
        "Item": item_from_receipt(receipt),
        "ConditionExpression": _KEY_IS_FREE,
        "ExpressionAttributeNames": {"#item": ITEM, "#ttl": TTL},
        "ExpressionAttributeValues": {":now": {"N": str(now_s)}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    return _Write(put, receipt.request_id, KeyTaken(receipt.server, receipt.key))


def _missing(writes: Sequence[_Write], refusal: Refusal) -> list[_Write]:
    """The writes that remain, none if all were there already, ours; raises if a place is taken or nothing is known.

    A repeated call finds all it wrote. Only if it carries more than the call before does anything remain.
    """
    reasons: list[dict[str, Any]] = refusal.answer["CancellationReasons"]
    for write, reason in zip(writes, reasons, strict=True):
        if reason["Code"] == _HELD and not write.is_in(reason):
            raise write.taken from refusal
    codes = {reason["Code"] for reason in reasons} - {_WRITABLE}
    if codes - {_HELD} and codes <= _PASSING | {_HELD}:
        raise Unavailable(f"DynamoDB cancelled the transaction: {refusal}") from refusal
    if codes != {_HELD}:
        raise refusal
    return [write for write, reason in zip(writes, reasons, strict=True) if reason["Code"] == _WRITABLE]
