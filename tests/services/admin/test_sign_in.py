"""Signing in: a code is worth a token, once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from chalicelib.domain.errors import Forbidden
from chalicelib.services.admin.sign_in import SigningIn

RACERS = 8
RACES = 50


def test_a_code_becomes_its_token_and_then_nothing() -> None:
    signing_in = SigningIn()
    code = signing_in.offer("token")
    assert signing_in.take(code) == "token"
    with pytest.raises(Forbidden, match="each works once"):
        signing_in.take(code)


@pytest.mark.parametrize("code", ["", "wrong", "grüße", "\ud800"])
def test_a_wrong_code_is_refused_and_leaves_the_right_one_good(code: str) -> None:
    signing_in = SigningIn()
    right = signing_in.offer("token")
    with pytest.raises(Forbidden):
        signing_in.take(code)
    assert signing_in.take(right) == "token"


def test_without_an_offer_nobody_signs_in() -> None:
    with pytest.raises(Forbidden):
        SigningIn().take("")


def test_of_two_codes_the_later_is_good() -> None:
    signing_in = SigningIn()
    first, second = signing_in.offer("first"), signing_in.offer("second")
    with pytest.raises(Forbidden):
        signing_in.take(first)
    assert signing_in.take(second) == "second"


def test_of_many_who_come_at_once_one_signs_in() -> None:
    signing_in, ready = SigningIn(), Barrier(RACERS)

    def race(code: str) -> str | None:
        ready.wait()
        try:
            return signing_in.take(code)
        except Forbidden:
            return None

    with ThreadPoolExecutor(RACERS) as pool:
        for number in range(RACES):
            code = signing_in.offer(f"token {number}")
            won = [token for token in pool.map(race, [code] * RACERS) if token is not None]
            assert won == [f"token {number}"]
