"""Builders of domain values. Tests pass what matters to them, the rest has plausible defaults."""

import base64
import random

from chalicelib.domain.events.body import join_body
from chalicelib.domain.log.append import Append, AppendCondition, Receipt
from chalicelib.domain.log.commit import Commit

NOW_S = 1_700_000_000
DAY_S = 24 * 3600

EVENT_IDS_PER_SESSION = 1_000
"""Commits with up to this many events that are built from their session numbers alone have increasing EventIds."""


def a_text(key: str = "/job/1") -> str:
    """An encoded event."""
    return f'{{"type":["job","started"],"key":"{key}","sourceTimestamp":null,"payload":null}}'


def a_commit(
    session: int = 1,
    request_id: str = "r",
    server: int = 1,
    at: int | None = None,
    prev: int | None = None,
    texts: tuple[str, ...] = (a_text(),),
) -> Commit:
    """A commit. Commits of one event with consecutive sessions are contiguous."""
    return Commit(
        server=server,
        session=session,
        at_us=session * EVENT_IDS_PER_SESSION if at is None else at,
        event_count=len(texts),
        previous_event_id=(session - 1) * EVENT_IDS_PER_SESSION if prev is None else prev,
        request_id=request_id,
        body=join_body(texts),
    )


def a_receipt(
    key: str = "k",
    session: int = 1,
    request_id: str = "r",
    server: int = 1,
    digest: str = "d",
    expires_s: int = NOW_S + DAY_S,
) -> Receipt:
    return Receipt(server, key, digest, session, request_id, expires_s)


def an_append(
    texts: tuple[str, ...] = (a_text(),),
    request_id: str = "r",
    server: int = 1,
    condition: AppendCondition | None = None,
    idempotency_key: str | None = None,
) -> Append:
    return Append(server, texts, request_id, condition, idempotency_key)


def incompressible_text(size: int, seed: int = 0) -> str:
    """ASCII text of `size` characters that deflate cannot shrink by more than a quarter."""
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()[:size]
