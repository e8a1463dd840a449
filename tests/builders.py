"""Builders of domain values. Tests pass what matters to them, the rest has plausible defaults."""

import base64
import random
import uuid
from itertools import count

from chalicelib.domain.events.body import join_body
from chalicelib.domain.log.append import Append, AppendCondition
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
    before: int | None = None,
    key: str = "",
    digest: str = "",
) -> Commit:
    """A commit. Commits with consecutive sessions and equally many events are contiguous."""
    return Commit(
        server=server,
        session=session,
        at_us=session * EVENT_IDS_PER_SESSION if at is None else at,
        event_count=len(texts),
        previous_event_id=(session - 1) * EVENT_IDS_PER_SESSION if prev is None else prev,
        request_id=request_id,
        body=join_body(texts),
        before=(session - 1) * len(texts) if before is None else before,
        idempotency_key=key,
        digest=digest or ("d" if key else ""),
    )


def a_run(*request_ids: str, session: int = 1, server: int = 1) -> list[Commit]:
    """Commits of one group, as a writer plans them: their EventIds follow each other. Each has two events."""
    texts = (a_text("/job/1"), a_text("/job/2"))
    start = session * EVENT_IDS_PER_SESSION
    return [
        a_commit(
            session + i,
            request_id,
            server,
            at=start + 2 * i,
            prev=start + 2 * i - 1 if i else start - EVENT_IDS_PER_SESSION,
            texts=texts,
        )
        for i, request_id in enumerate(request_ids)
    ]


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


_uuid_numbers = count(1)


def uuid7(made_ms: int) -> str:
    """A UUID of version 7 that was made at `made_ms`, unlike all others."""
    return str(uuid.UUID(int=made_ms << 80 | 7 << 76 | 2 << 62 | next(_uuid_numbers)))
