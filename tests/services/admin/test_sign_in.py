"""Sign-in codes: each can be exchanged for a token once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from chalicelib.domain.errors import Forbidden
from chalicelib.services.admin.sign_in import SignIn

RACERS = 8
RACES = 50


def test_redeem_code_returns_token_once() -> None:
    sign_in = SignIn()
    code = sign_in.issue_code("token")
    assert sign_in.redeem(code) == "token"
    with pytest.raises(Forbidden, match="invalid or was already used"):
        sign_in.redeem(code)


@pytest.mark.parametrize("code", ["", "wrong", "grüße", "\ud800"])
def test_redeem_wrong_code_keeps_valid_code(code: str) -> None:
    sign_in = SignIn()
    valid_code = sign_in.issue_code("token")
    with pytest.raises(Forbidden):
        sign_in.redeem(code)
    assert sign_in.redeem(valid_code) == "token"


def test_redeem_without_issued_code_raises_forbidden() -> None:
    with pytest.raises(Forbidden):
        SignIn().redeem("")


def test_issue_code_invalidates_previous_code() -> None:
    sign_in = SignIn()
    first, second = sign_in.issue_code("first"), sign_in.issue_code("second")
    with pytest.raises(Forbidden):
        sign_in.redeem(first)
    assert sign_in.redeem(second) == "second"


def test_redeem_concurrently_succeeds_once() -> None:
    sign_in, ready = SignIn(), Barrier(RACERS)

    def race(code: str) -> str | None:
        ready.wait()
        try:
            return sign_in.redeem(code)
        except Forbidden:
            return None

    with ThreadPoolExecutor(RACERS) as pool:
        for number in range(RACES):
            code = sign_in.issue_code(f"token {number}")
            tokens = [token for token in pool.map(race, [code] * RACERS) if token is not None]
            assert tokens == [f"token {number}"]
