"""Many waiting responses: threads and memory, clients that disconnect or do not read, and shutdown."""

import gc
import select
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
from chalicelib.services.feeds.notifiers import CommitNotifier
from chalicelib.services.feeds.suspension import Wait
from infra.server.http.connection import Connection
from infra.server.http.event_loop import MIN_STALE_TIMERS
from infra.server.http.parked_responses import ParkedResponses
from infra.server.http.response_writer import single_step
from tests.server.client_group import (
    NDJSON,
    SSE,
    Client,
    ClientGroup,
    client_group,
    memory_mb,
    raise_file_limit,
    socket_count,
    thread_count,
    wait_until_processed,
)
from tests.server.raw_connection import get, post, reset_connection
from tests.server.test_streams import FOREVER, all_have_last, publish_many
from tests.serving import TIMEOUT_S, Member, Server, run_server

pytestmark = pytest.mark.serial

STREAMS = 1_000
POLLS = 500
MAX_THREADS = 100
MAX_MB = 300
MAX_STOP_S = 8.0
"""Less than the server's own timeout for shutdown."""


@pytest.fixture(name="group")
def fixture_group(victim: Server) -> Iterator[ClientGroup]:
    with client_group(victim) as group:
        yield group


@pytest.fixture(name="publisher")
def fixture_publisher(victim: Server) -> Member:
    return victim.organization()


def connect_each_format(group: ClientGroup, member: Member, after: int, number: int) -> list[Client]:
    """Connect `number` NDJSON streams, as many SSE streams, and as many polls."""
    return [
        *group.open_streams(get(member, f"/events?after={after}&{FOREVER}", **NDJSON), number),
        *group.open_streams(get(member, f"/events?after={after}", **SSE), number),
        *group.start_polls(member, f"/events?{FOREVER}", after, number),
    ]


def eventually(condition: Callable[[], bool], group: ClientGroup) -> bool:
    """Whether the condition holds within the timeout."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (holds := condition()) and time.monotonic() < deadline:
        group.read(0.02)
    return holds


def test_waiting_clients_use_few_threads(tmp_path: Path) -> None:
    with raise_file_limit(), run_server(tmp_path) as server, client_group(server) as group:
        member = server.organization()
        streams = [
            *group.open_streams(get(member, f"/events?{FOREVER}", **NDJSON), STREAMS // 2),
            *group.open_streams(get(member, "/events", **SSE), STREAMS // 2),
        ]
        polls = group.start_polls(member, f"/events?{FOREVER}", 0, POLLS)
        assert thread_count(server) < MAX_THREADS
        ids: list[int] = []
        for number in range(10):
            ids += publish_many(member, 1 + number % 2)
            group.read()
        group.wait_until(lambda: all_have_last([*streams, *polls], ids))
        assert {tuple(client.ids) for client in (*streams, *polls)} == {tuple(ids)}
        wait_until_processed(server)
        assert (thread_count(server) < MAX_THREADS, memory_mb(server) < MAX_MB) == (True, True)


DISCONNECTS: dict[str, Callable[[socket.socket], None]] = {"closes": socket.socket.close, "resets": reset_connection}


@pytest.mark.parametrize("how", DISCONNECTS.values(), ids=DISCONNECTS.keys())
def test_idle_client_disconnect_closes_the_socket(
    how: Callable[[socket.socket], None], group: ClientGroup, publisher: Member
) -> None:
    wait_until_processed(group.server)
    before = socket_count(group.server)
    clients = connect_each_format(group, publisher, 0, 30)
    assert socket_count(group.server) >= before + 80
    group.disconnect(clients[::2], how)
    assert eventually(lambda: socket_count(group.server) <= before + 45, group)
    ids = publish_many(publisher, 1)
    group.wait_until(lambda: all_have_last(clients[1::2], ids))
    group.disconnect(clients[1::2], how)
    assert eventually(lambda: socket_count(group.server) <= before, group)


@pytest.mark.parametrize("how", DISCONNECTS.values(), ids=DISCONNECTS.keys())
def test_disconnect_with_pipelined_request_closes_the_socket(
    how: Callable[[socket.socket], None], group: ClientGroup, publisher: Member
) -> None:
    wait_until_processed(group.server)
    before = socket_count(group.server)
    clients = connect_each_format(group, publisher, 0, 5)
    for client in clients:
        client.send(get(publisher))
    wait_until_processed(group.server)
    group.disconnect(clients, how)
    assert eventually(lambda: socket_count(group.server) <= before, group)


def test_half_closed_client_gets_complete_responses(group: ClientGroup, publisher: Member) -> None:
    ids = publish_many(publisher, 2)
    lines = group.connect(get(publisher, f"/events?{FOREVER}", **NDJSON), 5)
    sent = group.connect(get(publisher, **SSE), 5)
    polls = group.connect(get(publisher, f"/events?{FOREVER}&after={ids[0]}"), 5)
    empty_polls = group.connect(get(publisher, f"/events?{FOREVER}&after={ids[1]}"), 5)
    posts = group.connect(get(publisher, f"/events?{FOREVER}&after={ids[1]}") + post(publisher, "b"), 5)
    clients = [*lines, *sent, *polls, *empty_polls, *posts]
    for client in clients:
        client.socket.shutdown(socket.SHUT_WR)
    group.wait_until(lambda: all(client.is_closed for client in clients))
    assert {response.is_complete for client in clients for response in client.responses} == {True}
    assert [client.only_response.ids for client in (*lines, *sent)] == [ids] * 10
    assert [client.only_response.ids for client in polls] == [ids[1:]] * 5
    assert {client.only_response.json["TYPE"] for client in empty_polls} == {"Empty"}
    assert [client.responses[-1].status for client in posts] == [201] * 5
    assert len(publisher.read_log()["events"]) == 7


def test_half_closed_slow_client_gets_all_events_and_the_end(group: ClientGroup, publisher: Member) -> None:
    (first,) = publish_many(publisher, 1)
    slow = group.open_streams(get(publisher, f"/events?after={first}&{FOREVER}", **NDJSON), 3, buffer=8192)
    for client in slow:
        group.stop_reading(client)
    ids = [event_id for _ in range(80) for event_id in publish_many(publisher, 3, size=100_000)]
    for client in slow:
        client.socket.shutdown(socket.SHUT_WR)
    wait_until_processed(group.server)
    for client in slow:
        group.resume_reading(client)
    group.wait_until(lambda: all(client.is_closed for client in slow))
    assert [(client.only_response.is_complete, client.ids) for client in slow] == [(True, ids)] * 3


def test_stalled_client_uses_little_memory_and_catches_up(group: ClientGroup, publisher: Member) -> None:
    (first,) = publish_many(publisher, 1)
    lines = get(publisher, f"/events?after={first}&{FOREVER}", **NDJSON)
    sent = get(publisher, f"/events?after={first}", **SSE)
    slow = [*group.open_streams(lines, 2, buffer=8192), *group.open_streams(sent, 2, buffer=8192)]
    for client in slow:
        group.stop_reading(client)
    quick = [*group.open_streams(lines), *group.open_streams(sent)]
    ids: list[int] = []
    megabytes = []
    for number in range(240):
        ids.extend(publish_many(publisher, 3, size=110_000))
        group.wait_until(lambda: all(_ends_with(client, ids) for client in quick))
        if number in (79, 239):
            megabytes.append(memory_mb(group.server))
    # The slow clients missed fifty megabytes between the two measurements.
    assert megabytes[1] < min(megabytes[0] + 70, MAX_MB)
    assert [client.ids for client in quick] == [ids] * 2
    for client in slow:
        group.resume_reading(client)
        group.wait_until(lambda client=client: _ends_with(client, ids), within_s=120)  # type: ignore[misc]
        assert client.ids == ids
        client.received.clear()


class Buffer(bytearray):
    """Part of a response. A weak reference shows when it is released."""


def test_sent_bytes_are_released_before_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as reader:
        connection, data, returned = (
            Connection(listener.accept()[0]),
            Buffer(32 * 1024 * 1024),
            SimpleQueue[Connection](),
        )
        released, size = threading.Event(), len(data)
        weakref.finalize(data, released.set)
        parked = ParkedResponses(
            CommitNotifier(), returned.put, lambda connection, _steps: returned.put(connection), idle_timeout_s=600
        )
        parked.park(connection, single_step(b""), connection.try_send(memoryview(data)))
        del data
        while size:
            size -= len(reader.recv(1024 * 1024))
        assert returned.get(timeout=TIMEOUT_S) is connection
        assert released.wait(TIMEOUT_S)
        connection.socket.close()


def test_finished_connections_are_released_before_the_timeout() -> None:
    returned, all_events = SimpleQueue[Connection](), Selection()
    parked = ParkedResponses(
        CommitNotifier(), returned.put, lambda connection, _steps: returned.put(connection), idle_timeout_s=600
    )
    references: list[weakref.ref[Connection]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(4 * MIN_STALE_TIMERS):
            with socket.create_connection(listener.getsockname()):
                connection = Connection(listener.accept()[0])
                references.append(weakref.ref(connection))
                parked.park(connection, single_step(b""), Wait(Head(1), all_events, 600.0))
            returned.get(timeout=TIMEOUT_S).socket.close()
    del connection
    gc.collect()
    assert sum(reference() is not None for reference in references) <= MIN_STALE_TIMERS + 1


def test_client_that_does_not_read_is_disconnected() -> None:
    finished = SimpleQueue[Connection]()
    parked = ParkedResponses(
        CommitNotifier(), finished.put, lambda connection, _steps: finished.put(connection), idle_timeout_s=0.01
    )
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        connection = Connection(listener.accept()[0])
        fill_buffers(connection)
        parked.park(connection, single_step(b""), b"unsent")
        assert finished.get(timeout=TIMEOUT_S) is connection
        assert not connection.keep_alive
        connection.socket.close()


def fill_buffers(connection: Connection) -> None:
    """Send until neither the client's nor the server's buffers accept more."""
    piece = bytes(1024 * 1024)
    while select.select([], [connection.socket], [], 0.5)[1] or len(connection.try_send(piece)) < len(piece):
        connection.try_send(piece)


def test_commits_without_subscribers_use_no_memory(group: ClientGroup, publisher: Member) -> None:
    megabytes = []
    for _ in range(3):
        for _ in range(80):
            publish_many(publisher, 3, size=110_000)
        megabytes.append(memory_mb(group.server))
    assert megabytes[2] < megabytes[0] + 50


def test_stalled_catch_up_clients_use_few_threads(group: ClientGroup, publisher: Member) -> None:
    ids = [event_id for _ in range(80) for event_id in publish_many(publisher, 3, size=100_000)]
    slow = group.connect(get(publisher, f"/events?{FOREVER}", **NDJSON), 60, reads=False, buffer=8192)
    slow += group.connect(get(publisher, "/events", **SSE), 60, reads=False, buffer=8192)
    assert {client.socket.recv(1, socket.MSG_PEEK) for client in slow} == {b"H"}
    (quick,) = group.open_streams(get(publisher, f"/events?after={ids[-1]}&{FOREVER}", **NDJSON))
    fresh = publish_many(publisher, 1)
    group.wait_until(lambda: quick.ids == fresh)
    assert (thread_count(group.server) < MAX_THREADS, memory_mb(group.server) < MAX_MB) == (True, True)
    group.resume_reading(slow[0])
    group.wait_until(lambda: _ends_with(slow[0], fresh))
    assert slow[0].ids == [*ids, *fresh]


def test_sigterm_completes_all_waiting_responses(group: ClientGroup, publisher: Member) -> None:
    (first,) = publish_many(publisher, 1)
    clients = connect_each_format(group, publisher, first, 65)
    ids = publish_many(publisher, 1)
    group.wait_until(lambda: all_have_last(clients, ids))
    jobs = f"/organizations/{publisher.organization}/pushy/job_status_feed"
    feeds = group.open_streams(get(publisher, jobs, **SSE), 5)
    wait_until_processed(group.server)
    for client in clients:
        client.stop_polling()
    began = time.monotonic()
    group.server.signal(signal.SIGTERM)
    group.wait_until(lambda: all(client.is_closed for client in group.clients))
    assert (group.server.exit_code(), time.monotonic() - began < MAX_STOP_S) == (0, True)
    assert {client.responses[-1].is_complete for client in group.clients} == {True}
    assert [client.ids for client in (*clients, *feeds)] == [ids] * 195 + [[]] * 5
    ends = [client.responses[-1] for client in clients if client.completed]
    empty = {"TYPE": "Empty", "eventId": ids[0], "lastEventId": ids[0], "moreFollows": False, "position": 2}
    assert [(end.status, end.json, end.headers["connection"]) for end in ends] == [(200, empty, "close")] * 65


def test_sigterm_lets_slow_clients_finish_reading(group: ClientGroup, publisher: Member) -> None:
    (first,) = publish_many(publisher, 1)
    slow = group.open_streams(get(publisher, f"/events?after={first}&{FOREVER}", **NDJSON), 3, buffer=8192)
    for client in slow:
        group.stop_reading(client)
    ids = [event_id for _ in range(40) for event_id in publish_many(publisher, 3, size=100_000)]
    group.server.signal(signal.SIGTERM)
    for client in slow:
        group.resume_reading(client)
    group.wait_until(lambda: all(client.is_closed for client in slow))
    assert group.server.exit_code() == 0
    # They have received the first events, and a regular end.
    assert [client.only_response.is_complete for client in slow] == [True] * 3
    assert [client.ids for client in slow] == [ids[: len(client.ids)] for client in slow]


def _ends_with(client: Client, ids: list[int]) -> bool:
    """Whether the chunk with the last event has been received. This is cheaper than parsing all of them."""
    return client.received.endswith(b"\r\n") and b'"eventId":%d,' % ids[-1] in client.received[-120_000:]
