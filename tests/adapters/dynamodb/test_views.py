"""Views and fetched commits on DynamoDB: what is sent, what is left over, what gets lost."""

import base64
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.adapters.aws.client import DYNAMODB
from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.adapters.dynamodb.batches import MOST_IN_VAIN
from chalicelib.adapters.dynamodb.capacity import item_size, write_units
from chalicelib.adapters.dynamodb.items import (
    commit_key,
    item_from_commit,
    item_from_record,
    record_from_item,
    record_key,
)
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.views.record import END, Change, Record
from tests.adapters.aws.wires import Script, Sent, client_on
from tests.builders import a_commit

RECORDS = {item: Record("v", item, 1, f"data of {item}") for item in ("/a", "/b", "/c")}
OURS = Change(Record("v", "/a", 5, "ours"), 3)

OPERATIONS: dict[str, tuple[str, Callable[[DynamoViews], object]]] = {
    "get": ("BatchGetItem", lambda views: views.get("v", ["/a"])),
    "range": ("Query", lambda views: list(views.range("v", "/", END))),
    "put one": ("PutItem", lambda views: views.put([OURS])),
    "put more": ("PutItem", lambda views: views.put([OURS, OURS])),
    "drop": ("Query", lambda views: views.drop("v")),
}


@pytest.fixture
def stub() -> Iterator[Script]:
    """Answers in the place of DynamoDB, in order."""
    script = Script(DYNAMODB)
    yield script
    script.close()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def views(stub: Script, pauses: list[float]) -> DynamoViews:
    return DynamoViews(client_on(stub, DYNAMODB), "views", pauses.append, threads=1)


@pytest.fixture
def log(stub: Script, pauses: list[float]) -> DynamoLog:
    return DynamoLog(client_on(stub, DYNAMODB), "log", "views", pauses.append)


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        (
            Change(RECORDS["/a"], None),
            {
                "ConditionExpression": "attribute_not_exists(#item)",
                "ExpressionAttributeNames": {"#item": "item"},
            },
        ),
        (
            Change(RECORDS["/a"], 0),
            {
                "ConditionExpression": "#to = :was",
                "ExpressionAttributeNames": {"#to": "to"},
                "ExpressionAttributeValues": {":was": {"N": "0"}},
            },
        ),
    ],
    ids=["new", "changed"],
)
def test_a_change_is_one_conditional_put(
    moto_views: DynamoViews, calls: Sent, change: Change, condition: dict[str, Any]
) -> None:
    moto_views.put([change])
    item = {"view": {"S": "v"}, "item": {"S": "/a"}, "to": {"N": "1"}, "data": {"S": "data of /a"}}
    put = {"TableName": "views", "Item": item, **condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    assert calls == [("PutItem", put)]


def test_putting_and_getting_nothing_is_no_call(moto_views: DynamoViews, moto_log: DynamoLog, calls: Sent) -> None:
    moto_views.put([])
    moto_views.get("v", [])
    list(moto_views.range("v", "b", "a"))
    list(moto_log.commits(1, []))
    assert calls == []


def test_a_hundred_items_are_one_consistent_call(moto_views: DynamoViews, calls: Sent) -> None:
    moto_views.get("v", [f"/{n % 100}" for n in range(200)])
    moto_views.get("v", [f"/{n}" for n in range(101)])
    assert [(name, len(sent["RequestItems"]["views"]["Keys"])) for name, sent in calls] == [
        ("BatchGetItem", 100),
        ("BatchGetItem", 100),
        ("BatchGetItem", 1),
    ]
    assert all(sent["RequestItems"]["views"]["ConsistentRead"] for _, sent in calls)


def test_the_first_record_of_a_range_is_one_small_consistent_page(moto_views: DynamoViews, calls: Sent) -> None:
    moto_views.put([Change(Record("v", f"/{n:03d}", 1, ""), None) for n in range(200)])
    calls.clear()
    next(moto_views.range("v", "", "/100", backwards=True))
    assert [(name, sent["Limit"], sent["ConsistentRead"]) for name, sent in calls] == [("Query", 25, True)]


def test_pages_of_a_range_grow_while_it_goes_on(moto_views: DynamoViews, calls: Sent) -> None:
    moto_views.put([Change(Record("v", f"/{n:03d}", 1, ""), None) for n in range(200)])
    calls.clear()
    list(moto_views.range("v", "/", END))
    assert [sent["Limit"] for _, sent in calls] == [25, 100, 400]


def test_dropping_reads_keys_and_deletes_in_batches(moto_views: DynamoViews, calls: Sent) -> None:
    moto_views.put([Change(Record("v", f"/{n:03d}", 1, ""), None) for n in range(60)])
    calls.clear()
    assert moto_views.drop("v") == 60
    assert calls.names == ["Query", *["BatchWriteItem"] * 3]
    assert calls[0][1]["ProjectionExpression"] == "#view, #item"


def test_commits_are_fetched_at_half_price(moto_log: DynamoLog, calls: Sent) -> None:
    moto_log.append([a_commit(session=1), a_commit(session=2)], [], 0)
    calls.clear()
    assert len(list(moto_log.commits(1, [1, 2]))) == 2
    assert [(name, sent["RequestItems"]["log"]["ConsistentRead"]) for name, sent in calls] == [("BatchGetItem", False)]


def test_only_commits_that_seem_missing_are_asked_for_again(log: DynamoLog, stub: Script, pauses: list[float]) -> None:
    old, fresh = a_commit(session=1), a_commit(session=2)
    stub.answers("BatchGetItem", {"Responses": {"log": [item_from_commit(old)]}, "UnprocessedKeys": {}})
    stub.answers(
        "BatchGetItem",
        {"Responses": {"log": [item_from_commit(fresh)]}, "UnprocessedKeys": {}},
        {"RequestItems": {"log": {"Keys": [commit_key(1, 2)], "ConsistentRead": True}}},
    )
    assert list(log.commits(1, [2, 1])) == [fresh, old]
    assert pauses == []


def test_keys_left_over_are_asked_for_again(views: DynamoViews, stub: Script, pauses: list[float]) -> None:
    found(stub, ["/a", "/b", "/c"], there=["/b"], left=["/a", "/c"])
    found(stub, ["/a", "/c"], there=[], left=["/a", "/c"])
    found(stub, ["/a", "/c"], there=[], left=["/a", "/c"])
    found(stub, ["/a", "/c"], there=["/a"], left=["/c"])
    found(stub, ["/c"], there=["/c"], left=[])
    assert views.get("v", ["/a", "/b", "/c"]) == RECORDS
    assert pauses == [0.05, 0.1, 0.2, 0.05]


def test_keys_left_over_for_ever_are_unavailable(views: DynamoViews, stub: Script, pauses: list[float]) -> None:
    for _ in range(MOST_IN_VAIN):
        found(stub, ["/a"], there=[], left=["/a"])
    with pytest.raises(Unavailable, match="1 items of a batch were left over"):
        views.get("v", ["/a"])
    assert len(pauses) == MOST_IN_VAIN - 1
    assert 5 < sum(pauses) < 10


def test_deletes_left_over_are_sent_again(views: DynamoViews, stub: Script, pauses: list[float]) -> None:
    stub.answers("Query", {"Items": [record_key("v", item) for item in RECORDS]})
    deleted(stub, ["/a", "/b", "/c"], left=["/c"])
    deleted(stub, ["/c"], left=["/c"])
    deleted(stub, ["/c"], left=[])
    assert views.drop("v") == 3
    assert pauses == [0.05, 0.1]


@pytest.mark.parametrize("several", [False, True], ids=["alone", "with another"])
@pytest.mark.parametrize(
    ("held", "written"),
    [
        (OURS.record, True),
        (Record("v", "/a", 5, "theirs"), False),
        (Record("v", "/a", 4, "ours"), False),
        (None, False),
    ],
    ids=["ours", "theirs", "an older one", "nothing"],
)
def test_a_refusal_by_our_own_record_is_a_success(
    views: DynamoViews, stub: Script, held: Record | None, written: bool, several: bool
) -> None:
    refuse(stub, held)
    if several:
        stub.answers("PutItem", {})
    other = Change(RECORDS["/b"], None)
    assert views.put([OURS, other] if several else [OURS]) == ([] if written else [OURS])


def test_a_refusal_by_our_own_deflated_record_is_a_success(views: DynamoViews, stub: Script) -> None:
    record = Record("v", "/a", 5, "x" * 3_000)
    assert "z" in item_from_record(record)
    refuse(stub, record)
    assert views.put([Change(record, 3)]) == []


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("code", "status"), [("ThrottlingException", 400), ("InternalServerError", 500)])
def test_throttling_and_server_errors_are_unavailable(
    views: DynamoViews, stub: Script, operation: str, code: str, status: int
) -> None:
    method, call = OPERATIONS[operation]
    stub.refuses(method, code, "sorry", status)
    if operation == "put more":
        stub.answers("PutItem", {})
    with pytest.raises(Unavailable, match=f"DynamoDB does not answer: .*{code}"):
        call(views)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_other_errors_are_not_hidden(views: DynamoViews, stub: Script, operation: str) -> None:
    method, call = OPERATIONS[operation]
    stub.refuses(method, "ValidationException", "no", 400)
    if operation == "put more":
        stub.answers("PutItem", {})
    with pytest.raises(Refusal, match="ValidationException"):
        call(views)


def test_all_other_changes_are_written_when_one_gets_no_answer(views: DynamoViews, stub: Script) -> None:
    stub.answers("PutItem", {})
    stub.refuses("PutItem", "ThrottlingException", "sorry", 400)
    stub.answers("PutItem", {})
    with pytest.raises(Unavailable):
        views.put([Change(record, None) for record in RECORDS.values()])
    # The stub checks that the third was sent before the failure was told.


def test_a_record_is_deflated_when_that_saves_a_write_unit() -> None:
    record = Record("v", "/a", 7, "[" + "1," * 600 + "1]")
    assert item_from_record(record) == {
        "view": {"S": "v"},
        "item": {"S": "/a"},
        "to": {"N": "7"},
        "z": {"B": base64.b64encode(zlib.compress(record.data.encode())).decode()},
    }


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.integers(0, 2**53), st.text(), st.integers(1, 300))
def test_any_record_survives_and_costs_no_more_than_its_text(item: str, to: int, text: str, times: int) -> None:
    record = Record("v", item, to, text * times)
    stored = item_from_record(record)
    assert record_from_item(stored) == record
    plain: Any = {**record_key("v", item), "to": {"N": str(to)}, "data": {"S": record.data}}
    assert write_units(item_size(stored)) <= write_units(item_size(plain))


def found(stub: Script, asked: Sequence[str], there: Sequence[str], left: Sequence[str]) -> None:
    """Let the next get find some, and leave some over."""
    unprocessed = {"views": {"Keys": [record_key("v", item) for item in left], "ConsistentRead": True}}
    stub.answers(
        "BatchGetItem",
        {
            "Responses": {"views": [item_from_record(RECORDS[item]) for item in there]},
            "UnprocessedKeys": unprocessed if left else {},
        },
        {"RequestItems": {"views": {"Keys": [record_key("v", item) for item in asked], "ConsistentRead": True}}},
    )


def deleted(stub: Script, asked: Sequence[str], left: Sequence[str]) -> None:
    """Let the next delete leave some over."""

    def requests(items: Sequence[str]) -> dict[str, Any]:
        return {"views": [{"DeleteRequest": {"Key": record_key("v", item)}} for item in items]}

    stub.answers(
        "BatchWriteItem", {"UnprocessedItems": requests(left) if left else {}}, {"RequestItems": requests(asked)}
    )


def refuse(stub: Script, held: Record | None) -> None:
    """Let the next put be refused because of the record that is there."""
    more: dict[str, Any] = {} if held is None else {"Item": item_from_record(held)}
    stub.refuses("PutItem", "ConditionalCheckFailedException", **more)
