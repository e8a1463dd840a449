"""Clients that send too much data: the server limits its memory and keeps serving other clients."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from infra.server.http.connections import MAX_TOTAL_BODY_BYTES
from infra.server.http.parked_responses import MAX_TOTAL_UNSENT_BYTES
from infra.server.http.protocol import MAX_BODY_BYTES
from tests.attacks.background import MemoryUsage, background_client
from tests.server.client_group import client_group, parse_responses
from tests.server.raw_connection import RawConnection, get, request
from tests.serving import TIMEOUT_S, Server, run_server

pytestmark = pytest.mark.serial

FLOOD_CLIENTS = 20
SMALL_REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
MAX_CONNECTION_KB = 500
"""Maximum memory per flooding connection, without socket buffers."""
MAX_PARSING_MB = 250
"""Maximum memory while two large bodies are parsed."""
LARGE_PAGES = 17
"""Commits of 300 KB: about the 6 MB of the largest page."""
GREEDY_READERS = 60
MAX_UNREAD_MB = 4 * MAX_TOTAL_UNSENT_BYTES / 1e6
"""Maximum memory for all responses that are not read, with those that are being created."""
MAX_LATENCY_S = 5.0


@pytest.fixture(name="victim")
def fixture_victim(tmp_path: Path) -> Iterator[Server]:
    """A server for one test, because the test measures its memory."""
    with run_server(tmp_path) as server:
        yield server


def flood(sock: socket.socket, data: bytes, seconds: float) -> int:
    """Send `data` repeatedly until the time is over or the buffers are full, and return the number of bytes."""
    sock.setblocking(False)
    sent, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            sent += sock.send(data)
        except BlockingIOError:
            return sent
    return sent


def test_flood_after_poll_is_buffered_within_limits(victim: Server) -> None:
    member = victim.organization()
    _check_health(victim)
    memory = MemoryUsage(victim)
    with background_client(victim) as background:
        connections = [RawConnection(victim) for _ in range(FLOOD_CLIENTS)]
        for connection in connections:
            connection.send(get(member, "/events?timeout=1h"))
        sent = sum(flood(connection.socket, SMALL_REQUEST * 1_000, 0.2) for _ in range(3) for connection in connections)
        _check_health(victim)
        growth_mb = memory.growth_mb
        for connection in connections:
            connection.close()
    assert (
        sent > 1_000_000,
        growth_mb < FLOOD_CLIENTS * MAX_CONNECTION_KB / 1_000,
        background.max_latency_s < MAX_LATENCY_S,
    ) == (True, True, True)


def test_pipelined_short_polls_do_not_accumulate(victim: Server) -> None:
    """More requests are sent before each of the polls ends."""
    member = victim.organization()
    _check_health(victim)
    memory = MemoryUsage(victim)
    with background_client(victim) as background:
        connections = [RawConnection(victim) for _ in range(FLOOD_CLIENTS // 4)]
        until = time.monotonic() + 2.0
        for connection in connections:
            connection.send(get(member, "/events?types=nothing&timeout=0.05s") * 40)
        while time.monotonic() < until:
            for connection in connections:
                flood(connection.socket, SMALL_REQUEST * 1_000, 0.01)
                _drain(connection.socket)
        growth_mb = memory.growth_mb
        for connection in connections:
            connection.close()
    assert (growth_mb < FLOOD_CLIENTS * MAX_CONNECTION_KB / 1_000, background.max_latency_s < MAX_LATENCY_S) == (
        True,
        True,
    )


def test_unfinished_bodies_are_evicted_at_the_memory_limit(victim: Server) -> None:
    """The oldest of them get 503, and other clients are served."""
    number = 3 * MAX_TOTAL_BODY_BYTES // MAX_BODY_BYTES
    head = request("POST", "/events", Content_Length=str(MAX_BODY_BYTES))
    memory = MemoryUsage(victim)
    with background_client(victim) as background:
        connections = [RawConnection(victim) for _ in range(number)]
        for connection in connections:
            connection.send(head + b" " * (MAX_BODY_BYTES - 1))
        member = victim.organization()
        large = {"events": [{"type": ["large"], "payload": {"type": "json", "data": "x" * 300_000}}]}
        assert member.post(large).status_code == 201
        refused, deadline = list(_statuses(connections)), time.monotonic() + TIMEOUT_S
        while len(refused) < number // 2 and time.monotonic() < deadline:
            _check_health(victim)
            refused += _statuses(connections)
        growth_mb = memory.growth_mb
        for connection in connections:
            connection.close()
    assert (set(refused), len(refused) >= number // 2) == ({503}, True)
    assert (growth_mb < 2 * MAX_TOTAL_BODY_BYTES / 1e6, background.max_latency_s < MAX_LATENCY_S) == (True, True)


def test_large_bodies_are_not_all_parsed_concurrently(victim: Server) -> None:
    """Parsing takes many times the size of the body, and this route requires no token."""
    body = b'{"code":[' + b"[]," * (MAX_BODY_BYTES // 3 - 10) + b"[]]}"
    memory = MemoryUsage(victim)
    with background_client(victim) as background:
        connections = [RawConnection(victim) for _ in range(FLOOD_CLIENTS)]
        for connection in connections:
            connection.send(request("POST", "/sign-in", body))
        statuses = {connection.response().status for connection in connections}
        for connection in connections:
            connection.close()
    assert statuses <= {400, 503}
    assert (memory.growth_mb < MAX_PARSING_MB, background.max_latency_s < MAX_LATENCY_S) == (True, True)


def test_unread_responses_are_limited_together(victim: Server) -> None:
    """Clients that ask for large pages and read nothing are closed. A slow client that reads gets its page."""
    member = victim.organization()
    for _ in range(LARGE_PAGES):
        assert member.post(
            {"events": [{"type": ["fat"], "payload": {"type": "json", "data": "x" * 300_000}}]}
        ).is_success
    with RawConnection(victim) as reader:
        reader.send(get(member, "/events?types=fat"))
        page = reader.response()
    memory = MemoryUsage(victim)
    with background_client(victim) as background, ExitStack() as stack:
        slow = stack.enter_context(RawConnection(victim))
        slow.send(get(member, "/events?types=fat"))
        group = stack.enter_context(client_group(victim))
        for number in range(GREEDY_READERS):
            group.connect(get(member, "/events?types=fat"), reads=False, buffer=4096)
            _check_health(victim)
            for _ in range(4 if number < 16 else 0):  # 64 KB each, less than the page in total
                slow.receive()
        growth_mb = memory.growth_mb
        assert slow.response().body == page.body
    assert (growth_mb < MAX_UNREAD_MB, background.max_latency_s < MAX_LATENCY_S) == (True, True)


def _check_health(server: Server) -> None:
    with RawConnection(server) as connection:
        connection.send(request("GET", "/health", Connection="close"))
        assert connection.response().status == 200


def _drain(sock: socket.socket) -> None:
    try:
        sock.recv(1 << 18)
    except BlockingIOError:
        return


def _statuses(connections: list[RawConnection]) -> Iterator[int]:
    """The statuses of the responses received so far."""
    for connection in connections:
        connection.socket.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            yield from (
                response.status for response in parse_responses(connection.socket.recv(1 << 16), is_closed=False)
            )
