"""Requests that wait for a write share the next item. Two hubs and a function agree on one log."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from annals_client.sans_io import new_uuid7
from chalicelib.adapters.dynamodb.items import K, N, head_from_item
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import verify_contiguous
from tests.hub.conftest import StartHub
from tests.hub.recording_proxy import RecordingProxy
from tests.server.raw_connection import RawConnection, post
from tests.serving import Member, Server

REQUESTS = 40
WRITERS = 8


def test_concurrent_requests_share_items(hub: Server, member: Member, proxy: RecordingProxy, log: DynamoLog) -> None:
    member.publish("first")
    proxy.forget_calls()
    with ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(hub)) for _ in range(REQUESTS)]
        with proxy.holding("PutItem"):
            for number, connection in enumerate(connections):
                connection.send(post(member, f"t{number}"))
            proxy.await_held_call()
            assert hub.client.get("/health").status_code == 200
        answers = [connection.response() for connection in connections]
    assert {answer.status for answer in answers} == {201}
    sessions = [answer.json["events"][0]["id"]["session"] for answer in answers]
    assert sorted(sessions) == list(range(2, REQUESTS + 2))
    items = [params["Item"] for params in proxy.calls("PutItem")]
    assert sum(int(item[N]["N"]) for item in items) == REQUESTS
    assert len(items) < REQUESTS
    assert max(int(item.get(K, {"N": "1"})["N"]) for item in items) > 1
    assert [commit.session for commit in verify_contiguous(Head(1), log.read(1, 0))] == list(range(1, REQUESTS + 2))
    assert head_from_item(items[-1]) == log.head(1)


def test_key_sent_to_two_hubs_is_written_once(start_hub: StartHub, log: DynamoLog) -> None:
    hubs = [start_hub(), start_hub()]
    first = hubs[0].organization()
    members = [first, hubs[1].member(first.organization)]

    def publish(number: int) -> tuple[int, Any]:
        answer = members[number % 2].post({"events": [{"type": ["a"]}]}, **{"Idempotency-Key": f"k{number // 4}"})
        return answer.status_code, answer.json()["events"]

    with ThreadPoolExecutor(WRITERS) as pool:
        answers = list(pool.map(publish, range(REQUESTS)))
    assert sorted(status for status, _ in answers) == [200] * (REQUESTS * 3 // 4) + [201] * (REQUESTS // 4)
    for key in range(REQUESTS // 4):
        events = [events for _, events in answers[4 * key : 4 * key + 4]]
        assert events == [events[0]] * 4
    commits = list(verify_contiguous(Head(1), log.read(1, 0)))
    assert sorted(commit.idempotency_key for commit in commits) == sorted(f"k{key}" for key in range(REQUESTS // 4))


def test_condition_on_two_hubs_lets_one_request_pass(start_hub: StartHub, log: DynamoLog) -> None:
    hubs = [start_hub(), start_hub()]
    first = hubs[0].organization()
    members = [first, hubs[1].member(first.organization)]

    def publish(number: int) -> int:
        key = f"/seat/{number // WRITERS}"
        body = {"events": [{"type": ["taken"], "key": key}], "condition": {"failIfEventsMatch": {"keys": [key]}}}
        return members[number % 2].post(body).status_code

    with ThreadPoolExecutor(WRITERS) as pool:
        statuses = list(pool.map(publish, range(REQUESTS)))
    assert [statuses[i : i + WRITERS].count(201) for i in range(0, REQUESTS, WRITERS)] == [1] * (REQUESTS // WRITERS)
    assert set(statuses) == {201, 409}
    taken = [str(event.fields.key) for commit in log.read(1, 0) for event in commit.events]
    assert sorted(taken) == [f"/seat/{seat}" for seat in range(REQUESTS // WRITERS)]


def test_hubs_write_logs_of_two_organizations_in_parallel(hub: Server, member: Member, proxy: RecordingProxy) -> None:
    """A put of one log is held. A request to the other log is answered meanwhile."""
    other = hub.organization()
    other.publish("warm")
    member.publish("warm")
    with RawConnection(hub) as held:
        with proxy.holding("PutItem", server=1):
            held.send(post(member, "held"))
            proxy.await_held_call()
            assert [event["id"]["session"] for event in other.publish("free")] == [2]
        assert held.response().status == 201


def test_new_keys_on_hub_take_no_read(member: Member, proxy: RecordingProxy) -> None:
    """The first request reads where the log ends, and the organization is known."""

    def publish(number: int) -> int:
        body = {"events": [{"type": ["a"], "key": f"/{number}"}]}
        return member.post(body, **{"Idempotency-Key": new_uuid7()}).status_code

    assert publish(0) == 201
    proxy.forget_calls()
    with ThreadPoolExecutor(WRITERS) as pool:
        assert set(pool.map(publish, range(1, REQUESTS))) == {201}
    assert 0 < len(proxy.calls("PutItem")) < REQUESTS
    assert [operation for operation in ("Query", "GetItem", "BatchGetItem") if proxy.calls(operation)] == []
