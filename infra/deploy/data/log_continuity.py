"""Chains: whether the commits that a table keeps of a log follow each other without gap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chalicelib.adapters.dynamodb.items import head_before_item, head_from_item
from infra.deploy.data.commit_items import is_expired, outlines

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls
    from chalicelib.adapters.dynamodb.items import Item

MOST_GAPS: Final = 5
"""More are not named."""


@dataclass(frozen=True, slots=True)
class Chain:
    """What is kept of a log, and where commits do not follow each other."""

    first: int
    """0 if nothing is kept."""
    last: int
    gaps: tuple[tuple[int, int], ...] = ()
    """The sessions on both sides of the first few gaps."""

    def __str__(self) -> str:
        """A few words for people."""
        if not self.first:
            return "nothing is kept"
        kept = f"sessions {self.first:,} to {self.last:,}"
        if not self.gaps:
            return f"{kept} without gap"
        return f"{kept} with GAPS: {', '.join(f'between {before:,} and {after:,}' for before, after in self.gaps)}"


def chain_of(client: Calls, table: str, server: int, now_s: int) -> Chain:
    """Go through a log. What is past retention does not count: DynamoDB deletes that in any order."""
    return _chain(item for item in outlines(client, table, server) if not is_expired(item, now_s))


def _chain(items: Iterable[Item]) -> Chain:
    first, head = 0, None
    gaps: list[tuple[int, int]] = []
    for item in items:
        before, own = head_before_item(item), head_from_item(item)
        if head is None:
            first = own.session
        elif (head.session, head.last) != (before.session, before.last) and len(gaps) < MOST_GAPS:
            gaps.append((head.session, own.session))
        head = own
    return Chain(first, 0 if head is None else head.session, tuple(gaps))
