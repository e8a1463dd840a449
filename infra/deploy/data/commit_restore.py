"""Putting back: what a restored table has and the log lacks.

Commits never change, so to restore a log is to put back those that are missing. What is there is never touched; if it
is not what the restored table has, the log went on differently, and that ends everything.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.adapters.dynamodb.batches import MOST_KEYS, Pause, get_all
from chalicelib.adapters.dynamodb.items import SERVER, SESSION, commit_from_item
from chalicelib.domain import timestamps
from chalicelib.domain.log.commit import Commit
from infra.deploy.data.commit_items import is_expired, of_all, of_log

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls
    from chalicelib.adapters.dynamodb.items import Item


class Diverged(Exception):
    """The log has another commit in a place: numbers were used again after a loss."""

    def __init__(self, lost: Commit, found: Commit) -> None:
        super().__init__(
            f"session {lost.session} of server {lost.server} was used again. The restored table has request "
            f"{lost.request_id} of {timestamps.iso(lost.at)} there, the log has {found.request_id} of "
            f"{timestamps.iso(found.at)}: the log went on differently after the loss."
        )


@dataclass
class Tally:
    """How many commits of the restored table are in the log, are not, and need not be."""

    there: int = 0
    expired: int = 0
    """Past retention."""
    missing: Counter[int] = field(default_factory=Counter)
    """By server."""
    servers: set[int] = field(default_factory=set)
    """All logs that were seen."""

    @property
    def seen(self) -> int:
        """How many commits were looked at."""
        return self.there + self.expired + self.missing.total()


@dataclass(frozen=True, slots=True)
class PuttingBack:
    """Compares two tables page by page, and copies from one to the other what is missing there."""

    client: Calls
    restored: str
    live: str
    now_s: int
    pause: Pause = time.sleep

    def compare(self, progress: Callable[[int], None]) -> Tally:
        """Count; raises `Diverged` if there is anything that cannot be put back."""
        tally = Tally()
        for page in of_all(self.client, self.restored):
            tally.servers.update(int(item[SERVER]["N"]) for item in page)
            wanted = [item for item in page if not is_expired(item, self.now_s)]
            missing = self._missing(wanted)
            tally.expired += len(page) - len(wanted)
            tally.there += len(wanted) - len(missing)
            tally.missing.update(int(item[SERVER]["N"]) for item in missing)
            progress(tally.seen)
        return tally

    def put_back(self, servers: Sequence[int], progress: Callable[[int], None]) -> int:
        """Put back what these logs lack, in order; how many commits that were.

        In order, so that a log whose end is missing has no gap at any moment.
        """
        done = 0
        for server in servers:
            for page in of_log(self.client, self.restored, server):
                for item in self._missing([item for item in page if not is_expired(item, self.now_s)]):
                    self._put(item)
                    done += 1
                    progress(done)
        return done

    def _missing(self, items: Sequence[Item]) -> list[Item]:
        """Those of the items, in their order, that the log does not have."""
        missing: list[Item] = []
        for start in range(0, len(items), MOST_KEYS):
            some = items[start : start + MOST_KEYS]
            found = self._found(some, consistent=False)
            # What is not found at half price may only be new.
            found |= self._found([item for item in some if _place(item) not in found], consistent=True)
            for item in some:
                if _place(item) in found:
                    _check_same(item, found[_place(item)])
                else:
                    missing.append(item)
        return missing

    def _found(self, items: Sequence[Item], consistent: bool) -> dict[tuple[str, str], Item]:
        keys: list[Item] = [{SERVER: item[SERVER], SESSION: item[SESSION]} for item in items]
        return {_place(item): item for item in get_all(self.client, self.live, keys, consistent, self.pause)}

    def _put(self, item: Item) -> None:
        """Put one back; if the same one is there by now, so much the better."""
        put = {
            "TableName": self.live,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(#session)",
            "ExpressionAttributeNames": {"#session": SESSION},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            self.client.call("PutItem", put)
        except Refusal as refusal:
            if refusal.code != "ConditionalCheckFailedException":
                raise
            _check_same(item, refusal.answer["Item"])


def _place(item: Item) -> tuple[str, str]:
    return item[SERVER]["N"], item[SESSION]["N"]


def _check_same(item: Item, held: Item) -> None:
    """Two items may keep the same commit in different ways; another commit is a catastrophe."""
    if item != held and commit_from_item(item) != commit_from_item(held):
        raise Diverged(commit_from_item(item), commit_from_item(held))
