"""The meter of the benchmarks: units as DynamoDB's documents have them."""

from typing import Any

import pytest

from benchmarks.metering_proxy import Meter

KEY = {"id": {"S": "a"}, "n": {"N": "1"}}


def text(size: int) -> dict[str, Any]:
    """An attribute of so many bytes, with its name."""
    return {"t": {"S": "x" * (size - 1)}}


@pytest.fixture
def meter() -> Meter:
    """One that knows a table with an index of those items that have a `first`."""
    found = Meter()
    keys = [{"AttributeName": "id"}, {"AttributeName": "n"}]
    index = {"IndexName": "firsts", "KeySchema": [{"AttributeName": "first"}]}
    asked = {"TableName": "t", "KeySchema": keys, "GlobalSecondaryIndexes": [index]}
    found.note("CreateTable", asked, 200, {})
    return found


def put(meter: Meter, item: dict[str, Any], status: int = 200) -> float:
    meter.reset()
    meter.note("PutItem", {"TableName": "t", "Item": item}, status, {})
    return meter.written


def test_a_put_takes_a_unit_for_each_kilobyte_begun_and_a_refused_one_no_less(meter: Meter) -> None:
    assert put(meter, {**KEY, **text(1_000)}) == 1
    assert put(meter, {**KEY, **text(2_048)}) == 3
    assert put(meter, {**KEY, **text(10)}, status=400) == 3


def test_an_item_with_the_keys_of_an_index_is_written_there_too_with_its_keys_alone(meter: Meter) -> None:
    assert put(meter, {**KEY, **text(2_048), "first": {"S": "y"}}) == 3 + 1


def test_a_transaction_costs_twice_but_its_index_once(meter: Meter) -> None:
    puts = [
        {"Put": {"TableName": "t", "Item": {"id": {"S": name}, "n": {"N": "1"}, "first": {"S": "y"}}}} for name in "ab"
    ]
    meter.note("TransactWriteItems", {"TransactItems": puts}, 200, {})
    assert meter.written == 2 * (2 + 1)


def test_items_of_a_query_are_summed_and_those_of_a_batch_are_not(meter: Meter) -> None:
    keys = [{"id": {"S": "a"}, "n": {"N": str(n)}} for n in range(3)]
    for key in keys:
        put(meter, {**key, **text(2_000), "z": {"B": "AAAA"}})
    meter.reset()
    meter.note("Query", {"TableName": "t", "ConsistentRead": True}, 200, {"Items": keys})
    assert meter.read == 2
    meter.note("Query", {"TableName": "t"}, 200, {"Items": keys})
    assert meter.read == 2 + 1
    meter.note("BatchGetItem", {"RequestItems": {"t": {"Keys": keys, "ConsistentRead": True}}}, 200, {})
    assert meter.read == 2 + 1 + 3


def test_what_is_not_there_costs_a_look(meter: Meter) -> None:
    meter.note("GetItem", {"TableName": "t", "Key": KEY, "ConsistentRead": True}, 200, {})
    meter.note("GetItem", {"TableName": "t", "Key": KEY}, 200, {})
    meter.note("Query", {"TableName": "t", "IndexName": "firsts"}, 200, {"Items": []})
    assert (meter.read, meter.written) == (1 + 0.5 + 0.5, 0)


def test_what_nobody_knows_the_price_of_is_not_free(meter: Meter) -> None:
    with pytest.raises(ValueError, match="UpdateItem"):
        meter.note("UpdateItem", {}, 200, {})
