"""The log on DynamoDB."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence, Set
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.dynamodb.batches import MAX_BATCH_KEYS, Sleep, get_items
from chalicelib.adapters.dynamodb.capacity import MAX_ITEM_BYTES, item_size
from chalicelib.adapters.dynamodb.items import (
    AT,
    BEFORE,
    NS,
    PREV,
    REQ,
    SERVER,
    SESSION,
    K,
    N,
    commit_key,
    commits_from_item,
    head_before_item,
    head_from_item,
    item_from_commits,
    record_from_item,
    record_key,
)
from chalicelib.domain.errors import SessionTaken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.organizations.organization import is_configuration_log
from chalicelib.domain.views.record import PROJECTOR, Checkpoint, checkpoints_view

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.items import Item

# Most attribute names are reserved words, so expressions use placeholders with a "#".
_KEY_NAMES = {"#server": SERVER, "#session": SESSION}
_HEAD_NAMES = {**_KEY_NAMES, "#at": AT, "#n": N, "#prev": PREV, "#before": BEFORE, "#k": K, "#ns": NS}
_SERVER_MATCHES = "#server = :server"
_AFTER = f"{_SERVER_MATCHES} AND #session > :session"
_BEFORE = f"{_SERVER_MATCHES} AND #session < :session"
_UP_TO = f"{_SERVER_MATCHES} AND #session <= :session"
_SESSION_IS_FREE = "attribute_not_exists(#session)"
_CONDITION_FAILED = "ConditionalCheckFailedException"


class DynamoLog:
    """Implements `Log` with all commits in one table. Thread-safe.

    An item holds one commit or a run of several. Its key is the first session, so the key of the next item is always
    `session + 1` of its last commit. With `retention_s` DynamoDB deletes older items, at any later time and in any
    order.
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
        self._item_ends: dict[int, int] = {}
        """By server, the last session of the item that was read or written last. A lost update only costs a read."""

    def head(self, server: int) -> Head:
        last = self._first_or_last(server, ascending=False)
        head = Head(server) if last is None else head_from_item(last)
        self._item_ends[server] = head.session
        if self._retention_s is None:
            return head
        # Retention may have deleted the last commit too. New sessions must not reuse its number.
        return max(head, self._projected_head(server), key=lambda candidate: candidate.session)

    def start(self, server: int) -> Head:
        first = self._first_or_last(server, ascending=True)
        return Head(server) if first is None else head_before_item(first)

    def append(self, commits: Sequence[Commit]) -> None:
        """One PutItem. The commits must follow each other in one log, and fit in one item."""
        first, last = commits[0], commits[-1]
        item = item_from_commits(commits, self._expires_s(first))
        if item_size(item) > MAX_ITEM_BYTES or not _is_run(commits):
            raise ValueError("these commits cannot be stored in one item")
        put: dict[str, Any] = {
            "TableName": self._log_table,
            "Item": item,
            "ConditionExpression": _SESSION_IS_FREE,
            "ExpressionAttributeNames": {"#session": SESSION},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            self._client.call("PutItem", put)
        except ServiceError as error:
            if error.code != _CONDITION_FAILED:
                raise
            # A retry after a lost response finds our own item: that is success.
            if error.response.get("Item", {}).get(REQ) != item[REQ]:
                raise SessionTaken(first.server, first.session) from error
        self._item_ends[last.server] = last.session

    def commit(self, server: int, session: int) -> Commit | None:
        return next((commit for commit in self._run_with(server, session) if commit.session == session), None)

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        # Commits never change, so an eventually consistent read is correct where it finds one. It costs half.
        for start in range(0, len(sessions), MAX_BATCH_KEYS):
            page = sessions[start : start + MAX_BATCH_KEYS]
            commits = self._get_commits(server, set(page), consistent=False)
            for session in page:
                if session not in commits:  # It is within a run, or was written just now, or is deleted.
                    commits |= {commit.session: commit for commit in self._run_with(server, session)}
                if session in commits:
                    yield commits[session]

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        return islice(self._read_after(server, after, limit), limit)

    def read_backwards(self, server: int, before: int, limit: int | None = None) -> Iterator[Commit]:
        items = self._query_items(_BEFORE, server, before, limit, ascending=False)
        commits = (commit for item in items for commit in reversed(commits_from_item(item)) if commit.session < before)
        return islice(commits, limit)

    def has_newer_commit(self, head: Head) -> bool:
        """Whether there is a commit after `head`, which must be the end of an item, as the end of the log always is.

        Eventually consistent, so it costs half of the other reads.
        """
        request = {
            "TableName": self._log_table,
            "Key": commit_key(head.server, head.session + 1),
            "ProjectionExpression": "#session",
            "ExpressionAttributeNames": {"#session": SESSION},
        }
        return "Item" in self._client.call("GetItem", request)

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
            "ProjectionExpression": ", ".join(_HEAD_NAMES),
            "ExpressionAttributeNames": _HEAD_NAMES,
            "ExpressionAttributeValues": {":server": {"N": str(server)}},
            "ScanIndexForward": ascending,
            "Limit": 1,
            "ConsistentRead": True,
        }
        return next(iter(self._client.call("Query", query)["Items"]), None)

    def _run_with(self, server: int, session: int) -> list[Commit]:
        """The commits of the item that contains `session`. Of another item, or none, if that one is deleted."""
        item = next(self._query_items(_UP_TO, server, session, 1, ascending=False), None)
        return [] if item is None else commits_from_item(item)

    def _get_commits(self, server: int, sessions: Set[int], consistent: bool) -> dict[int, Commit]:
        keys = [commit_key(server, session) for session in sessions]
        items = get_items(self._client, self._log_table, keys, consistent, self._sleep)
        return {commit.session: commit for item in items for commit in commits_from_item(item)}

    def _read_after(self, server: int, after: int, limit: int | None) -> Iterator[Commit]:
        is_first = True
        for item in self._query_items(_AFTER, server, after, limit, ascending=True):
            commits = commits_from_item(item)
            if is_first and commits[0].session > after + 1:
                yield from self._rest_of_run(server, after)
            is_first = False
            self._item_ends[server] = commits[-1].session
            yield from commits
        if is_first:
            yield from self._rest_of_run(server, after)

    def _rest_of_run(self, server: int, after: int) -> Iterator[Commit]:
        """The commits after `after` in the item that contains it. Without a read if the item is known to end there."""
        if after <= 0 or self._item_ends.get(server) == after:
            return
        commits = self._run_with(server, after)
        if commits:
            self._item_ends[server] = commits[-1].session
        yield from (commit for commit in commits if commit.session > after)

    def _query_items(
        self, condition: str, server: int, session: int, limit: int | None, *, ascending: bool
    ) -> Iterator[Item]:
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
            yield from page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]
            remaining = None if remaining is None else remaining - len(page["Items"])


def _is_run(commits: Sequence[Commit]) -> bool:
    return all(
        (later.server, later.session, later.at_us) == (earlier.server, earlier.session + 1, earlier.last_event_id + 1)
        for earlier, later in pairwise(commits)
    )
