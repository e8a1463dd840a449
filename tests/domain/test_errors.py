"""The texts of errors, which users read, do not depend on the facts that errors carry."""

import pytest

from chalicelib.domain.errors import (
    AnnalsError,
    ConditionFailed,
    Forbidden,
    KeyReused,
    NoSuchOrganization,
    NotDelivered,
    RateLimited,
    SessionTaken,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NoSuchOrganization("acme"), "organization 'acme' does not exist; an admin creates it with PUT /organizations"),
        (Forbidden("no.", "Ask."), "no. Ask."),
        (ConditionFailed(7), "event 7 matches the append condition"),
        (KeyReused("k"), "Idempotency-Key 'k' was used for another request"),
        (SessionTaken(1, 2), "session 2 of server 1"),
        (NotDelivered("the server is busy", retry_after_s=3.0), "the server is busy"),
        (RateLimited("too many messages", retry_after_s=3.0), "too many messages"),
    ],
)
def test_error_text_explains_the_error(error: AnnalsError, text: str) -> None:
    assert text in str(error)
    assert not str(error).startswith("(")
