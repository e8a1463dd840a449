"""The time in UUIDs of version 7, and what it says about the commits in which the key can be."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.domain.log.append import RECEIPT_TTL_S, Receipt
from chalicelib.domain.log.key_time import MAX_KEY_LEAD_MS, is_later, key_time_ms, latest_key_ms
from tests.builders import NOW_S, a_commit, uuid7

NOW_MS = NOW_S * 1000
HOUR_MS = 3_600_000


def test_time_of_rfc_9562_example() -> None:
    assert key_time_ms("017F22E2-79B0-7CC3-98C4-DC0C0C07398F") == 0x017F22E279B0
    assert key_time_ms("017f22e2-79b0-7cc3-98c4-dc0c0c07398f") == 0x017F22E279B0


@pytest.mark.parametrize(
    "key",
    [
        "",
        "deploy-4f2a",
        "annals-run-1-create",
        str(uuid.UUID(int=5, version=4)),
        str(uuid.UUID(int=5, version=1)),
        f"{uuid7(NOW_MS)} ",
        f"x{uuid7(NOW_MS)}",
        uuid7(NOW_MS).replace("-", ""),
        "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",
        "\u066017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    ],
)
def test_other_keys_have_no_time(key: str) -> None:
    assert key_time_ms(key) is None
    assert not is_later(key, 0, NOW_MS)


def test_key_later_than_all_keys_is_new() -> None:
    key = uuid7(NOW_MS)
    assert is_later(key, NOW_MS - 1, NOW_MS)
    assert not is_later(key, NOW_MS, NOW_MS)
    assert is_later(key, 0, NOW_MS - MAX_KEY_LEAD_MS)
    assert not is_later(key, 0, NOW_MS - MAX_KEY_LEAD_MS - 1)


def test_commit_of_version_0_1_0_may_have_any_key_for_a_day() -> None:
    commit = a_commit(at=NOW_MS * 1000)._replace(before=None)
    assert latest_key_ms(commit) >= NOW_MS + RECEIPT_TTL_S * 1000
    assert latest_key_ms(a_commit()) == latest_key_ms(a_commit(key="k")) == 0


@given(
    made_ms=st.integers(NOW_MS - 50 * HOUR_MS, NOW_MS + 50 * HOUR_MS),
    written_ms=st.integers(NOW_MS - 30 * HOUR_MS, NOW_MS),
    looked_up_ms=st.integers(NOW_MS - 30 * HOUR_MS, NOW_MS + 30 * HOUR_MS),
)
def test_key_of_valid_commit_is_never_later_than_its_bound(made_ms: int, written_ms: int, looked_up_ms: int) -> None:
    """Whatever the clocks of the client, of the writer and of the process that looks it up say."""
    key = uuid7(made_ms)
    commit = a_commit(at=written_ms * 1000, key=key)
    if Receipt("d", 1, commit.at_us).is_valid(looked_up_ms):
        assert not is_later(key, latest_key_ms(commit), looked_up_ms)


@given(st.integers(NOW_MS + 26 * HOUR_MS, 2**48 - 1))
def test_key_from_far_future_does_not_raise_bound_for_ever(made_ms: int) -> None:
    bound_ms = latest_key_ms(a_commit(at=NOW_MS * 1000, key=uuid7(made_ms)))
    assert is_later(uuid7(bound_ms + 1), bound_ms, bound_ms)
    assert bound_ms <= NOW_MS + 26 * HOUR_MS
