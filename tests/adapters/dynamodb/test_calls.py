"""The calls that each operation of the log makes. Each of them costs money and time."""

from itertools import islice

import pytest

from chalicelib.adapters.dynamodb.items import commit_key
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.domain.errors import SessionTaken
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, configuration_log, inbox_log
from chalicelib.domain.views.record import ConditionalWrite, Record
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.reading.retention import Retention
from tests.adapters.aws.transports import CallList
from tests.adapters.dynamodb.conftest import Tables
from tests.builders import NOW_S, a_commit, a_run, incompressible_text


def test_append_one_commit_is_one_conditional_put(table_log: DynamoLog, tables: Tables, calls: CallList) -> None:
    table_log.append([a_commit(session=1, request_id="r", server=3, texts=("{}",))])
    assert calls == [
        (
            "PutItem",
            {
                "TableName": tables.log,
                "Item": {
                    "server": {"N": "3"},
                    "session": {"N": "1"},
                    "at": {"N": "1000"},
                    "n": {"N": "1"},
                    "prev": {"N": "0"},
                    "before": {"N": "0"},
                    "req": {"S": "r"},
                    "crc": {"S": "2108266488"},
                    "body": {"S": "[{}]"},
                },
                "ConditionExpression": "attribute_not_exists(#session)",
                "ExpressionAttributeNames": {"#session": "session"},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            },
        )
    ]


def test_append_taken_session_is_one_put(table_log: DynamoLog, calls: CallList) -> None:
    append(table_log, a_commit(request_id="theirs"))
    with pytest.raises(SessionTaken):
        append(table_log, a_commit(request_id="ours"))
    append(table_log, a_commit(request_id="theirs"))
    assert calls.names == ["PutItem"] * 3


def test_append_two_commits_is_one_put(table_log: DynamoLog, calls: CallList) -> None:
    table_log.append(a_run("a", "b"))
    table_log.append(a_run("a", "b"))
    assert calls.names == ["PutItem"] * 2


def test_append_of_unrelated_commits_is_an_error(table_log: DynamoLog, calls: CallList) -> None:
    large = [
        a_commit(texts=(incompressible_text(350_000),), session=1),
        a_commit(texts=(incompressible_text(350_000),), session=2),
    ]
    for commits in ([a_commit(1), a_commit(3)], [a_commit(1, server=1), a_commit(1, server=2)], large):
        with pytest.raises(ValueError, match="cannot be stored in one item"):
            table_log.append(commits)
    assert calls == []


def test_read_methods_make_one_consistent_call(table_log: DynamoLog, calls: CallList) -> None:
    table_log.append([a_commit()])
    calls.clear()
    table_log.head(1)
    table_log.commit(1, 1)
    list(table_log.read(1, 0))
    list(table_log.read(1, 1))
    list(table_log.read_backwards(1, 2))
    assert calls.names == ["Query"] * 5
    assert [sent["ConsistentRead"] for _, sent in calls] == [True] * 5


def test_read_from_unknown_position_looks_for_rest_of_group(
    table_log: DynamoLog, tables: Tables, calls: CallList
) -> None:
    table_log.append(a_run("a", "b", "c"))
    other = DynamoLog(tables.client, tables.log, tables.views)
    calls.clear()
    assert [commit.session for commit in other.read(1, 2)] == [3]
    assert list(other.read(1, 3)) == []
    assert calls.names == ["Query"] * 3


def test_has_newer_commit_is_one_eventually_consistent_read(table_log: DynamoLog, calls: CallList) -> None:
    assert not table_log.has_newer_commit(Head(1))
    append(table_log, a_commit())
    assert (table_log.has_newer_commit(Head(1)), table_log.has_newer_commit(Head(1, 1))) == (True, False)
    reads = [sent for name, sent in calls if name == "GetItem"]
    assert (len(reads), any("ConsistentRead" in sent for sent in reads), calls.names.count("PutItem")) == (3, False, 1)
    assert "body" not in str(reads)


def test_head_queries_one_item_without_body(table_log: DynamoLog, calls: CallList) -> None:
    table_log.head(1)
    ((name, sent),) = calls
    assert (name, sent["Limit"], sent["ScanIndexForward"]) == ("Query", 1, False)
    assert "body" not in sent["ExpressionAttributeNames"].values()


def test_read_fetches_pages_on_demand(table_log: DynamoLog, calls: CallList) -> None:
    stored = [a_commit(session=n, texts=(f'"{incompressible_text(300_000, seed=n)}"',)) for n in range(1, 8)]
    for commit in stored:
        append(table_log, commit)
    calls.clear()
    reading = table_log.read(1, 0)
    assert calls.names == []
    assert list(islice(reading, 1)) == stored[:1]
    assert calls.names == ["Query"]
    assert list(reading) == stored[1:]
    assert calls.names == ["Query"] * 2


def test_read_with_limit_limits_each_page(table_log: DynamoLog, calls: CallList) -> None:
    stored = [a_commit(session=n, texts=(f'"{incompressible_text(300_000, seed=n)}"',)) for n in range(1, 8)]
    for commit in stored:
        append(table_log, commit)
    calls.clear()
    assert list(table_log.read(1, 0, limit=6)) == stored[:6]
    limits = [sent["Limit"] for _, sent in calls]
    # A page has 4 of these commits in moto and 5 in DynamoDB.
    assert limits in ([6, 2], [6, 1])


def append(log: DynamoLog, commit: Commit) -> None:
    log.append([commit])


def test_append_with_retention_sets_ttl_except_configuration(tables: Tables) -> None:
    log = DynamoLog(tables.client, tables.log, tables.views, retention_s=60.0)
    views = DynamoViews(tables.client, tables.views, threads=1)
    commit = a_commit(session=1, at=5_000_000)
    log.append([commit])
    for server in (DIRECTORY_SERVER, configuration_log(1), inbox_log(1)):
        log.append([a_commit(session=1, server=server, at=5_000_000)])
    items = tables.client.call("Scan", {"TableName": tables.log})["Items"]
    assert {int(item["server"]["N"]): item.get("ttl") for item in items} == {
        1: {"N": "66"},
        inbox_log(1): {"N": "66"},
        DIRECTORY_SERVER: None,
        configuration_log(1): None,
    }
    catch_up(projector(views), 1, log, views)
    tables.client.call("DeleteItem", {"TableName": tables.log, "Key": commit_key(1, 1)})
    assert log.head(1) == commit.head


def test_put_record_sets_ttl_only_if_it_expires(tables: Tables) -> None:
    views = DynamoViews(tables.client, tables.views, threads=1)
    kept, expiring = Record("1/delivery/ops", "a", 1, "{}"), Record("1/delivery/ops", "b", 1, "{}")
    assert views.put([ConditionalWrite(kept, None), ConditionalWrite(expiring, None, NOW_S)]) == []
    items = tables.client.call("Scan", {"TableName": tables.views})["Items"]
    assert {item["item"]["S"]: item.get("ttl") for item in items} == {"a": None, "b": {"N": str(NOW_S)}}
    assert views.get("1/delivery/ops", ["a", "b"]) == {"a": kept, "b": expiring}


def test_retention_boundary_takes_one_call_once_known(tables: Tables, calls: CallList) -> None:
    """The first call searches the log. Later calls read the next commit, and a few more when commits have expired."""
    log, now_ms = DynamoLog(tables.client, tables.log, tables.views, retention_s=50.0), 100_000
    for session in range(1, 201):
        append(log, a_commit(session=session, at=session * 1_000_000, prev=(session - 1) * 1_000_000))
    retention = Retention(log, lambda: now_ms, age_s=50.0)
    assert retention.boundary(1).head.session == 49
    calls.clear()
    for _ in range(10):
        assert retention.boundary(1).head.session == 49
    assert calls.names == ["Query"] * 10
    calls.clear()
    now_ms += 1_000
    assert retention.boundary(1).head.session == 50
    assert len(calls.names) <= 3
    calls.clear()
    now_ms += 60_000
    assert retention.boundary(1).head.session == 110
    assert len(calls.names) <= 14
