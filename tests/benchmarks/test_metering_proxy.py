"""The metering proxy counts units as DynamoDB documents them."""

from typing import Any

import pytest

from benchmarks.aws.metering_proxy import Meter

KEY = {"id": {"S": "a"}, "n": {"N": "1"}}


def text(size: int) -> dict[str, Any]:
    """An attribute of `size` bytes including its name."""
    return {"t": {"S": "x" * (size - 1)}}


@pytest.fixture
def meter() -> Meter:
    """A meter with a table and a sparse index on `first`."""
    meter = Meter()
    keys = [{"AttributeName": "id"}, {"AttributeName": "n"}]
    index = {"IndexName": "firsts", "KeySchema": [{"AttributeName": "first"}]}
    request = {"TableName": "t", "KeySchema": keys, "GlobalSecondaryIndexes": [index]}
    meter.record("CreateTable", request, 200, {})
    return meter


def put(meter: Meter, item: dict[str, Any], status: int = 200) -> float:
    meter.reset()
    meter.record("PutItem", {"TableName": "t", "Item": item}, status, {})
    return meter.written


def test_put_counts_kilobytes_even_if_rejected(meter: Meter) -> None:
    assert put(meter, {**KEY, **text(1_000)}) == 1
    assert put(meter, {**KEY, **text(2_048)}) == 3
    assert put(meter, {**KEY, **text(10)}, status=400) == 3


def test_put_item_with_index_keys_counts_index_write(meter: Meter) -> None:
    assert put(meter, {**KEY, **text(2_048), "first": {"S": "y"}}) == 3 + 1


def test_transaction_counts_table_twice_and_index_once(meter: Meter) -> None:
    puts = [
        {"Put": {"TableName": "t", "Item": {"id": {"S": name}, "n": {"N": "1"}, "first": {"S": "y"}}}} for name in "ab"
    ]
    meter.record("TransactWriteItems", {"TransactItems": puts}, 200, {})
    assert meter.written == 2 * (2 + 1)


def test_query_sums_items_but_batch_get_does_not(meter: Meter) -> None:
    keys = [{"id": {"S": "a"}, "n": {"N": str(n)}} for n in range(3)]
    for key in keys:
        put(meter, {**key, **text(2_000), "z": {"B": "AAAA"}})
    meter.reset()
    meter.record("Query", {"TableName": "t", "ConsistentRead": True}, 200, {"Items": keys})
    assert meter.read == 2
    meter.record("Query", {"TableName": "t"}, 200, {"Items": keys})
    assert meter.read == 2 + 1
    meter.record("BatchGetItem", {"RequestItems": {"t": {"Keys": keys, "ConsistentRead": True}}}, 200, {})
    assert meter.read == 2 + 1 + 3


def test_read_missing_item_counts_minimum(meter: Meter) -> None:
    meter.record("GetItem", {"TableName": "t", "Key": KEY, "ConsistentRead": True}, 200, {})
    meter.record("GetItem", {"TableName": "t", "Key": KEY}, 200, {})
    meter.record("Query", {"TableName": "t", "IndexName": "firsts"}, 200, {"Items": []})
    assert (meter.read, meter.written) == (1 + 0.5 + 0.5, 0)


def test_record_unknown_operation_raises(meter: Meter) -> None:
    with pytest.raises(ValueError, match="UpdateItem"):
        meter.record("UpdateItem", {}, 200, {})
