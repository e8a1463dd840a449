"""Those who wait, in crowds: what they cost the server, and how it parts from those who go, do not read, or must go."""

import gc
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.feeds.notifiers import Bell
from chalicelib.services.feeds.suspension import Wait
from infra.server.http.connection import Connection
from infra.server.http.parked_responses import FEW, WaitingRoom
from infra.server.http.response_writer import just
from tests.server.crowd import NDJSON, SSE, Client, Crowd, crowd, many_files, memory_mb, settled, sockets, threads
from tests.server.test_streams import FOREVER, have, many
from tests.server.wire import get, post, reset
from tests.serving import PATIENCE_S, Member, Server, serving

STREAMS = 1_000
POLLS = 500
FEW_THREADS = 100
"""Far fewer than those who wait."""
MOST_MB = 300
PROMPTLY_S = 8.0
"""Within seconds, on a machine that others load too; before the server would lose patience."""


@pytest.fixture(name="people")
def the_people(victim: Server) -> Iterator[Crowd]:
    """The clients of a test."""
    with crowd(victim) as found:
        yield found


@pytest.fixture(name="publisher")
def a_publisher(victim: Server) -> Member:
    """Somebody with an organization there."""
    return victim.organization()


def some_of_each(people: Crowd, member: Member, after: int, number: int) -> list[Client]:
    """So many streams of lines, of server-sent events, and polls."""
    return [
        *people.streams(get(member, f"/events?after={after}&{FOREVER}", **NDJSON), number),
        *people.streams(get(member, f"/events?after={after}", **SSE), number),
        *people.polls(member, f"/events?{FOREVER}", after, number),
    ]


def eventually(condition: Callable[[], bool], people: Crowd) -> bool:
    """Whether the condition holds soon."""
    deadline = time.monotonic() + PATIENCE_S
    while not (holds := condition()) and time.monotonic() < deadline:
        people.read(0.02)
    return holds


def test_a_thousand_streams_and_many_polls_take_no_thread_each(tmp_path: Path) -> None:
    with many_files(), serving(tmp_path) as server, crowd(server) as people:
        member = server.organization()
        streams = [
            *people.streams(get(member, f"/events?{FOREVER}", **NDJSON), STREAMS // 2),
            *people.streams(get(member, "/events", **SSE), STREAMS // 2),
        ]
        polls = people.polls(member, f"/events?{FOREVER}", 0, POLLS)
        assert threads(server) < FEW_THREADS
        ids: list[int] = []
        for number in range(10):
            ids += many(member, 1 + number % 2)
            people.read()
        people.until(lambda: have([*streams, *polls], ids))
        assert {tuple(client.ids) for client in (*streams, *polls)} == {tuple(ids)}
        settled(server)
        assert (threads(server) < FEW_THREADS, memory_mb(server) < MOST_MB) == (True, True)


LEAVINGS: dict[str, Callable[[socket.socket], None]] = {"closes": socket.socket.close, "resets": reset}


@pytest.mark.parametrize("how", LEAVINGS.values(), ids=LEAVINGS.keys())
def test_a_client_that_goes_away_is_noticed_though_nothing_happens(
    how: Callable[[socket.socket], None], people: Crowd, publisher: Member
) -> None:
    settled(people.server)
    before = sockets(people.server)
    clients = some_of_each(people, publisher, 0, 30)
    assert sockets(people.server) >= before + 80
    people.leave(clients[::2], how)
    assert eventually(lambda: sockets(people.server) <= before + 45, people)
    ids = many(publisher, 1)
    people.until(lambda: have(clients[1::2], ids))
    people.leave(clients[1::2], how)
    assert eventually(lambda: sockets(people.server) <= before, people)


@pytest.mark.parametrize("how", LEAVINGS.values(), ids=LEAVINGS.keys())
def test_a_client_that_goes_away_with_a_request_behind_is_noticed_too(
    how: Callable[[socket.socket], None], people: Crowd, publisher: Member
) -> None:
    settled(people.server)
    before = sockets(people.server)
    clients = some_of_each(people, publisher, 0, 5)
    for client in clients:
        client.ask(get(publisher))
    settled(people.server)
    people.leave(clients, how)
    assert eventually(lambda: sockets(people.server) <= before, people)


def test_a_client_that_will_say_no_more_still_gets_an_answer(people: Crowd, publisher: Member) -> None:
    ids = many(publisher, 2)
    lines = people.join(get(publisher, f"/events?{FOREVER}", **NDJSON), 5)
    sent = people.join(get(publisher, **SSE), 5)
    polls = people.join(get(publisher, f"/events?{FOREVER}&after={ids[0]}"), 5)
    in_vain = people.join(get(publisher, f"/events?{FOREVER}&after={ids[1]}"), 5)
    posts = people.join(get(publisher, f"/events?{FOREVER}&after={ids[1]}") + post(publisher, "b"), 5)
    everybody = [*lines, *sent, *polls, *in_vain, *posts]
    for client in everybody:
        client.socket.shutdown(socket.SHUT_WR)
    people.until(lambda: all(client.has_ended for client in everybody))
    assert {got.is_whole for client in everybody for got in client.all} == {True}
    assert [client.one.ids for client in (*lines, *sent)] == [ids] * 10
    assert [client.one.ids for client in polls] == [ids[1:]] * 5
    assert {client.one.json["TYPE"] for client in in_vain} == {"Empty"}
    assert [client.all[-1].status for client in posts] == [201] * 5
    assert len(publisher.stored()["events"]) == 7


def test_a_client_that_says_no_more_while_it_is_behind_gets_all_there_is_and_the_end(
    people: Crowd, publisher: Member
) -> None:
    (first,) = many(publisher, 1)
    slow = people.streams(get(publisher, f"/events?after={first}&{FOREVER}", **NDJSON), 3, buffer=8192)
    for client in slow:
        people.stop_reading(client)
    ids = [event_id for _ in range(80) for event_id in many(publisher, 3, size=100_000)]
    for client in slow:
        client.socket.shutdown(socket.SHUT_WR)
    settled(people.server)
    for client in slow:
        people.go_on_reading(client)
    people.until(lambda: all(client.has_ended for client in slow))
    assert [(client.one.is_whole, client.ids) for client in slow] == [(True, ids)] * 3


def test_a_reader_that_does_not_read_costs_little_and_delays_nobody(people: Crowd, publisher: Member) -> None:
    """And when it reads after all, it gets everything."""
    (first,) = many(publisher, 1)
    lines = get(publisher, f"/events?after={first}&{FOREVER}", **NDJSON)
    sent = get(publisher, f"/events?after={first}", **SSE)
    slow = [*people.streams(lines, 2, buffer=8192), *people.streams(sent, 2, buffer=8192)]
    for client in slow:
        people.stop_reading(client)
    quick = [*people.streams(lines), *people.streams(sent)]
    ids: list[int] = []
    megabytes = []
    for number in range(240):
        ids.extend(many(publisher, 3, size=110_000))
        people.until(lambda: all(_ends_with(client, ids) for client in quick))
        if number in (79, 239):
            megabytes.append(memory_mb(people.server))
    # Fifty megabytes went past the slow ones between the two.
    assert megabytes[1] < min(megabytes[0] + 70, MOST_MB)
    assert [client.ids for client in quick] == [ids] * 2
    for client in slow:
        people.go_on_reading(client)
        people.until(lambda client=client: _ends_with(client, ids), within_s=120)  # type: ignore[misc]
        assert client.ids == ids
        client.received.clear()


class Piece(bytearray):
    """A piece of an answer, of which one can see whether somebody still holds it."""


def test_what_a_slow_reader_has_read_is_not_held_until_it_would_have_been_too_slow() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as reader:
        connection, piece, told = Connection(door.accept()[0]), Piece(32 * 1024 * 1024), SimpleQueue[Connection]()
        let_go, size = threading.Event(), len(piece)
        weakref.finalize(piece, let_go.set)
        room = WaitingRoom(Bell(), told.put, lambda gone_on, _steps: told.put(gone_on), idle_s=600)
        room.enter(connection, just(b""), connection.send_now(memoryview(piece)))
        del piece
        while size:
            size -= len(reader.recv(1024 * 1024))
        assert told.get(timeout=PATIENCE_S) is connection
        assert let_go.wait(PATIENCE_S)
        connection.socket.close()


def test_those_who_have_gone_are_not_kept_for_as_long_as_they_would_have_waited() -> None:
    told, everything = SimpleQueue[Connection](), Selection()
    room = WaitingRoom(Bell(), told.put, lambda gone_on, _steps: told.put(gone_on), idle_s=600)
    gone: list[weakref.ref[Connection]] = []
    with socket.create_server(("127.0.0.1", 0)) as door:
        for _ in range(4 * FEW):
            with socket.create_connection(door.getsockname()):
                connection = Connection(door.accept()[0])
                gone.append(weakref.ref(connection))
                room.enter(connection, just(b""), Wait(Head(1), everything, 600.0))
            told.get(timeout=PATIENCE_S).socket.close()
    del connection
    gc.collect()
    assert sum(one() is not None for one in gone) <= FEW + 1


def test_what_nobody_waits_for_is_not_kept_in_memory(people: Crowd, publisher: Member) -> None:
    megabytes = []
    for _ in range(3):
        for _ in range(80):
            many(publisher, 3, size=110_000)
        megabytes.append(memory_mb(people.server))
    assert megabytes[2] < megabytes[0] + 50


def test_readers_from_far_back_that_do_not_read_take_no_thread_each(people: Crowd, publisher: Member) -> None:
    ids = [event_id for _ in range(80) for event_id in many(publisher, 3, size=100_000)]
    slow = people.join(get(publisher, f"/events?{FOREVER}", **NDJSON), 60, reads=False, buffer=8192)
    slow += people.join(get(publisher, "/events", **SSE), 60, reads=False, buffer=8192)
    assert {client.socket.recv(1, socket.MSG_PEEK) for client in slow} == {b"H"}
    (quick,) = people.streams(get(publisher, f"/events?after={ids[-1]}&{FOREVER}", **NDJSON))
    fresh = many(publisher, 1)
    people.until(lambda: quick.ids == fresh)
    assert (threads(people.server) < FEW_THREADS, memory_mb(people.server) < MOST_MB) == (True, True)
    people.go_on_reading(slow[0])
    people.until(lambda: _ends_with(slow[0], fresh))
    assert slow[0].ids == [*ids, *fresh]


def test_a_server_that_ends_takes_leave_of_all_who_wait(people: Crowd, publisher: Member) -> None:
    (first,) = many(publisher, 1)
    clients = some_of_each(people, publisher, first, 65)
    ids = many(publisher, 1)
    people.until(lambda: have(clients, ids))
    jobs = f"/organizations/{publisher.organization}/pushy/job_status_feed"
    feeds = people.streams(get(publisher, jobs, **SSE), 5)
    settled(people.server)
    for client in clients:
        client.stop_asking()
    began = time.monotonic()
    people.server.signal(signal.SIGTERM)
    people.until(lambda: all(client.has_ended for client in people.clients))
    assert (people.server.exit_code(), time.monotonic() - began < PROMPTLY_S) == (0, True)
    assert {client.all[-1].is_whole for client in people.clients} == {True}
    assert [client.ids for client in (*clients, *feeds)] == [ids] * 195 + [[]] * 5
    ends = [client.all[-1] for client in clients if client.answers]
    empty = {"TYPE": "Empty", "eventId": ids[0], "lastEventId": ids[0]}
    assert [(end.status, end.json, end.headers["connection"]) for end in ends] == [(200, empty, "close")] * 65


def test_a_server_that_ends_lets_those_who_are_behind_read_on(people: Crowd, publisher: Member) -> None:
    (first,) = many(publisher, 1)
    slow = people.streams(get(publisher, f"/events?after={first}&{FOREVER}", **NDJSON), 3, buffer=8192)
    for client in slow:
        people.stop_reading(client)
    ids = [event_id for _ in range(40) for event_id in many(publisher, 3, size=100_000)]
    people.server.signal(signal.SIGTERM)
    for client in slow:
        people.go_on_reading(client)
    people.until(lambda: all(client.has_ended for client in slow))
    assert people.server.exit_code() == 0
    # What they have is a beginning of what there was, with an end that says so.
    assert [client.one.is_whole for client in slow] == [True] * 3
    assert [client.ids for client in slow] == [ids[: len(client.ids)] for client in slow]


def _ends_with(client: Client, ids: list[int]) -> bool:
    """Whether the last of these has come; cheaper than to look at all."""
    return b'"eventId":%d,' % ids[-1] in client.received[-120_000:]
