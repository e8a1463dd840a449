"""Values for tests: say what matters, the rest is plausible."""

import base64
import random

from chalicelib.domain.events.body import body_of
from chalicelib.domain.log.append import Append, AppendCondition, Receipt
from chalicelib.domain.log.commit import Commit

NOW_S = 1_700_000_000
DAY_S = 24 * 3600

BETWEEN_SESSIONS = 1_000
"""Commits of up to this many events, built with nothing but their sessions, have rising EventIds."""


def a_text(key: str = "/job/1") -> str:
    """The JSON of one event as the log keeps it."""
    return f'{{"type":["job","started"],"key":"{key}","sourceTimestamp":null,"payload":null}}'


def a_commit(
    session: int = 1,
    request_id: str = "r",
    server: int = 1,
    at: int | None = None,
    prev: int | None = None,
    texts: tuple[str, ...] = (a_text(),),
) -> Commit:
    """A commit; those of one event follow each other when their sessions do."""
    return Commit(
        server=server,
        session=session,
        at=session * BETWEEN_SESSIONS if at is None else at,
        n=len(texts),
        prev=(session - 1) * BETWEEN_SESSIONS if prev is None else prev,
        request_id=request_id,
        body=body_of(texts),
    )


def a_receipt(
    key: str = "k",
    session: int = 1,
    request_id: str = "r",
    server: int = 1,
    digest: str = "d",
    expires_s: int = NOW_S + DAY_S,
) -> Receipt:
    """What an idempotency key was used for."""
    return Receipt(server, key, digest, session, request_id, expires_s)


def an_append(
    texts: tuple[str, ...] = (a_text(),),
    request_id: str = "r",
    server: int = 1,
    condition: AppendCondition | None = None,
    idempotency_key: str | None = None,
) -> Append:
    """One request to write."""
    return Append(server, texts, request_id, condition, idempotency_key)


def noise(size: int, seed: int = 0) -> str:
    """ASCII text of this many characters of which deflating saves a quarter and no more."""
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()[:size]
