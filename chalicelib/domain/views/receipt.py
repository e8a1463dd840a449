"""The view of receipts: a record for each idempotency key.

Keys are random, so records that hold several keys would be rewritten for almost every key, and cost more.
"""

from collections.abc import Callable, Iterable
from functools import partial

from pydantic_core import from_json, to_json

from chalicelib.domain.log.append import RECEIPT_STORED_S, Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import Checkpoint, Record

RECEIPTS_VIEW = "receipt"


def receipt_updates(
    checkpoint: Checkpoint, commits: Iterable[Commit]
) -> dict[tuple[str, str], Callable[[Record | None], list[Record]]]:
    """The updates of this view that `commits` cause, by view and item."""
    view = checkpoint.view_name(RECEIPTS_VIEW)
    last_by_key = {commit.idempotency_key: commit for commit in commits if commit.idempotency_key}
    return {(view, key): partial(_update, view, commit) for key, commit in last_by_key.items()}


def _update(view: str, commit: Commit, stored: Record | None) -> list[Record]:
    if stored is not None and stored.version >= commit.session:
        return []
    data = to_json({"d": commit.digest, "at": commit.at_us}).decode()
    return [Record(view, commit.idempotency_key, commit.session, data)]


def receipt_from_record(record: Record) -> Receipt:
    data = from_json(record.data)
    return Receipt(data["d"], record.version, data["at"])


def expires_s(record: Record) -> int | None:
    """When a record is no longer needed, in seconds since 1970. None for records of other views."""
    if not record.view.endswith(f"/{RECEIPTS_VIEW}"):
        return None
    return receipt_from_record(record).at_us // 1_000_000 + RECEIPT_STORED_S
