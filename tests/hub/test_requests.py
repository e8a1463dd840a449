"""The routes of a hub, and what it does not have."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from select import select

import pytest

from chalicelib.wiring.components import MAX_WAITING_ON_HUB
from infra.server.hub import Hub
from tests.conformance.anyjob import anyjob
from tests.hub.conftest import StartHub
from tests.hub.recording_proxy import RecordingProxy
from tests.server.raw_connection import RawConnection, get, post, request
from tests.serving import TIMEOUT_S, Member, Server


def test_append_through_the_hub_is_read_back(member: Member) -> None:
    events = member.publish("a", "b") + member.publish("c")
    assert [event["position"] for event in events] == [1, 2, 3]
    answer = member.get("/events").json()
    assert (answer["TYPE"], answer["eventSnapshots"]) == ("NonEmpty", events)
    assert member.get("/events", params={"types": "b"}).json()["eventSnapshots"] == [events[1]]
    assert member.get("/events/latest").json()["events"] == events


def test_empty_append_returns_the_head(member: Member) -> None:
    (event,) = member.publish("a")
    answer = member.post({"events": []})
    assert (answer.status_code, answer.json()["eventId"]) == (200, event["eventId"])


def test_append_to_missing_organization_is_refused(hub: Server) -> None:
    assert hub.member("missing").post({"events": [{"type": ["a"]}]}).status_code == 404


def test_reads_that_hang_do_not_block_appends(hub: Server, member: Member, proxy: RecordingProxy) -> None:
    """An empty append and one to an unknown organization read the store, but never in the server thread."""
    member.publish("warm")
    stranger = hub.member("missing")
    assert stranger.post({"events": [{"type": ["a"]}]}).status_code == 404
    with RawConnection(hub) as empty, RawConnection(hub) as unknown:
        with proxy.holding("Query"):
            empty.send(request("POST", "/events", b'{"events":[]}', Authorization=f"Bearer {member.token}"))
            proxy.await_held_call()
            unknown.send(post(stranger, "a"))
            proxy.await_held_call()
            (event,) = member.publish("b")
        assert [empty.response().status, unknown.response().status] == [200, 404]
    assert event["position"] == 2


def test_reads_that_hang_do_not_block_the_container_check(hub: Server, member: Member, proxy: RecordingProxy) -> None:
    """All workers wait for DynamoDB. ECS would replace a task that does not answer `GET /`."""
    member.publish("a")
    statuses = []
    with ExitStack() as stack:
        reading = [stack.enter_context(RawConnection(hub)) for _ in range(Hub.worker_threads)]
        checking = stack.enter_context(RawConnection(hub))
        with proxy.holding("Query"):
            for connection in reading:
                connection.send(get(member, "/events?after=0"))
            proxy.await_held_call()
            for method in ("GET", "HEAD"):
                checking.send(request(method, "/"))
                statuses.append(checking.response(method).status)
            assert select([connection.socket for connection in reading], [], [], 0.0)[0] == []
        assert {connection.response().status for connection in reading} == {200}
    assert statuses == [200, 405]


def test_requests_about_one_jobset_leave_workers_to_others(hub: Server, member: Member, proxy: RecordingProxy) -> None:
    numbers = range(1, Hub.worker_threads + 10)
    anyjob.publish(member, anyjob.create_set(7, len(numbers)), *(anyjob.create(number, 7) for number in numbers))
    headers = {"Authorization": f"Bearer {member.token}"}
    with ExitStack() as stack:
        finishing = [stack.enter_context(RawConnection(hub)) for _ in numbers]
        with proxy.holding("PutItem"):
            for connection, number in zip(finishing, numbers, strict=True):
                body = json.dumps({"events": [anyjob.finish(number, 7)]}).encode()
                connection.send(request("POST", "/events/job", body, **headers))
            proxy.await_held_call()
            assert member.get("/jobs/1").status_code == 200
            waiting = {connection.socket: connection for connection in finishing}
            while len(waiting) > MAX_WAITING_ON_HUB + 1:
                answered, _, _ = select(waiting, [], [], TIMEOUT_S)
                refusals = [waiting.pop(sock).response() for sock in answered]
                assert {(refusal.status, "retry-after" in refusal.headers) for refusal in refusals} == {(503, True)}
        assert [connection.response().status for connection in waiting.values()] == [201] * (MAX_WAITING_ON_HUB + 1)


def test_job_events_through_the_hub_become_a_job(member: Member) -> None:
    job = {"node": "n1", "id": 117, "type": "backup"}
    body = {"events": [{"event": "create", **job}, {"event": "finish", **job, "success": "1", "message": "ok"}]}
    assert member.request("POST", "/events/job", json=body).status_code == 201
    assert member.get("/jobs/117").json()["result"]["success"] == "1"


def test_large_append_through_the_hub_is_acknowledged(member: Member) -> None:
    data = {"type": "json", "data": "x" * 90_000}
    answer = member.post({"events": [{"type": ["large"], "payload": data}] * 3})
    assert (answer.status_code, len(answer.json()["events"])) == (201, 3)


def test_stream_on_the_hub_sends_its_commits(hub: Server, member: Member) -> None:
    (first,) = member.publish("a")
    headers = {**member.headers, "Accept": "text/event-stream"}
    with hub.client.stream("GET", "/events", headers=headers, params={"timeout": "30s"}) as stream:
        lines = stream.iter_lines()
        assert _next_event(lines) == first
        (second,) = member.publish("b")
        assert _next_event(lines) == second


def test_long_poll_on_the_hub_returns_its_commit(hub: Server, member: Member) -> None:
    (first,) = member.publish("a")
    with RawConnection(hub) as polling:
        polling.send(get(member, f"/events?timeout=30s&after={first['eventId']}"))
        (second,) = member.publish("b")
        assert polling.response().json["eventSnapshots"] == [second]


def test_health_of_the_hub_names_the_logs(hub: Server, member: Member) -> None:
    member.publish("a")
    answer = hub.client.get("/health")
    assert answer.status_code == 200
    assert [head["id"]["session"] for head in answer.json()["heads"]] == [1]


def test_hub_has_no_files_and_no_worker_processes(hub: Server, member: Member) -> None:
    member.publish("a")
    assert [path.name for path in hub.data_dir.iterdir()] == ["output.txt"]
    pid = hub.process.pid
    children = [Path(f"/proc/{pid}/task/{task.name}/children") for task in Path(f"/proc/{pid}/task").iterdir()]
    assert "".join(path.read_text() for path in children) == ""


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"JWT_KEY": ""}, "set OIDC_ISSUER or JWT_KEY"),
        ({"JWT_KEY": "short"}, "JWT_KEY is too short"),
        ({"STORE": "cassandra"}, "STORE is 'cassandra'"),
    ],
    ids=["no key", "short key", "unknown store"],
)
def test_hub_with_bad_settings_exits(start_hub: StartHub, environment: dict[str, str], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        start_hub(**environment)


def _next_event(lines: Iterator[str]) -> object:
    return next(json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))
