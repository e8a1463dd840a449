"""Slow clients are disconnected after a while and do not delay other clients."""

import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attacks.background import MemoryUsage, background_client
from tests.server.client_group import (
    NDJSON,
    SSE,
    Client,
    client_group,
    raise_file_limit,
    socket_count,
    wait_until_processed,
)
from tests.server.raw_connection import RawConnection, get, post, request
from tests.serving import TIMEOUT_S, Server, run_server

pytestmark = pytest.mark.serial

IDLE_S = 1.0
IDLE_SETTINGS = {"IDLE_TIME": "1"}
SLOW_CLIENTS = 100
CONNECTION_LIMIT = 40
LIMIT_SETTINGS = {"MOST_CONNECTIONS": str(CONNECTION_LIMIT)}
TEN_THOUSAND = 10_000
MAX_CONNECTION_KB = 12
"""Maximum memory per idle connection."""
MAX_LATENCY_S = 5.0
"""Maximum latency of the background client on a loaded machine."""

SlowSender = Callable[[], Iterator[bytes]]


def _nothing() -> Iterator[bytes]:
    while True:
        yield b""


def _head() -> Iterator[bytes]:
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


def _body() -> Iterator[bytes]:
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


def _after_response() -> Iterator[bytes]:
    yield request("GET", "/health")
    while True:
        yield b"G" if time.monotonic() % 1 < 0.5 else b""


SENDERS: dict[str, SlowSender] = {
    "nothing": _nothing,
    "a head": _head,
    "headers": _headers,
    "empty lines": _empty_lines,
    "a body": _body,
    "chunks": _chunks,
    "trailers": _trailers,
    "after a response": _after_response,
}


@pytest.fixture(scope="module", name="impatient")
def fixture_impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("impatient"), **IDLE_SETTINGS) as server:
        yield server


@pytest.fixture(name="small")
def fixture_small(tmp_path: Path) -> Iterator[Server]:
    with run_server(tmp_path, **LIMIT_SETTINGS) as server:
        yield server


class SlowConnections:
    """Connections that send a few bytes from time to time until the server disconnects."""

    def __init__(self, server: Server, senders: list[Iterator[bytes]]) -> None:
        self._selector = selectors.DefaultSelector()
        self._open = {server.connect(): sender for sender in senders}
        for sock in self._open:
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ)

    def __len__(self) -> int:
        return len(self._open)

    def send_some(self, seconds: float) -> None:
        """Send a few bytes on each connection, and remove those that the server closed."""
        for sock, sender in list(self._open.items()):
            try:
                sock.send(next(sender))
            except ConnectionError:
                self._close(sock)
        deadline = time.monotonic() + seconds
        while (remaining_s := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(remaining_s):
                assert isinstance(key.fileobj, socket.socket)
                self._receive(key.fileobj)

    def close(self) -> None:
        for sock in list(self._open):
            self._close(sock)
        self._selector.close()

    def _receive(self, sock: socket.socket) -> None:
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


def test_unfinished_requests_are_disconnected_when_idle(impatient: Server) -> None:
    """Also if they send a few bytes from time to time."""
    slow = SlowConnections(
        impatient, [SENDERS[name]() for name in SENDERS for _ in range(SLOW_CLIENTS // len(SENDERS))]
    )
    started = time.monotonic()
    with background_client(impatient) as background:
        while len(slow) and time.monotonic() < started + TIMEOUT_S:
            slow.send_some(0.05)
    remaining, took_s = len(slow), time.monotonic() - started
    slow.close()
    assert (remaining, took_s > IDLE_S, background.max_latency_s < MAX_LATENCY_S) == (0, True, True)


def test_slow_readers_are_disconnected(impatient: Server) -> None:
    wait_until_processed(impatient)
    before = socket_count(impatient)
    clients = [Client(impatient, buffer=4096) for _ in range(20)]
    for client in clients:
        client.socket.sendall(request("GET", "/console/app.js") * 600)
        client.socket.settimeout(0.01)
    deadline = time.monotonic() + TIMEOUT_S
    with background_client(impatient) as background:
        while socket_count(impatient) > before + 4 and time.monotonic() < deadline:
            for client in clients:
                client.socket.recv(1)
    for client in clients:
        client.socket.close()
    assert (time.monotonic() < deadline, background.max_latency_s < MAX_LATENCY_S) == (True, True)


def test_half_closed_connections_are_closed_immediately(server: Server) -> None:
    for sender in (_head, _body, _chunks, _nothing):
        with RawConnection(server) as connection:
            connection.send(next(sender()))
            connection.socket.shutdown(socket.SHUT_WR)
            assert connection.read_to_end() == b""


def test_idle_time_restarts_after_a_long_poll(impatient: Server) -> None:
    member = impatient.organization()
    with RawConnection(impatient) as connection:
        connection.send(get(member, f"/events?timeout={2 * IDLE_S}s"))
        assert connection.response().status == 200
        connection.socket.settimeout(IDLE_S * 0.6)
        with pytest.raises(TimeoutError):
            connection.socket.recv(1)
        connection.socket.settimeout(TIMEOUT_S)
        connection.send(post(member, "a"))
        assert connection.response().status == 201


def test_idle_connections_are_evicted_for_active_clients(small: Server) -> None:
    with background_client(small) as background:
        slow = SlowConnections(
            small, [SENDERS[name]() for name in SENDERS for _ in range(2 * CONNECTION_LIMIT // len(SENDERS))]
        )
        for _ in range(20):
            slow.send_some(0.01)
            assert small.client.get("/health", headers={"Connection": "close"}).status_code == 200
        remaining = len(slow)
        slow.close()
    assert (remaining < CONNECTION_LIMIT, background.max_latency_s < MAX_LATENCY_S) == (True, True)


def test_clients_that_do_not_read_are_evicted(small: Server) -> None:
    with client_group(small) as group, background_client(small) as background:
        group.connect(request("GET", "/openapi.json") * 40, CONNECTION_LIMIT + 10, reads=False, buffer=4096)
        for _ in range(5):
            assert small.client.get("/health", headers={"Connection": "close"}).status_code == 200
    assert background.max_latency_s < MAX_LATENCY_S


def test_new_clients_wait_while_all_connections_are_in_use(small: Server) -> None:
    """Clients that wait for the server are not disconnected, and the server does not use CPU time for it."""
    member = small.organization()
    small.client.close()
    wait_until_processed(small)
    with client_group(small) as group:
        group.open_streams(get(member, "/events?timeout=1h", **NDJSON), CONNECTION_LIMIT // 2)
        group.open_streams(get(member, "/events", **SSE), CONNECTION_LIMIT - CONNECTION_LIMIT // 2)
        waiting = group.connect(request("GET", "/health"), 5)
        before_s = _cpu_s(small)
        group.read(0.5)
        assert _cpu_s(small) - before_s < 0.3
        assert sum(client.current is None for client in waiting) >= 4
        group.disconnect(group.clients[:5])
        group.wait_until(lambda: all(client.current for client in waiting))
        assert {client.only_response.status for client in waiting} == {200}
        assert not any(client.is_closed for client in group.clients)


def test_ten_thousand_connections_use_little_memory(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(TEN_THOUSAND, hard - 1_000)
    with (
        ExitStack() as stack,
        raise_file_limit(),
        run_server(tmp_path) as server,
        background_client(server) as background,
    ):
        memory = MemoryUsage(server)
        sockets = [stack.enter_context(server.connect()) for _ in range(number)]
        for sock in sockets:
            sock.send(b"GET /health HTTP/1.1\r\nHost: x\r\n")
        assert server.client.get("/health", headers={"Connection": "close"}).status_code == 200
        assert socket_count(server) > number
        growth_mb = memory.growth_mb
        for sock in sockets:
            sock.send(b"\r\n")
        assert {sock.recv(12) for sock in sockets} == {b"HTTP/1.1 200"}
    assert (growth_mb < number * MAX_CONNECTION_KB / 1_000, background.max_latency_s < MAX_LATENCY_S) == (True, True)


def test_server_raises_its_file_descriptor_limit(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 500), hard))
    try:
        with run_server(tmp_path, MOST_CONNECTIONS="1000") as server:
            assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] >= min(hard, 1_200)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _cpu_s(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
