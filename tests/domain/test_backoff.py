"""Backoff: growth, cap and jitter."""

import pytest

from chalicelib.domain.backoff import Backoff


def test_delay_doubles_with_each_attempt() -> None:
    backoff = Backoff(initial_s=0.5)
    assert [backoff.delay_s(attempt) for attempt in range(4)] == [0.5, 1.0, 2.0, 4.0]


def test_delay_grows_by_given_factor() -> None:
    backoff = Backoff(initial_s=2.0, factor=4.0)
    assert [backoff.delay_s(attempt) for attempt in range(3)] == [2.0, 8.0, 32.0]


def test_delay_never_exceeds_maximum() -> None:
    backoff = Backoff(initial_s=0.5, max_s=1.5)
    assert [backoff.delay_s(attempt) for attempt in range(4)] == [0.5, 1.0, 1.5, 1.5]


def test_delay_first_attempt_is_capped() -> None:
    assert Backoff(initial_s=5.0, max_s=1.0).delay_s(0) == 1.0


def test_delay_after_very_many_attempts_is_maximum() -> None:
    assert Backoff(initial_s=0.5, max_s=30.0).delay_s(1_000_000) == 30.0


@pytest.mark.parametrize(("jitter", "delay_s"), [(0.0, 0.0), (0.25, 0.5), (1.0, 2.0)])
def test_delay_jitter_scales_capped_delay(jitter: float, delay_s: float) -> None:
    assert Backoff(initial_s=1.0, max_s=2.0).delay_s(attempt=5, jitter=jitter) == delay_s
