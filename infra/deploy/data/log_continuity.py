"""Checks that the stored commits of a log follow each other without gaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chalicelib.adapters.dynamodb.items import head_before_item, head_from_item
from infra.deploy.data.commit_items import is_expired, query_commit_headers

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.items import Item

MAX_REPORTED_GAPS: Final = 5


@dataclass(frozen=True, slots=True)
class LogContinuity:
    """The range of a log's commits, and the gaps in it."""

    first: int
    """0 if the log is empty."""
    last: int
    gaps: tuple[tuple[int, int], ...] = ()
    """The sessions before and after each gap."""

    def __str__(self) -> str:
        if not self.first:
            return "no commits"
        sessions = f"sessions {self.first:,} to {self.last:,}"
        if not self.gaps:
            return f"{sessions} without gaps"
        return f"{sessions} with GAPS: {', '.join(f'between {before:,} and {after:,}' for before, after in self.gaps)}"


def check_continuity(client: ServiceClient, table: str, server: int, now_s: int) -> LogContinuity:
    """Read a log's commit headers. Ignores expired commits: DynamoDB deletes those in any order."""
    return _continuity(item for item in query_commit_headers(client, table, server) if not is_expired(item, now_s))


def _continuity(items: Iterable[Item]) -> LogContinuity:
    first, head = 0, None
    gaps: list[tuple[int, int]] = []
    for item in items:
        previous, current = head_before_item(item), head_from_item(item)
        if head is None:
            first = current.session
        elif (head.session, head.last_event_id) != (previous.session, previous.last_event_id) and len(
            gaps
        ) < MAX_REPORTED_GAPS:
            gaps.append((head.session, current.session))
        head = current
    return LogContinuity(first, 0 if head is None else head.session, tuple(gaps))
