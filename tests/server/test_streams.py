"""Streams and long polls over real sockets: what they tell, in which order, and how they share a connection."""

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.server.crowd import LONGEST_S, NDJSON, SSE, Client, Crowd, crowd, settled
from tests.server.wire import get, post, request
from tests.serving import Member, Server, serving

FOREVER = "timeout=1h"
ORDERS = "/jobscheduler/master/api/order/"


@pytest.fixture(name="people")
def some_people(server: Server) -> Iterator[Crowd]:
    """The clients of a test."""
    with crowd(server) as found:
        yield found


def many(member: Member, number: int, type_: str = "a", size: int = 0) -> list[int]:
    """Publish so many events in one request; their EventIds."""
    event = {"type": type_.split("/"), "payload": {"type": "json", "data": "x" * size}}
    answer = member.post({"events": [event] * number})
    assert answer.status_code == 201, answer.text
    return [event["eventId"] for event in answer.json()["events"]]


def push(member: Member, job: str) -> int:
    """Start a push job; the EventId of that."""
    start = {"event": "start", "job": job, "command": "ls", "run_timeout": 9, "node_count": 1, "user": "anna"}
    answer = member.ask("POST", "/events/push", json=start)
    assert answer.status_code == 201, answer.text
    event_id: int = answer.json()["eventId"]
    return event_id


def order(member: Member, key: str) -> int:
    """Add an order; the EventId of that."""
    event = {"TYPE": "OrderAdded", "key": key, "nodeId": "100"}
    answer = member.ask("POST", "/events/scheduler", json=event)
    assert answer.status_code == 201, answer.text
    event_id: int = answer.json()["eventId"]
    return event_id


def flat(ids: list[list[int]]) -> list[int]:
    return [event_id for some in ids for event_id in some]


def have(clients: list[Client], ids: list[int]) -> bool:
    return all(client.ids[-1:] == ids[-1:] for client in clients)


def test_all_formats_of_one_feed_tell_the_same_events(people: Crowd, member: Member) -> None:
    lines = people.streams(get(member, f"/events?{FOREVER}", **NDJSON), 5)
    sent = people.streams(get(member, "/events", **SSE), 5)
    polls = people.polls(member, f"/events?{FOREVER}", 0, 5)
    ids = [event_id for number in (1, 3, 1, 40, 1) for event_id in many(member, number)]
    everybody = [*lines, *sent, *polls]
    people.until(lambda: have(everybody, ids))
    assert [client.ids for client in everybody] == [ids] * 15
    (told,) = {client.one.body for client in lines}
    events = [json.loads(line) for line in told.splitlines()]
    assert [event for got in polls[0].answers for event in got.json["eventSnapshots"]] == events
    assert [json.loads(text) for text in _data(sent[0].one.body)] == events == member.stored()["events"]


@pytest.mark.parametrize("accept", [NDJSON, SSE], ids=["lines", "server-sent"])
def test_a_stream_of_http_1_0_has_no_chunks_and_ends_with_the_connection(
    accept: dict[str, str], people: Crowd, member: Member
) -> None:
    first = many(member, 2)
    asked = get(member, "/events?timeout=1h&limit=4", Connection="keep-alive", **accept)
    (client,) = people.streams(asked.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n"))
    people.until(lambda: client.ids == first)
    ids = [*first, *many(member, 2)]
    people.until(lambda: client.has_ended)
    assert client.one.ids == ids
    assert ("transfer-encoding" in client.one.headers, client.one.headers["connection"]) == (False, "close")


@pytest.mark.parametrize(
    ("target", "accept", "beat"),
    [
        ("/events?timeout=1h&heartbeat=0.05s", NDJSON, b"\n"),
        ("/events?heartbeat=0.05s", SSE, b":keepalive\n"),
    ],
)
def test_heartbeats_come_though_nothing_happens(
    target: str, accept: dict[str, str], beat: bytes, people: Crowd, member: Member
) -> None:
    clients = people.streams(get(member, target, **accept), 20)
    people.until(lambda: all(client.one.body.count(beat) >= 3 for client in clients))
    ids = many(member, 1)
    people.until(lambda: have(clients, ids))
    assert {client.one.body.partition(b"{")[0].replace(beat, b"") for client in clients} <= {b"", _id(ids[0])}
    assert [client.ids for client in clients] == [ids] * 20


def test_the_feeds_of_push_jobs_have_a_heartbeat_too(tmp_path: Path) -> None:
    with serving(tmp_path, KEEP_ALIVE_TIME="0.2") as quick, crowd(quick) as people:
        member = quick.organization()
        started = push(member, "j1")
        feed = f"/organizations/{member.organization}/pushy/job_status_feed"
        (all_jobs,) = people.streams(get(member, feed, **SSE))
        (one_job,) = people.streams(get(member, f"{feed}/j1", **SSE))
        people.until(lambda: all(one.one.body.count(b":keepalive\n") >= 3 for one in (all_jobs, one_job)))
        second = push(member, "j2")
        people.until(lambda: all_jobs.ids == [second])
        assert one_job.ids == [started]


def test_whoever_waits_for_something_else_hears_nothing(people: Crowd, member: Member) -> None:
    names = ("red", "green", "blue")
    waiting = {
        name: [
            *people.streams(get(member, f"/events?types={name}/*&{FOREVER}", **NDJSON), 4),
            *people.streams(get(member, f"/events?types={name}/*", **SSE), 4),
            *people.polls(member, f"/events?types={name}/*&{FOREVER}", 0, 4),
        ]
        for name in names
    }
    ids: dict[str, list[int]] = {name: [] for name in names}
    for round_ in range(4):
        for name in names[: 2 + round_ % 2]:
            ids[name] += many(member, 2, f"{name}/{round_}")
    people.until(lambda: all(have(waiting[name], ids[name]) for name in names))
    assert {name: [client.ids for client in waiting[name]] for name in names} == {
        name: [ids[name]] * 12 for name in names
    }
    assert len(waiting["blue"][-1].answers) <= len(ids["blue"])


def test_every_stream_has_the_order_of_the_log_while_many_publish(people: Crowd, member: Member) -> None:
    clients = [
        *people.streams(get(member, f"/events?{FOREVER}", **NDJSON), 40),
        *people.streams(get(member, "/events", **SSE), 40),
        *people.polls(member, f"/events?{FOREVER}", 0, 20),
    ]
    with ThreadPoolExecutor(8) as publishers:
        published = [publishers.submit(many, member, 1 + number % 3, f"n{number}") for number in range(200)]
        people.until(lambda: all(one.done() for one in published))
    stored = [event["eventId"] for event in member.stored()["events"]]
    people.until(lambda: have(clients, stored))
    assert len(stored) == sum(1 + number % 3 for number in range(200))
    assert [client.ids == stored for client in clients] == [True] * len(clients)


def test_a_stream_from_far_back_catches_up_while_others_are_live(people: Crowd, member: Member) -> None:
    ids = [event_id for _ in range(50) for event_id in many(member, 1_000)]
    live = people.streams(get(member, f"/events?after={ids[-1]}&{FOREVER}", **NDJSON), 10)
    late = people.join(get(member, f"/events?{FOREVER}", **NDJSON), 2)
    late += people.join(get(member, f"/events?after={ids[9]}", **SSE), 2)
    fresh: list[int] = []
    for _ in range(10):
        fresh.extend(many(member, 1))
        people.until(lambda: have(live, fresh))
    assert [client.ids for client in live] == [fresh] * 10
    people.until(lambda: all(str(fresh[-1]).encode() in client.received[-500:] for client in late))
    assert [client.ids for client in late] == [[*ids, *fresh]] * 2 + [[*ids[10:], *fresh]] * 2


@pytest.mark.parametrize("accept", [NDJSON, SSE], ids=["lines", "server-sent"])
def test_a_connection_is_kept_after_its_stream(accept: dict[str, str], people: Crowd, member: Member) -> None:
    first = get(member, "/events?limit=2&timeout=1h", **accept)
    (client,) = people.streams(first)
    ids = many(member, 3)
    people.until(lambda: client.one.is_whole)
    client.ask(get(member, f"/events?limit=1&timeout=1h&after={ids[1]}", **accept))
    people.until(lambda: len(client.all) == 2 and client.all[1].is_whole)
    client.ask(post(member, "b"))
    people.until(lambda: len(client.all) == 3 and client.all[2].is_whole)
    assert [got.status for got in client.all] == [200, 200, 201]
    assert [got.ids for got in client.all[:2]] == [ids[:2], ids[2:]]


def test_a_connection_is_kept_after_a_poll_that_waited(people: Crowd, member: Member) -> None:
    (client,) = people.polls(member, f"/events?{FOREVER}", 0)
    ids: list[int] = []
    for _ in range(20):
        ids.extend(many(member, 1))
        people.until(lambda: have([client], ids))
    assert (client.ids, client.has_ended) == (ids, False)


def test_requests_behind_a_poll_are_answered_after_it(people: Crowd, member: Member) -> None:
    poll, line = get(member, f"/events?{FOREVER}"), get(member, "/events?limit=1&timeout=1h", **NDJSON)
    together = people.join(poll + post(member, "b") + get(member) + line + request("GET", "/health"))
    (apart,) = people.join(poll)
    settled(people.server)
    for behind in (post(member, "c"), get(member), line, request("GET", "/health")):
        apart.ask(behind)
    settled(people.server)
    people.read(0.3)
    assert [client.received for client in (*together, apart)] == [b"", b""]
    many(member, 1)
    clients = [*together, apart]
    people.until(lambda: all(len(client.all) == 5 and client.all[4].is_whole for client in clients))
    assert [[got.status for got in client.all] for client in clients] == [[200, 201, 200, 200, 200]] * 2
    first = member.stored()["events"][0]["eventId"]
    assert [(client.all[0].ids[0], client.all[3].ids) for client in clients] == [(first, [first])] * 2


def test_a_poll_behind_a_poll_waits_too(people: Crowd, member: Member) -> None:
    before = many(member, 1)
    poll = get(member, f"/events?types=b&{FOREVER}") + get(member, f"/events?types=c&{FOREVER}")
    clients = people.join(poll, 10)
    for client in people.join(get(member, f"/events?types=b&{FOREVER}"), 10):
        settled(people.server)
        client.ask(get(member, f"/events?types=c&{FOREVER}"))
        clients.append(client)
    ids = many(member, 1, "b")
    people.until(lambda: all(client.ids == ids for client in clients))
    ids += many(member, 1, "c")
    people.until(lambda: have(clients, ids))
    assert before[0] < ids[0]
    assert [client.ids for client in clients] == [ids] * 20


def test_whoever_waits_for_other_statistics_is_told_of_each(people: Crowd, member: Member) -> None:
    target = f"{ORDERS}?return=OrderStatisticsChanged&{FOREVER}"
    clients = people.polls(member, target, order(member, "/chain,0"), 20)
    for number in range(1, 6):
        order(member, f"/chain,{number}")
        people.until(partial(_have_totals, clients, number + 1))
    (told,) = {tuple(_totals(client)) for client in clients}
    assert told == (2, 3, 4, 5, 6)


def test_a_stream_over_a_damaged_log_is_cut_and_a_poll_is_a_problem(victim: Server) -> None:
    member = victim.organization()
    ids = [many(member, 3, size=100_000) for _ in range(6)]
    with crowd(victim) as people:
        (idle,) = people.streams(get(member, f"/events?after={ids[-1][-1]}&{FOREVER}", **NDJSON))
        _forget(victim, ids[4][0])
        streams = [*people.join(get(member, f"/events?{FOREVER}", **NDJSON)), *people.join(get(member, **SSE))]
        (poll,) = people.join(get(member))
        people.until(lambda: all(client.has_ended for client in streams) and bool(poll.received))
        assert [(client.one.status, client.one.is_whole) for client in streams] == [(200, False)] * 2
        assert [client.ids for client in streams] == [flat(ids[:4])] * 2
        assert (poll.one.status, poll.one.headers["content-type"]) == (500, "application/problem+json")
        fresh = many(member, 1)
        people.until(lambda: idle.ids == fresh)


def test_a_stream_that_meets_damage_while_it_waits_for_its_reader_is_cut(victim: Server) -> None:
    member = victim.organization()
    first = many(member, 1)
    with crowd(victim) as people:
        (slow,) = people.streams(get(member, f"/events?after={first[0]}&{FOREVER}", **NDJSON), buffer=8192)
        people.stop_reading(slow)
        ids = [many(member, 3, size=100_000) for _ in range(60)]
        _forget(victim, ids[50][0])
        people.go_on_reading(slow)
        people.until(lambda: slow.has_ended)
        assert (slow.one.is_whole, slow.ids) == (False, flat(ids)[: len(slow.ids)])
        assert 0 < len(slow.ids) <= 150
        (live,) = people.streams(get(member, f"/events?after={ids[-1][-1]}&{FOREVER}", **NDJSON))
        fresh = many(member, 1)
        people.until(lambda: live.ids == fresh)


def _forget(server: Server, at: int) -> None:
    """Take one commit out of the log, as only a broken disk would."""
    with sqlite3.connect(server.data_dir / "annals.sqlite", timeout=LONGEST_S) as database:
        assert database.execute("DELETE FROM log WHERE at = ?", (at,)).rowcount == 1
    database.close()


def _have_totals(clients: list[Client], last: int) -> bool:
    return all(_totals(client)[-1:] == [last] for client in clients)


def _totals(client: Client) -> list[int]:
    events: list[Any] = [event for got in client.answers for event in got.json["eventSnapshots"]]
    return [event["orderStatistics"]["total"] for event in events]


def _data(body: bytes) -> list[str]:
    return [line.removeprefix("data: ") for line in body.decode().split("\n") if line.startswith("data: ")]


def _id(event_id: int) -> bytes:
    return b"id: %d\ndata: " % event_id
