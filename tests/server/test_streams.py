"""Streams and long polls over sockets: contents, order, and several of them on one connection."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.server.client_group import MAX_WAIT_S, NDJSON, SSE, Client, ClientGroup, client_group, wait_until_processed
from tests.server.raw_connection import get, post, request
from tests.serving import Member, Server, run_server

FOREVER = "timeout=1h"
ORDERS = "/jobscheduler/master/api/order/"


@pytest.fixture(name="group")
def fixture_group(server: Server) -> Iterator[ClientGroup]:
    with client_group(server) as group:
        yield group


def publish_many(member: Member, number: int, type_: str = "a", size: int = 0) -> list[int]:
    """Publish events in one request and return their EventIds."""
    event = {"type": type_.split("/"), "payload": {"type": "json", "data": "x" * size}}
    answer = member.post({"events": [event] * number})
    assert answer.status_code == 201, answer.text
    return [event["eventId"] for event in answer.json()["events"]]


def start_push(member: Member, job: str) -> int:
    start = {"event": "start", "job": job, "command": "ls", "run_timeout": 9, "node_count": 1, "user": "anna"}
    answer = member.request("POST", "/events/push", json=start)
    assert answer.status_code == 201, answer.text
    event_id: int = answer.json()["eventId"]
    return event_id


def add_order(member: Member, key: str) -> int:
    event = {"TYPE": "OrderAdded", "key": key, "nodeId": "100"}
    answer = member.request("POST", "/events/scheduler", json=event)
    assert answer.status_code == 201, answer.text
    event_id: int = answer.json()["eventId"]
    return event_id


def flatten(ids: list[list[int]]) -> list[int]:
    return [event_id for batch in ids for event_id in batch]


def all_have_last(clients: list[Client], ids: list[int]) -> bool:
    return all(client.ids[-1:] == ids[-1:] for client in clients)


def test_all_feed_formats_contain_the_same_events(group: ClientGroup, member: Member) -> None:
    lines = group.open_streams(get(member, f"/events?{FOREVER}", **NDJSON), 5)
    sent = group.open_streams(get(member, "/events", **SSE), 5)
    polls = group.start_polls(member, f"/events?{FOREVER}", 0, 5)
    ids = [event_id for number in (1, 3, 1, 40, 1) for event_id in publish_many(member, number)]
    clients = [*lines, *sent, *polls]
    group.wait_until(lambda: all_have_last(clients, ids))
    assert [client.ids for client in clients] == [ids] * 15
    (body,) = {client.only_response.body for client in lines}
    events = [json.loads(line) for line in body.splitlines()]
    assert [event for got in polls[0].completed for event in got.json["eventSnapshots"]] == events
    assert [json.loads(text) for text in _data(sent[0].only_response.body)] == events == member.read_log()["events"]


@pytest.mark.parametrize("accept", [NDJSON, SSE], ids=["lines", "server-sent"])
def test_http_1_0_stream_has_no_chunks_and_ends_by_close(
    accept: dict[str, str], group: ClientGroup, member: Member
) -> None:
    first = publish_many(member, 2)
    asked = get(member, "/events?timeout=1h&limit=4", Connection="keep-alive", **accept)
    (client,) = group.open_streams(asked.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n"))
    group.wait_until(lambda: client.ids == first)
    ids = [*first, *publish_many(member, 2)]
    group.wait_until(lambda: client.is_closed)
    assert client.only_response.ids == ids
    assert ("transfer-encoding" in client.only_response.headers, client.only_response.headers["connection"]) == (
        False,
        "close",
    )


@pytest.mark.parametrize(
    ("target", "accept", "beat"),
    [
        ("/events?timeout=1h&heartbeat=0.05s", NDJSON, b"\n"),
        ("/events?heartbeat=0.05s", SSE, b":keepalive\n"),
    ],
)
def test_idle_stream_sends_heartbeats(
    target: str, accept: dict[str, str], beat: bytes, group: ClientGroup, member: Member
) -> None:
    clients = group.open_streams(get(member, target, **accept), 20)
    group.wait_until(lambda: all(client.only_response.body.count(beat) >= 3 for client in clients))
    ids = publish_many(member, 1)
    group.wait_until(lambda: all_have_last(clients, ids))
    assert {client.only_response.body.partition(b"{")[0].replace(beat, b"") for client in clients} <= {b"", _id(ids[0])}
    assert [client.ids for client in clients] == [ids] * 20


def test_push_job_feeds_send_heartbeats(tmp_path: Path) -> None:
    with run_server(tmp_path, KEEP_ALIVE_TIME="0.2") as quick, client_group(quick) as group:
        member = quick.organization()
        started = start_push(member, "j1")
        feed = f"/organizations/{member.organization}/pushy/job_status_feed"
        (all_jobs,) = group.open_streams(get(member, feed, **SSE))
        (one_job,) = group.open_streams(get(member, f"{feed}/j1", **SSE))
        group.wait_until(
            lambda: all(client.only_response.body.count(b":keepalive\n") >= 3 for client in (all_jobs, one_job))
        )
        second = start_push(member, "j2")
        group.wait_until(lambda: all_jobs.ids == [second])
        assert one_job.ids == [started]


def test_filtered_feed_contains_only_matching_events(group: ClientGroup, member: Member) -> None:
    names = ("red", "green", "blue")
    waiting = {
        name: [
            *group.open_streams(get(member, f"/events?types={name}/*&{FOREVER}", **NDJSON), 4),
            *group.open_streams(get(member, f"/events?types={name}/*", **SSE), 4),
            *group.start_polls(member, f"/events?types={name}/*&{FOREVER}", 0, 4),
        ]
        for name in names
    }
    ids: dict[str, list[int]] = {name: [] for name in names}
    for round_ in range(4):
        for name in names[: 2 + round_ % 2]:
            ids[name] += publish_many(member, 2, f"{name}/{round_}")
    group.wait_until(lambda: all(all_have_last(waiting[name], ids[name]) for name in names))
    assert {name: [client.ids for client in waiting[name]] for name in names} == {
        name: [ids[name]] * 12 for name in names
    }
    assert len(waiting["blue"][-1].completed) <= len(ids["blue"])


def test_streams_keep_log_order_during_concurrent_appends(group: ClientGroup, member: Member) -> None:
    clients = [
        *group.open_streams(get(member, f"/events?{FOREVER}", **NDJSON), 40),
        *group.open_streams(get(member, "/events", **SSE), 40),
        *group.start_polls(member, f"/events?{FOREVER}", 0, 20),
    ]
    with ThreadPoolExecutor(8) as publishers:
        published = [publishers.submit(publish_many, member, 1 + number % 3, f"n{number}") for number in range(200)]
        group.wait_until(lambda: all(append.done() for append in published))
    stored = [event["eventId"] for event in member.read_log()["events"]]
    group.wait_until(lambda: all_have_last(clients, stored))
    assert len(stored) == sum(1 + number % 3 for number in range(200))
    assert [client.ids == stored for client in clients] == [True] * len(clients)


def test_stream_from_the_past_catches_up_beside_live_streams(group: ClientGroup, member: Member) -> None:
    ids = [event_id for _ in range(50) for event_id in publish_many(member, 1_000)]
    live = group.open_streams(get(member, f"/events?after={ids[-1]}&{FOREVER}", **NDJSON), 10)
    late = group.connect(get(member, f"/events?{FOREVER}", **NDJSON), 2)
    late += group.connect(get(member, f"/events?after={ids[9]}", **SSE), 2)
    fresh: list[int] = []
    for _ in range(10):
        fresh.extend(publish_many(member, 1))
        group.wait_until(lambda: all_have_last(live, fresh))
    assert [client.ids for client in live] == [fresh] * 10
    group.wait_until(lambda: all(str(fresh[-1]).encode() in client.received[-500:] for client in late))
    assert [client.ids for client in late] == [[*ids, *fresh]] * 2 + [[*ids[10:], *fresh]] * 2


@pytest.mark.parametrize("accept", [NDJSON, SSE], ids=["lines", "server-sent"])
def test_connection_stays_open_after_a_stream(accept: dict[str, str], group: ClientGroup, member: Member) -> None:
    first = get(member, "/events?limit=2&timeout=1h", **accept)
    (client,) = group.open_streams(first)
    ids = publish_many(member, 3)
    group.wait_until(lambda: client.only_response.is_complete)
    client.send(get(member, f"/events?limit=1&timeout=1h&after={ids[1]}", **accept))
    group.wait_until(lambda: len(client.responses) == 2 and client.responses[1].is_complete)
    client.send(post(member, "b"))
    group.wait_until(lambda: len(client.responses) == 3 and client.responses[2].is_complete)
    assert [got.status for got in client.responses] == [200, 200, 201]
    assert [got.ids for got in client.responses[:2]] == [ids[:2], ids[2:]]


def test_connection_stays_open_after_a_long_poll(group: ClientGroup, member: Member) -> None:
    (client,) = group.start_polls(member, f"/events?{FOREVER}", 0)
    ids: list[int] = []
    for _ in range(20):
        ids.extend(publish_many(member, 1))
        group.wait_until(lambda: all_have_last([client], ids))
    assert (client.ids, client.is_closed) == (ids, False)


def test_requests_pipelined_after_a_poll_are_answered_after_it(group: ClientGroup, member: Member) -> None:
    poll, line = get(member, f"/events?{FOREVER}"), get(member, "/events?limit=1&timeout=1h", **NDJSON)
    together = group.connect(poll + post(member, "b") + get(member) + line + request("GET", "/health"))
    (apart,) = group.connect(poll)
    wait_until_processed(group.server)
    for behind in (post(member, "c"), get(member), line, request("GET", "/health")):
        apart.send(behind)
    wait_until_processed(group.server)
    group.read(0.3)
    assert [client.received for client in (*together, apart)] == [b"", b""]
    publish_many(member, 1)
    clients = [*together, apart]
    group.wait_until(lambda: all(len(client.responses) == 5 and client.responses[4].is_complete for client in clients))
    assert [[got.status for got in client.responses] for client in clients] == [[200, 201, 200, 200, 200]] * 2
    first = member.read_log()["events"][0]["eventId"]
    assert [(client.responses[0].ids[0], client.responses[3].ids) for client in clients] == [(first, [first])] * 2


def test_pipelined_polls_wait_one_after_the_other(group: ClientGroup, member: Member) -> None:
    before = publish_many(member, 1)
    poll = get(member, f"/events?types=b&{FOREVER}") + get(member, f"/events?types=c&{FOREVER}")
    clients = group.connect(poll, 10)
    for client in group.connect(get(member, f"/events?types=b&{FOREVER}"), 10):
        wait_until_processed(group.server)
        client.send(get(member, f"/events?types=c&{FOREVER}"))
        clients.append(client)
    ids = publish_many(member, 1, "b")
    group.wait_until(lambda: all(client.ids == ids for client in clients))
    ids += publish_many(member, 1, "c")
    group.wait_until(lambda: all_have_last(clients, ids))
    assert before[0] < ids[0]
    assert [client.ids for client in clients] == [ids] * 20


def test_statistics_poll_returns_every_change(group: ClientGroup, member: Member) -> None:
    target = f"{ORDERS}?return=OrderStatisticsChanged&{FOREVER}"
    clients = group.start_polls(member, target, add_order(member, "/chain,0"), 20)
    for number in range(1, 6):
        add_order(member, f"/chain,{number}")
        group.wait_until(partial(_have_totals, clients, number + 1))
    (totals,) = {tuple(_totals(client)) for client in clients}
    assert totals == (2, 3, 4, 5, 6)


def test_damaged_log_cuts_streams_and_fails_polls_with_500(victim: Server) -> None:
    member = victim.organization()
    ids = [publish_many(member, 3, size=100_000) for _ in range(6)]
    with client_group(victim) as group:
        (idle,) = group.open_streams(get(member, f"/events?after={ids[-1][-1]}&{FOREVER}", **NDJSON))
        _delete_commit(victim, ids[4][0])
        streams = [*group.connect(get(member, f"/events?{FOREVER}", **NDJSON)), *group.connect(get(member, **SSE))]
        (poll,) = group.connect(get(member))
        group.wait_until(lambda: all(client.is_closed for client in streams) and bool(poll.received))
        assert [(client.only_response.status, client.only_response.is_complete) for client in streams] == [
            (200, False)
        ] * 2
        assert [client.ids for client in streams] == [flatten(ids[:4])] * 2
        assert (poll.only_response.status, poll.only_response.headers["content-type"]) == (
            500,
            "application/problem+json",
        )
        fresh = publish_many(member, 1)
        group.wait_until(lambda: idle.ids == fresh)


def test_damaged_log_cuts_a_stream_with_a_slow_client(victim: Server) -> None:
    member = victim.organization()
    first = publish_many(member, 1)
    with client_group(victim) as group:
        (slow,) = group.open_streams(get(member, f"/events?after={first[0]}&{FOREVER}", **NDJSON), buffer=8192)
        group.stop_reading(slow)
        ids = [publish_many(member, 3, size=100_000) for _ in range(60)]
        _delete_commit(victim, ids[50][0])
        group.resume_reading(slow)
        group.wait_until(lambda: slow.is_closed)
        assert (slow.only_response.is_complete, slow.ids) == (False, flatten(ids)[: len(slow.ids)])
        assert 0 < len(slow.ids) <= 150
        (live,) = group.open_streams(get(member, f"/events?after={ids[-1][-1]}&{FOREVER}", **NDJSON))
        fresh = publish_many(member, 1)
        group.wait_until(lambda: live.ids == fresh)


def _delete_commit(server: Server, at: int) -> None:
    """Delete one commit from the log, as if the disk were damaged."""
    with closing(apsw.Connection(str(server.data_dir / "annals.sqlite"))) as database:
        database.set_busy_timeout(int(MAX_WAIT_S * 1000))
        database.execute("DELETE FROM log WHERE at = ?", (at,))
        assert database.changes() == 1


def _have_totals(clients: list[Client], last: int) -> bool:
    return all(_totals(client)[-1:] == [last] for client in clients)


def _totals(client: Client) -> list[int]:
    events: list[Any] = [event for got in client.completed for event in got.json["eventSnapshots"]]
    return [event["orderStatistics"]["total"] for event in events]


def _data(body: bytes) -> list[str]:
    return [line.removeprefix("data: ") for line in body.decode().split("\n") if line.startswith("data: ")]


def _id(event_id: int) -> bytes:
    return b"id: %d\ndata: " % event_id
