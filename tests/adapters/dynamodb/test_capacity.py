"""Sizes of items and capacity units, as DynamoDB computes them."""

from typing import Any

import pytest

from chalicelib.adapters.dynamodb.capacity import item_size, read_units, write_units
from chalicelib.adapters.dynamodb.items import item_from_commit
from tests.builders import a_commit


@pytest.mark.parametrize(
    ("number", "size"),
    [
        ("0", 1),
        ("-0", 1),
        ("0.00", 1),
        ("1", 2),
        ("12", 2),
        ("123", 3),
        ("1234", 3),
        ("100", 2),
        ("120", 3),
        ("1000", 2),
        ("1200", 2),
        ("12000", 3),
        ("007", 2),
        ("-1", 3),
        ("-1234", 4),
        ("0.5", 2),
        ("0.05", 2),
        ("0.005", 2),
        ("1.5", 3),
        ("10.10", 3),
        ("1E3", 2),
        ("1E-130", 2),
        ("1700000000000123", 9),
        ("9007199254740991", 9),
        ("9" * 38, 20),
        ("-" + "9" * 38 + "0", 21),
    ],
)
def test_item_size_of_number_counts_pairs_of_digits(number: str, size: int) -> None:
    assert item_size({"": {"N": number}}) == size


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": ""}, 0),
        ({"S": "abc"}, 3),
        ({"S": "ä€🎉"}, 9),
        ({"S": "\x00\n"}, 2),
        ({"B": ""}, 0),
        ({"B": "/w=="}, 1),
        ({"B": "AP8="}, 2),
        ({"B": "AP8A"}, 3),
        ({"BOOL": False}, 1),
        ({"NULL": True}, 1),
        ({"SS": ["a", "ä"]}, 3),
        ({"NS": ["1", "123"]}, 5),
        ({"BS": ["YQ==", "YmM="]}, 3),
        ({"L": []}, 3),
        ({"L": [{"S": "ab"}, {"N": "1"}]}, 3 + (1 + 2) + (1 + 2)),
        ({"M": {}}, 3),
        ({"M": {"ab": {"S": "c"}}}, 3 + (1 + 2 + 1)),
        ({"M": {"a": {"L": [{"M": {}}]}}}, 3 + (1 + 1 + (3 + (1 + 3)))),
    ],
)
def test_item_size_of_each_value_type(value: dict[str, Any], size: int) -> None:
    assert item_size({"": value}) == size


def test_item_size_counts_names_in_utf8() -> None:
    assert item_size({"a": {"S": "x"}, "bc": {"S": "y"}, "ä": {"S": "z"}}) == 2 + 3 + 3


def test_item_size_of_commit_is_sum_of_attributes() -> None:
    commit = a_commit(session=7, request_id="r", at=1_700_000_000_000_123, prev=0, texts=("{}",))
    server, session, at, n, prev, req, body = 6 + 2, 7 + 2, 2 + 9, 1 + 2, 4 + 1, 3 + 1, 4 + 4
    before, crc = 6 + 2, 3 + len(str(commit.checksum))
    assert item_size(item_from_commit(commit)) == server + session + at + n + prev + req + body + before + crc


@pytest.mark.parametrize(
    ("size", "units"),
    [(0, 1), (1, 1), (1024, 1), (1025, 2), (2048, 2), (2049, 3), (350 * 1024, 350), (400 * 1024, 400)],
)
def test_write_units_rounds_up_to_kilobytes(size: int, units: int) -> None:
    assert write_units(size) == units


@pytest.mark.parametrize(
    ("size", "consistent", "eventual"),
    [(0, 1, 0.5), (1, 1, 0.5), (4096, 1, 0.5), (4097, 2, 1), (12_289, 4, 2), (1024 * 1024, 256, 128)],
)
def test_read_units_rounds_up_to_four_kilobytes(size: int, consistent: float, eventual: float) -> None:
    assert (read_units(size, consistent=True), read_units(size, consistent=False)) == (consistent, eventual)
