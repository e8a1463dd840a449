"""Copies missing commits from a restored table to the log.

Commits never change, so a restore only adds missing ones and never overwrites. If a session holds a different commit in
the log, the log has diverged from the restored table, and the restore stops.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.dynamodb.batches import MAX_BATCH_KEYS, Sleep, get_items
from chalicelib.adapters.dynamodb.items import SERVER, SESSION, commits_from_item
from chalicelib.domain import timestamps
from chalicelib.domain.log.commit import Commit
from infra.deploy.data.commit_items import is_expired, query_commits, scan_commits

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.items import Item


class LogDiverged(Exception):
    """A session holds different commits in the log and in the restored table: it was reused after the loss."""

    def __init__(self, restored: Commit, live: Commit) -> None:
        super().__init__(
            f"session {restored.session} of server {restored.server} was reused. The restored table has request "
            f"{restored.request_id} of {timestamps.iso(restored.at_us)} there, the log has {live.request_id} of "
            f"{timestamps.iso(live.at_us)}: events were published after the loss."
        )


@dataclass
class RestoreSummary:
    """Result of comparing the restored table with the log: commits per state."""

    present: int = 0
    expired: int = 0
    missing: Counter[int] = field(default_factory=Counter)
    """Number of missing commits by server."""
    servers: set[int] = field(default_factory=set)
    """All logs in the restored table."""

    @property
    def total(self) -> int:
        return self.present + self.expired + self.missing.total()


@dataclass(frozen=True, slots=True)
class CommitRestore:
    """Compares the restored table with the live one page by page, and copies missing commits."""

    client: ServiceClient
    restored_table: str
    live_table: str
    now_s: int
    pause: Sleep = time.sleep

    def compare(self, progress: Callable[[int], None]) -> RestoreSummary:
        """Count commits per state. Raises `LogDiverged`."""
        summary = RestoreSummary()
        for page in scan_commits(self.client, self.restored_table):
            summary.servers.update(int(item[SERVER]["N"]) for item in page)
            unexpired = [item for item in page if not is_expired(item, self.now_s)]
            missing = self._find_missing(unexpired)
            summary.expired += len(page) - len(unexpired)
            summary.present += len(unexpired) - len(missing)
            summary.missing.update(int(item[SERVER]["N"]) for item in missing)
            progress(summary.total)
        return summary

    def restore(self, servers: Sequence[int], progress: Callable[[int], None]) -> int:
        """Copy the missing commits of these logs. Returns their number.

        Copies in order, so that a log whose end is missing has no gap at any time.
        """
        restored = 0
        for server in servers:
            for page in query_commits(self.client, self.restored_table, server):
                for item in self._find_missing([item for item in page if not is_expired(item, self.now_s)]):
                    self._put(item)
                    restored += 1
                    progress(restored)
        return restored

    def _find_missing(self, items: Sequence[Item]) -> list[Item]:
        """The items that the live table lacks, in their order. Raises `LogDiverged`."""
        missing: list[Item] = []
        for start in range(0, len(items), MAX_BATCH_KEYS):
            batch = items[start : start + MAX_BATCH_KEYS]
            live = self._read_live(batch, consistent=False)
            # Eventually consistent reads cost half but can miss new items: read those again consistently.
            live |= self._read_live([item for item in batch if _key(item) not in live], consistent=True)
            for item in batch:
                if _key(item) in live:
                    _check_same(item, live[_key(item)])
                else:
                    missing.append(item)
        return missing

    def _read_live(self, items: Sequence[Item], consistent: bool) -> dict[tuple[str, str], Item]:
        keys: list[Item] = [{SERVER: item[SERVER], SESSION: item[SESSION]} for item in items]
        return {_key(item): item for item in get_items(self.client, self.live_table, keys, consistent, self.pause)}

    def _put(self, item: Item) -> None:
        """Write an item unless the log has it by now."""
        params = {
            "TableName": self.live_table,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(#session)",
            "ExpressionAttributeNames": {"#session": SESSION},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            self.client.call("PutItem", params)
        except ServiceError as error:
            if error.code != "ConditionalCheckFailedException":
                raise
            _check_same(item, error.response["Item"])


def _key(item: Item) -> tuple[str, str]:
    return item[SERVER]["N"], item[SESSION]["N"]


def _check_same(item: Item, live: Item) -> None:
    """Compare commits, not items: the same commit can be stored in different encodings."""
    if item != live and commits_from_item(item) != commits_from_item(live):
        raise LogDiverged(commits_from_item(item)[0], commits_from_item(live)[0])
