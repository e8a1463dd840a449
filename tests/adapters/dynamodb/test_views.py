"""Views and batches of commits on DynamoDB: requests, unprocessed items and lost responses."""

import base64
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.adapters.aws.client import DYNAMODB
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.dynamodb.batches import MAX_ATTEMPTS_WITHOUT_PROGRESS
from chalicelib.adapters.dynamodb.capacity import item_size, write_units
from chalicelib.adapters.dynamodb.items import (
    item_from_commit,
    item_from_record,
    record_from_item,
    record_key,
)
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.views.record import MAX_CHARACTER, ConditionalWrite, Record
from tests.adapters.aws.transports import CallList, ScriptedTransport, create_test_client
from tests.adapters.dynamodb.conftest import Tables
from tests.builders import a_commit

RECORDS = {item: Record("v", item, 1, f"data of {item}") for item in ("/a", "/b", "/c")}
OURS = ConditionalWrite(Record("v", "/a", 5, "ours"), 3)

OPERATIONS: dict[str, tuple[str, Callable[[DynamoViews], object]]] = {
    "get": ("BatchGetItem", lambda views: views.get("v", ["/a"])),
    "range": ("Query", lambda views: list(views.range("v", "/", MAX_CHARACTER))),
    "put one": ("PutItem", lambda views: views.put([OURS])),
    "put more": ("PutItem", lambda views: views.put([OURS, OURS])),
    "drop": ("Query", lambda views: views.drop("v")),
}


@pytest.fixture
def stub() -> Iterator[ScriptedTransport]:
    transport = ScriptedTransport(DYNAMODB)
    yield transport
    transport.close()


@pytest.fixture
def delays() -> list[float]:
    return []


@pytest.fixture
def views(stub: ScriptedTransport, delays: list[float]) -> DynamoViews:
    return DynamoViews(create_test_client(stub, DYNAMODB), "views", delays.append, threads=1)


@pytest.fixture
def log(stub: ScriptedTransport, delays: list[float]) -> DynamoLog:
    return DynamoLog(create_test_client(stub, DYNAMODB), "log", "views", delays.append)


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        (
            ConditionalWrite(RECORDS["/a"], None),
            {
                "ConditionExpression": "attribute_not_exists(#item)",
                "ExpressionAttributeNames": {"#item": "item"},
            },
        ),
        (
            ConditionalWrite(RECORDS["/a"], 0),
            {
                "ConditionExpression": "#to = :expected",
                "ExpressionAttributeNames": {"#to": "to"},
                "ExpressionAttributeValues": {":expected": {"N": "0"}},
            },
        ),
    ],
    ids=["new", "changed"],
)
def test_put_one_change_is_one_conditional_put(
    table_views: DynamoViews, tables: Tables, calls: CallList, change: ConditionalWrite, condition: dict[str, Any]
) -> None:
    table_views.put([change])
    item = {"view": {"S": "v"}, "item": {"S": "/a"}, "to": {"N": "1"}, "data": {"S": "data of /a"}}
    item["crc"] = {"N": str(zlib.crc32(b"v\0/a\0001\0data of /a"))}
    put = {"TableName": tables.views, "Item": item, **condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    assert calls == [("PutItem", put)]


def test_empty_requests_make_no_call(table_views: DynamoViews, table_log: DynamoLog, calls: CallList) -> None:
    table_views.put([])
    table_views.get("v", [])
    list(table_views.range("v", "b", "a"))
    list(table_log.commits(1, []))
    assert calls == []


def test_get_hundred_items_is_one_consistent_call(table_views: DynamoViews, tables: Tables, calls: CallList) -> None:
    table_views.get("v", [f"/{n % 100}" for n in range(200)])
    table_views.get("v", [f"/{n}" for n in range(101)])
    assert [(name, len(sent["RequestItems"][tables.views]["Keys"])) for name, sent in calls] == [
        ("BatchGetItem", 100),
        ("BatchGetItem", 100),
        ("BatchGetItem", 1),
    ]
    assert all(sent["RequestItems"][tables.views]["ConsistentRead"] for _, sent in calls)


def test_range_first_record_is_one_small_page(table_views: DynamoViews, calls: CallList) -> None:
    table_views.put([ConditionalWrite(Record("v", f"/{n:03d}", 1, ""), None) for n in range(200)])
    calls.clear()
    next(table_views.range("v", "", "/100", backwards=True))
    assert [(name, sent["Limit"], sent["ConsistentRead"]) for name, sent in calls] == [("Query", 25, True)]


def test_range_pages_grow(table_views: DynamoViews, calls: CallList) -> None:
    table_views.put([ConditionalWrite(Record("v", f"/{n:03d}", 1, ""), None) for n in range(200)])
    calls.clear()
    list(table_views.range("v", "/", MAX_CHARACTER))
    assert [sent["Limit"] for _, sent in calls] == [25, 100, 400]


def test_drop_reads_keys_and_deletes_in_batches(table_views: DynamoViews, calls: CallList) -> None:
    table_views.put([ConditionalWrite(Record("v", f"/{n:03d}", 1, ""), None) for n in range(60)])
    calls.clear()
    assert table_views.drop("v") == 60
    assert calls.names == ["Query", *["BatchWriteItem"] * 3]
    assert calls[0][1]["ProjectionExpression"] == "#view, #item"


def test_commits_are_read_eventually_consistent(table_log: DynamoLog, tables: Tables, calls: CallList) -> None:
    for session in (1, 2):
        table_log.append([a_commit(session)])
    calls.clear()
    assert len(list(table_log.commits(1, [1, 2]))) == 2
    reads = [(name, sent["RequestItems"][tables.log]["ConsistentRead"]) for name, sent in calls]
    assert reads == [("BatchGetItem", False)]


def test_commits_missing_are_read_again_consistently(
    log: DynamoLog, stub: ScriptedTransport, delays: list[float]
) -> None:
    old, fresh = a_commit(session=1), a_commit(session=2)
    stub.expect("BatchGetItem", {"Responses": {"log": [item_from_commit(old)]}, "UnprocessedKeys": {}})
    stub.expect("Query", {"Items": [item_from_commit(fresh)]})
    assert list(log.commits(1, [2, 1])) == [fresh, old]
    assert delays == []


def test_get_retries_unprocessed_keys(views: DynamoViews, stub: ScriptedTransport, delays: list[float]) -> None:
    expect_get(stub, ["/a", "/b", "/c"], present=["/b"], unprocessed=["/a", "/c"])
    expect_get(stub, ["/a", "/c"], present=[], unprocessed=["/a", "/c"])
    expect_get(stub, ["/a", "/c"], present=[], unprocessed=["/a", "/c"])
    expect_get(stub, ["/a", "/c"], present=["/a"], unprocessed=["/c"])
    expect_get(stub, ["/c"], present=["/c"], unprocessed=[])
    assert views.get("v", ["/a", "/b", "/c"]) == RECORDS
    assert delays == [0.05, 0.1, 0.2, 0.05]


def test_get_without_progress_raises_unavailable(
    views: DynamoViews, stub: ScriptedTransport, delays: list[float]
) -> None:
    for _ in range(MAX_ATTEMPTS_WITHOUT_PROGRESS):
        expect_get(stub, ["/a"], present=[], unprocessed=["/a"])
    with pytest.raises(Unavailable, match="it left 1 items of a batch unprocessed"):
        views.get("v", ["/a"])
    assert len(delays) == MAX_ATTEMPTS_WITHOUT_PROGRESS - 1
    assert 5 < sum(delays) < 10


def test_drop_retries_unprocessed_deletes(views: DynamoViews, stub: ScriptedTransport, delays: list[float]) -> None:
    stub.expect("Query", {"Items": [record_key("v", item) for item in RECORDS]})
    expect_delete(stub, ["/a", "/b", "/c"], unprocessed=["/c"])
    expect_delete(stub, ["/c"], unprocessed=["/c"])
    expect_delete(stub, ["/c"], unprocessed=[])
    assert views.drop("v") == 3
    assert delays == [0.05, 0.1]


@pytest.mark.parametrize("several", [False, True], ids=["alone", "with another"])
@pytest.mark.parametrize(
    ("stored_record", "written"),
    [
        (OURS.record, True),
        (Record("v", "/a", 5, "theirs"), False),
        (Record("v", "/a", 4, "ours"), False),
        (None, False),
    ],
    ids=["ours", "theirs", "an older one", "nothing"],
)
def test_put_conflict_with_own_record_succeeds(
    views: DynamoViews, stub: ScriptedTransport, stored_record: Record | None, written: bool, several: bool
) -> None:
    expect_conflict(stub, stored_record)
    if several:
        stub.expect("PutItem", {})
    other = ConditionalWrite(RECORDS["/b"], None)
    assert views.put([OURS, other] if several else [OURS]) == ([] if written else [OURS])


def test_put_conflict_with_own_deflated_record_succeeds(views: DynamoViews, stub: ScriptedTransport) -> None:
    record = Record("v", "/a", 5, "x" * 3_000)
    assert "z" in item_from_record(record)
    expect_conflict(stub, record)
    assert views.put([ConditionalWrite(record, 3)]) == []


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("code", "status"), [("ThrottlingException", 400), ("InternalServerError", 500)])
def test_views_retryable_error_raises_unavailable(
    views: DynamoViews, stub: ScriptedTransport, operation: str, code: str, status: int
) -> None:
    method, call = OPERATIONS[operation]
    stub.expect_error(method, code, "sorry", status)
    if operation == "put more":
        stub.expect("PutItem", {})
    with pytest.raises(Unavailable, match=f"DynamoDB is temporarily unavailable: .*{code}"):
        call(views)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_views_final_error_raises_service_error(views: DynamoViews, stub: ScriptedTransport, operation: str) -> None:
    method, call = OPERATIONS[operation]
    stub.expect_error(method, "ValidationException", "no", 400)
    if operation == "put more":
        stub.expect("PutItem", {})
    with pytest.raises(ServiceError, match="ValidationException"):
        call(views)


def test_put_failure_of_one_change_writes_the_others(views: DynamoViews, stub: ScriptedTransport) -> None:
    stub.expect("PutItem", {})
    stub.expect_error("PutItem", "ThrottlingException", "sorry", 400)
    stub.expect("PutItem", {})
    with pytest.raises(Unavailable):
        views.put([ConditionalWrite(record, None) for record in RECORDS.values()])
    # The stub checks that the third change was sent before the failure was raised.


def test_item_from_large_record_is_deflated() -> None:
    record = Record("v", "/a", 7, "[" + "1," * 600 + "1]")
    assert item_from_record(record) == {
        "view": {"S": "v"},
        "item": {"S": "/a"},
        "to": {"N": "7"},
        "crc": {"N": str(record.checksum)},
        "z": {"B": base64.b64encode(zlib.compress(record.data.encode())).decode()},
    }


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.integers(0, 2**53), st.text(), st.integers(1, 300))
def test_record_round_trip_costs_no_more_than_plain(item: str, to: int, text: str, times: int) -> None:
    record = Record("v", item, to, text * times)
    stored = item_from_record(record)
    assert record_from_item(stored) == record
    plain: Any = {**record_key("v", item), "to": {"N": str(to)}, "data": {"S": record.data}, "crc": stored["crc"]}
    assert write_units(item_size(stored)) <= write_units(item_size(plain))


def expect_get(
    stub: ScriptedTransport, requested: Sequence[str], present: Sequence[str], unprocessed: Sequence[str]
) -> None:
    """Expect a BatchGetItem that returns some items and leaves some unprocessed."""

    def request(items: Sequence[str]) -> dict[str, Any]:
        return {"views": {"Keys": [record_key("v", item) for item in items], "ConsistentRead": True}}

    stub.expect(
        "BatchGetItem",
        {
            "Responses": {"views": [item_from_record(RECORDS[item]) for item in present]},
            "UnprocessedKeys": request(unprocessed) if unprocessed else {},
        },
        {"RequestItems": request(requested)},
    )


def expect_delete(stub: ScriptedTransport, requested: Sequence[str], unprocessed: Sequence[str]) -> None:
    """Expect a BatchWriteItem that leaves some items unprocessed."""

    def requests(items: Sequence[str]) -> dict[str, Any]:
        return {"views": [{"DeleteRequest": {"Key": record_key("v", item)}} for item in items]}

    stub.expect(
        "BatchWriteItem",
        {"UnprocessedItems": requests(unprocessed) if unprocessed else {}},
        {"RequestItems": requests(requested)},
    )


def expect_conflict(stub: ScriptedTransport, stored_record: Record | None) -> None:
    """Expect a put and refuse it because of the stored record."""
    more: dict[str, Any] = {} if stored_record is None else {"Item": item_from_record(stored_record)}
    stub.expect_error("PutItem", "ConditionalCheckFailedException", **more)
