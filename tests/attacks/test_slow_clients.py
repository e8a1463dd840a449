"""Clients that take their time: they are given some, and hold up nobody."""

import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attacks.honest import Memory, honest_people
from tests.server.crowd import NDJSON, SSE, Client, crowd, many_files, settled, sockets
from tests.server.wire import Wire, get, post, request
from tests.serving import PATIENCE_S, Server, serving

IDLE_S = 1.0
IDLE = {"IDLE_TIME": "1"}
A_CROWD = 100
ROOM = 40
FEW = {"MOST_CONNECTIONS": str(ROOM)}
TEN_THOUSAND = 10_000
EACH_KB = 12
"""What a connection that says nothing may cost."""
PROMPTLY_S = 5.0
"""How long an honest request may take, on a machine that others load too; most of all far less than the others have."""

Talk = Callable[[], Iterator[bytes]]


def _nothing() -> Iterator[bytes]:
    while True:
        yield b""


def _a_head() -> Iterator[bytes]:
    yield b"GET /health HTTP/1.1\r\n"
    while True:
        yield b"X"


def _headers() -> Iterator[bytes]:
    yield b"GET /health HTTP/1.1\r\n"
    while True:
        yield b"X: x\r\n"


def _empty_lines() -> Iterator[bytes]:
    while True:
        yield b"\r\n"


def _a_body() -> Iterator[bytes]:
    yield b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    while True:
        yield b"x"


def _chunks() -> Iterator[bytes]:
    yield b"POST /events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"1\r\nx\r\n"


def _trailers() -> Iterator[bytes]:
    yield b"POST /events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    while True:
        yield b"X: x\r\n"


def _after_an_answer() -> Iterator[bytes]:
    yield request("GET", "/health")
    while True:
        yield b"G" if time.monotonic() % 1 < 0.5 else b""


TALKS: dict[str, Talk] = {
    "nothing": _nothing,
    "a head": _a_head,
    "headers": _headers,
    "empty lines": _empty_lines,
    "a body": _a_body,
    "chunks": _chunks,
    "trailers": _trailers,
    "after an answer": _after_an_answer,
}


@pytest.fixture(scope="module", name="impatient")
def an_impatient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("impatient"), **IDLE) as server:
        yield server


@pytest.fixture(name="small")
def a_small_server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, **FEW) as server:
        yield server


class Slow:
    """Connections on which a little is said every now and then, until the server hangs up."""

    def __init__(self, server: Server, talks: list[Iterator[bytes]]) -> None:
        self._selector = selectors.DefaultSelector()
        self._open = {server.connect(): talk for talk in talks}
        for sock in self._open:
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ)

    def __len__(self) -> int:
        return len(self._open)

    def go_on(self, seconds: float) -> None:
        """Say a little on each, and see who has been hung up on."""
        for sock, talk in list(self._open.items()):
            try:
                sock.send(next(talk))
            except ConnectionError:
                self._close(sock)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                assert isinstance(key.fileobj, socket.socket)
                self._hear(key.fileobj)

    def close(self) -> None:
        """Hang up."""
        for sock in list(self._open):
            self._close(sock)
        self._selector.close()

    def _hear(self, sock: socket.socket) -> None:
        try:
            if sock.recv(1 << 16):
                return
        except ConnectionError:
            pass
        self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)
        sock.close()
        del self._open[sock]


def test_who_never_comes_to_an_end_is_let_go_in_time(impatient: Server) -> None:
    """Whatever they drip, and however often."""
    slow = Slow(impatient, [TALKS[name]() for name in TALKS for _ in range(A_CROWD // len(TALKS))])
    began = time.monotonic()
    with honest_people(impatient) as people:
        while len(slow) and time.monotonic() < began + PATIENCE_S:
            slow.go_on(0.05)
    left, took_s = len(slow), time.monotonic() - began
    slow.close()
    assert (left, took_s > IDLE_S, people.slowest_s < PROMPTLY_S) == (0, True, True)


def test_who_reads_a_byte_at_a_time_is_let_go_in_time(impatient: Server) -> None:
    settled(impatient)
    before = sockets(impatient)
    clients = [Client(impatient, buffer=4096) for _ in range(20)]
    for client in clients:
        client.socket.sendall(request("GET", "/console/app.js") * 600)
        client.socket.settimeout(0.01)
    deadline = time.monotonic() + PATIENCE_S
    with honest_people(impatient) as people:
        while sockets(impatient) > before + 4 and time.monotonic() < deadline:
            for client in clients:
                client.socket.recv(1)
    for client in clients:
        client.socket.close()
    assert (time.monotonic() < deadline, people.slowest_s < PROMPTLY_S) == (True, True)


def test_who_hangs_up_half_way_is_let_go_at_once(server: Server) -> None:
    for talk in (_a_head, _a_body, _chunks, _nothing):
        with Wire(server) as wire:
            wire.send(next(talk()))
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.rest() == b""


def test_who_has_waited_long_for_an_answer_has_time_for_the_next_request(impatient: Server) -> None:
    member = impatient.organization()
    with Wire(impatient) as wire:
        wire.send(get(member, f"/events?timeout={2 * IDLE_S}s"))
        assert wire.answer().status == 200
        wire.socket.settimeout(IDLE_S * 0.6)
        with pytest.raises(TimeoutError):
            wire.socket.recv(1)
        wire.socket.settimeout(PATIENCE_S)
        wire.send(post(member, "a"))
        assert wire.answer().status == 201


def test_a_crowd_that_says_nothing_makes_room_for_those_who_do(small: Server) -> None:
    with honest_people(small) as people:
        slow = Slow(small, [TALKS[name]() for name in TALKS for _ in range(2 * ROOM // len(TALKS))])
        for _ in range(20):
            slow.go_on(0.01)
            assert small.client.get("/health", headers={"Connection": "close"}).status_code == 200
        left = len(slow)
        slow.close()
    assert (left < ROOM, people.slowest_s < PROMPTLY_S) == (True, True)


def test_a_crowd_that_does_not_read_makes_room_for_those_who_do(small: Server) -> None:
    with crowd(small) as crowded, honest_people(small) as people:
        crowded.join(request("GET", "/openapi.json") * 40, ROOM + 10, reads=False, buffer=4096)
        for _ in range(5):
            assert small.client.get("/health", headers={"Connection": "close"}).status_code == 200
    assert people.slowest_s < PROMPTLY_S


def test_while_all_wait_for_us_new_clients_wait_outside(small: Server) -> None:
    """They are not to blame, so nobody is let go, and the server does not spend its time on it."""
    member = small.organization()
    small.client.close()
    settled(small)
    with crowd(small) as crowded:
        crowded.streams(get(member, "/events?timeout=1h", **NDJSON), ROOM // 2)
        crowded.streams(get(member, "/events", **SSE), ROOM - ROOM // 2)
        waiting = crowded.join(request("GET", "/health"), 5)
        before_s = _cpu_s(small)
        crowded.read(0.5)
        assert _cpu_s(small) - before_s < 0.3
        assert sum(client.got is None for client in waiting) >= 4
        crowded.leave(crowded.clients[:5])
        crowded.until(lambda: all(client.got for client in waiting))
        assert {client.one.status for client in waiting} == {200}
        assert not any(client.has_ended for client in crowded.clients)


def test_ten_thousand_connections_are_held_and_cost_little(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(TEN_THOUSAND, hard - 1_000)
    with ExitStack() as ending, many_files(), serving(tmp_path) as server, honest_people(server) as people:
        memory = Memory(server)
        some = [ending.enter_context(server.connect()) for _ in range(number)]
        for sock in some:
            sock.send(b"GET /health HTTP/1.1\r\nHost: x\r\n")
        assert server.client.get("/health", headers={"Connection": "close"}).status_code == 200
        assert sockets(server) > number
        growth_mb = memory.growth_mb
        for sock in some:
            sock.send(b"\r\n")
        assert {sock.recv(12) for sock in some} == {b"HTTP/1.1 200"}
    assert (growth_mb < number * EACH_KB / 1_000, people.slowest_s < PROMPTLY_S) == (True, True)


def test_the_server_asks_for_all_the_descriptors_that_it_needs(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 500), hard))
    try:
        with serving(tmp_path, MOST_CONNECTIONS="1000") as server:
            assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] >= min(hard, 1_200)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _cpu_s(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
