"""Items of the two tables, and when their text is deflated."""

import base64
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.adapters.dynamodb.capacity import item_size, write_units
from chalicelib.adapters.dynamodb.items import (
    BODY,
    MAX_INFLATED_BYTES,
    Z,
    commit_from_item,
    head_from_item,
    item_from_commit,
    item_from_receipt,
    receipt_from_item,
    receipt_key,
)
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import EVENT_ID_END
from chalicelib.domain.log.append import MAX_BYTES, Receipt
from chalicelib.domain.log.commit import Commit
from tests.builders import a_commit, a_receipt, a_text, incompressible_text

ITEM_LIMIT_BYTES = 400 * 1024

texts = st.text(st.characters(codec="utf-8"))
numbers = st.integers(0, EVENT_ID_END - 1)
bodies = texts | st.builds(lambda text, times: text * times, texts, st.integers(1, 300))
commits = st.builds(Commit, numbers, numbers, numbers, numbers, numbers, texts, bodies)
receipts = st.builds(Receipt, numbers, texts, texts, numbers, texts, numbers)


def test_item_from_small_commit_is_plain() -> None:
    commit = a_commit(session=7, request_id="r", server=3, at=1_700, prev=1_600, texts=("{}", "{}"))
    assert item_from_commit(commit) == {
        "server": {"N": "3"},
        "session": {"N": "7"},
        "at": {"N": "1700"},
        "n": {"N": "2"},
        "prev": {"N": "1600"},
        "req": {"S": "r"},
        "body": {"S": "[{},\n{}]"},
    }


def test_item_from_large_commit_is_deflated() -> None:
    commit = a_commit(session=7, request_id="r", server=3, at=1_700, prev=1_600, texts=(a_text(),) * 20)
    assert item_from_commit(commit) == {
        "server": {"N": "3"},
        "session": {"N": "7"},
        "at": {"N": "1700"},
        "n": {"N": "20"},
        "prev": {"N": "1600"},
        "req": {"S": "r"},
        "z": {"B": base64.b64encode(zlib.compress(commit.body.encode())).decode()},
    }


@pytest.mark.parametrize(
    "deflated",
    [zlib.compress(b" " * 5 * MAX_INFLATED_BYTES), zlib.compress(b"[]")[:-1], b"no zlib", b""],
    ids=["too large", "truncated", "not deflated", "empty"],
)
def test_commit_from_corrupt_item_raises_log_broken(deflated: bytes) -> None:
    item = item_from_commit(a_commit(session=7, request_id="r"))
    del item[BODY]
    tracemalloc.start()
    with pytest.raises(LogBroken, match="an item"):
        commit_from_item({**item, Z: {"B": base64.b64encode(deflated).decode()}})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 3 * MAX_INFLATED_BYTES


def test_item_from_receipt() -> None:
    receipt = a_receipt(key="k", session=7, request_id="r", server=3, digest="d", expires_s=1_700_086_400)
    assert item_from_receipt(receipt) == {
        "view": {"S": "3/receipt"},
        "item": {"S": "k"},
        "digest": {"S": "d"},
        "session": {"N": "7"},
        "req": {"S": "r"},
        "ttl": {"N": "1700086400"},
    }
    assert receipt_key(3, "k") == {"view": {"S": "3/receipt"}, "item": {"S": "k"}}


@pytest.mark.parametrize(
    ("plain_bytes", "letters", "attribute"),
    [
        (1_024, "repeated", BODY),
        (1_025, "repeated", Z),
        (1_300, "noise", Z),
        (1_600, "noise", BODY),
        (2_048, "noise", BODY),
        (4_200, "noise", Z),
        (MAX_BYTES, "repeated", Z),
        (MAX_BYTES, "noise", Z),
    ],
)
def test_item_from_commit_deflates_if_it_saves_a_write_unit(plain_bytes: int, letters: str, attribute: str) -> None:
    frame = item_size(item_from_commit(a_commit(texts=("",))))
    size = plain_bytes - frame
    item = item_from_commit(a_commit(texts=("x" * size if letters == "repeated" else incompressible_text(size),)))
    assert {BODY, Z} & item.keys() == {attribute}
    assert (item_size(item) == plain_bytes) is (attribute == BODY)


def test_item_from_largest_commit_fits_as_text() -> None:
    item = item_from_commit(a_commit(at=EVENT_ID_END - 1, request_id="r" * 256))
    item[BODY] = {"S": "x" * MAX_BYTES}
    assert item_size(item) < ITEM_LIMIT_BYTES


def test_head_from_item_needs_no_body() -> None:
    item = item_from_commit(a_commit(session=7, server=3, at=1_700, texts=("{}", "{}", "{}")))
    del item[BODY]
    assert head_from_item(item) == Head(server=3, session=7, instance=3, last_event_id=1_702)


@given(commits)
def test_commit_round_trip(commit: Commit) -> None:
    assert commit_from_item(item_from_commit(commit)) == commit


@given(commits)
def test_item_from_commit_never_costs_more_than_plain(commit: Commit) -> None:
    item = item_from_commit(commit)
    plain = {name: value for name, value in item.items() if name != Z} | {BODY: {"S": commit.body}}
    saved = write_units(item_size(plain)) - write_units(item_size(item))
    assert saved >= 1 if Z in item else saved == 0


@given(receipts)
def test_receipt_round_trip(receipt: Receipt) -> None:
    assert receipt_from_item(item_from_receipt(receipt)) == receipt
