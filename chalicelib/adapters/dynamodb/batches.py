"""Batches: many items in one call, repeated until DynamoDB has done with all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from chalicelib.domain.errors import Unavailable

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls
    from chalicelib.adapters.dynamodb.items import Item

T = TypeVar("T")

MOST_KEYS = 100
"""What BatchGetItem takes."""
MOST_WRITES = 25
"""What BatchWriteItem takes."""
FIRST_PAUSE_S = 0.05
MOST_IN_VAIN = 7
"""So many repeats that get nothing done, 6 seconds, then we give up."""

Pause = Callable[[float], None]
"""Waits for so many seconds."""


def get_all(client: Calls, table: str, keys: Sequence[Item], consistent: bool, pause: Pause) -> list[Item]:
    """The items with these keys, all different and at most `MOST_KEYS`, in any order; missing ones are left out."""
    found: list[Item] = []

    def get(some: Sequence[Item]) -> Sequence[Item]:
        wanted = {table: {"Keys": some, "ConsistentRead": consistent}}
        page = client.call("BatchGetItem", {"RequestItems": wanted})
        found.extend(page["Responses"].get(table, []))
        left: dict[str, Any] = page.get("UnprocessedKeys", {})
        return left[table]["Keys"] if table in left else []

    if keys:
        _until_done(get, keys, pause)
    return found


def delete_all(client: Calls, table: str, keys: Sequence[Item], pause: Pause) -> None:
    """Delete the items with these keys, all different and at most `MOST_WRITES`."""

    def delete(some: Sequence[Item]) -> Sequence[Item]:
        requests = [{"DeleteRequest": {"Key": key}} for key in some]
        answer = client.call("BatchWriteItem", {"RequestItems": {table: requests}})
        left: dict[str, Any] = answer.get("UnprocessedItems", {})
        return [request["DeleteRequest"]["Key"] for request in left.get(table, [])]

    if keys:
        _until_done(delete, keys, pause)


def _until_done(send: Callable[[Sequence[T]], Sequence[T]], waiting: Sequence[T], pause: Pause) -> None:
    """Send what the call before left over. An answer may be full, then more of them help; or we are too fast."""
    in_vain = 0
    while left := send(waiting):
        in_vain = in_vain + 1 if len(left) == len(waiting) else 0
        if in_vain == MOST_IN_VAIN:
            raise Unavailable(f"DynamoDB does not answer: {len(left)} items of a batch were left over again and again")
        pause(FIRST_PAUSE_S * 2**in_vain)
        waiting = left
