"""The log on DynamoDB."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.dynamodb.batches import MAX_BATCH_KEYS, Sleep, get_items
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
from chalicelib.domain.organizations.organization import is_configuration_log
from chalicelib.domain.views.record import PROJECTOR, Checkpoint, checkpoints_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.items import Item

# Most attribute names are reserved words, so expressions use placeholders with a "#".
_KEY_NAMES = {"#server": SERVER, "#session": SESSION}
_SERVER_MATCHES = "#server = :server"
_AFTER = f"{_SERVER_MATCHES} AND #session > :session"
_BEFORE = f"{_SERVER_MATCHES} AND #session < :session"
_SESSION_IS_FREE = "attribute_not_exists(#session)"
_KEY_IS_FREE = "attribute_not_exists(#item) OR #ttl < :now"

# Error codes of calls.
_CONDITION_FAILED = "ConditionalCheckFailedException"
_TRANSACTION_CANCELLED = "TransactionCanceledException"

# Reasons why a write of a cancelled transaction failed.
_REASON_CONDITION = "ConditionalCheckFailed"
_REASON_NONE = "None"
_RETRYABLE_REASONS = frozenset({"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"})


class DynamoLog:
    """Implements `Log` with all commits in one table and all receipts in another. Thread-safe.

    With `retention_s` DynamoDB deletes older commits, at any later time and in any order.
    """

    def __init__(
        self,
        client: ServiceClient,
        log_table: str,
        views_table: str,
        sleep: Sleep = time.sleep,
        retention_s: float | None = None,
    ) -> None:
        self._client = client
        self._log_table = log_table
        self._views_table = views_table
        self._sleep = sleep
        self._retention_s = retention_s

    def head(self, server: int) -> Head:
        last = self._first_or_last(server, ascending=False)
        head = Head(server) if last is None else head_from_item(last)
        if self._retention_s is None:
            return head
        # Retention may have deleted the last commit too. New sessions must not reuse its number.
        return max(head, self._projected_head(server), key=lambda candidate: candidate.session)

    def start(self, server: int) -> Head:
        first = self._first_or_last(server, ascending=True)
        return Head(server) if first is None else head_before_item(first)

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        """One commit is a PutItem. More are a transaction of at most 100 items and 4 MB, at twice the price."""
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
        item = self._item(self._log_table, commit_key(server, session))
        return None if item is None else commit_from_item(item)

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        # Commits never change, so an eventually consistent read is correct where it finds one. It costs half.
        for start in range(0, len(sessions), MAX_BATCH_KEYS):
            page = sessions[start : start + MAX_BATCH_KEYS]
            commits = self._get_commits(server, set(page), consistent=False)
            commits |= self._get_commits(server, set(page) - commits.keys(), consistent=True)
            yield from (commits[session] for session in page if session in commits)

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        return self._query_commits(_AFTER, server, after, limit, ascending=True)

    def read_backwards(self, server: int, before: int, limit: int | None = None) -> Iterator[Commit]:
        return self._query_commits(_BEFORE, server, before, limit, ascending=False)

    def has_newer_commit(self, head: Head) -> bool:
        """Whether there is a commit after `head`. Eventually consistent, so it costs half of the other reads."""
        request = {
            "TableName": self._log_table,
            "Key": commit_key(head.server, head.session + 1),
            "ProjectionExpression": "#session",
            "ExpressionAttributeNames": {"#session": SESSION},
        }
        return "Item" in self._client.call("GetItem", request)

    def receipt(self, server: int, key: str, now_s: int) -> Receipt | None:
        item = self._item(self._views_table, receipt_key(server, key))
        if item is None:
            return None
        receipt = receipt_from_item(item)
        return receipt if receipt.expires_s >= now_s else None

    def _projected_head(self, server: int) -> Head:
        """The head up to which the views are built."""
        item = self._item(self._views_table, record_key(checkpoints_view(server), PROJECTOR))
        return Checkpoint.from_record(server, None if item is None else record_from_item(item)).head

    def _expires_s(self, commit: Commit) -> int | None:
        """When DynamoDB may delete the commit. Configuration logs never expire."""
        if self._retention_s is None or is_configuration_log(commit.server):
            return None
        return commit.at_us // 1_000_000 + int(self._retention_s) + 1

    def _item(self, table: str, key: Item) -> Item | None:
        response = self._client.call("GetItem", {"TableName": table, "Key": key, "ConsistentRead": True})
        return response.get("Item")

    def _first_or_last(self, server: int, ascending: bool) -> Item | None:
        """The first or last commit, without its body."""
        query = {
            "TableName": self._log_table,
            "KeyConditionExpression": _SERVER_MATCHES,
            "ProjectionExpression": "#server, #session, #at, #n, #prev",
            "ExpressionAttributeNames": {**_KEY_NAMES, "#at": AT, "#n": N, "#prev": PREV},
            "ExpressionAttributeValues": {":server": {"N": str(server)}},
            "ScanIndexForward": ascending,
            "Limit": 1,
            "ConsistentRead": True,
        }
        return next(iter(self._client.call("Query", query)["Items"]), None)

    def _get_commits(self, server: int, sessions: Set[int], consistent: bool) -> dict[int, Commit]:
        keys = [commit_key(server, session) for session in sessions]
        items = get_items(self._client, self._log_table, keys, consistent, self._sleep)
        return {commit.session: commit for commit in map(commit_from_item, items)}

    def _put(self, write: _Write) -> None:
        try:
            self._client.call("PutItem", write.put)
        except ServiceError as error:
            if error.code != _CONDITION_FAILED:
                raise
            # A retry after a lost response finds our own item: that is success.
            if not write.matches_stored(error.response):
                raise write.conflict from error

    def _transact(self, writes: Sequence[_Write]) -> None:
        try:
            self._client.call("TransactWriteItems", {"TransactItems": [{"Put": write.put} for write in writes]})
        except ServiceError as error:
            if error.code != _TRANSACTION_CANCELLED:
                raise
            remaining = _remaining_writes(writes, error)
        else:
            return
        if remaining:
            self._transact(remaining)

    def _query_commits(
        self, condition: str, server: int, session: int, limit: int | None, *, ascending: bool
    ) -> Iterator[Commit]:
        query: dict[str, Any] = {
            "TableName": self._log_table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": _KEY_NAMES,
            "ExpressionAttributeValues": {":server": {"N": str(server)}, ":session": {"N": str(session)}},
            "ScanIndexForward": ascending,
            "ConsistentRead": True,
        }
        remaining = limit
        while remaining is None or remaining > 0:
            if remaining is not None:
                query["Limit"] = remaining
            page = self._client.call("Query", query)
            yield from map(commit_from_item, page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]
            remaining = None if remaining is None else remaining - len(page["Items"])


@dataclass(frozen=True, slots=True)
class _Write:
    """A conditional put, and the exception to raise if another request has written its key."""

    put: dict[str, Any]
    request_id: str
    conflict: Conflict

    def matches_stored(self, reason: Mapping[str, Any]) -> bool:
        """Whether the item that failed the condition was stored by an earlier attempt of this write."""
        stored = reason.get("Item", {})
        return REQ in stored and stored[REQ]["S"] == self.request_id


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


def _remaining_writes(writes: Sequence[_Write], error: ServiceError) -> list[_Write]:
    """The writes of a cancelled transaction that an earlier attempt has not stored yet.

    A retry of the same transaction finds all its items, so none remain. Some remain only if it contains more writes
    than the earlier attempt. Raises the conflict if another request has written a key, else `error` or `Unavailable`.
    """
    reasons: list[dict[str, Any]] = error.response["CancellationReasons"]
    for write, reason in zip(writes, reasons, strict=True):
        if reason["Code"] == _REASON_CONDITION and not write.matches_stored(reason):
            raise write.conflict from error
    codes = {reason["Code"] for reason in reasons} - {_REASON_NONE}
    if codes - {_REASON_CONDITION} and codes <= _RETRYABLE_REASONS | {_REASON_CONDITION}:
        raise Unavailable(f"DynamoDB cancelled the transaction: {error}") from error
    if codes != {_REASON_CONDITION}:
        raise error
    return [write for write, reason in zip(writes, reasons, strict=True) if reason["Code"] == _REASON_NONE]
