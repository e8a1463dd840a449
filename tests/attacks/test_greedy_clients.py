"""Clients that send more than anybody can read: the server takes what it has room for, and serves the others."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from infra.server.http.connections import MOST_BODY_BYTES as MOST_TOGETHER
from infra.server.http.protocol import MOST_BODY_BYTES
from tests.attacks.honest import Memory, honest_people
from tests.server.crowd import answers
from tests.server.wire import Wire, get, request
from tests.serving import PATIENCE_S, Server, serving

FLOOD = 20
"""So many send as much as they can."""
SMALLEST = b"GET / HTTP/1.1\r\n\r\n"
EACH_KB = 500
"""What a flood may cost on each connection, the buffers of sockets not counted."""
PARSED_MB = 250
"""What two large bodies may take while they are parsed."""
PROMPTLY_S = 5.0


@pytest.fixture(name="victim")
def a_victim(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, whose memory nobody else fills."""
    with serving(tmp_path) as server:
        yield server


def pour(sock: socket.socket, data: bytes, seconds: float) -> int:
    """Send it again and again for so long, as far as the server takes it; how much that was."""
    sock.setblocking(False)
    sent, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            sent += sock.send(data)
        except BlockingIOError:
            return sent
    return sent


def test_what_is_sent_behind_a_poll_is_taken_only_as_far_as_there_is_room(victim: Server) -> None:
    member = victim.organization()
    _is_well(victim)
    memory = Memory(victim)
    with honest_people(victim) as people:
        wires = [Wire(victim) for _ in range(FLOOD)]
        for wire in wires:
            wire.send(get(member, "/events?timeout=1h"))
        sent = sum(pour(wire.socket, SMALLEST * 1_000, 0.2) for _ in range(3) for wire in wires)
        _is_well(victim)
        growth_mb = memory.growth_mb
        for wire in wires:
            wire.close()
    assert (sent > 1_000_000, growth_mb < FLOOD * EACH_KB / 1_000, people.slowest_s < PROMPTLY_S) == (True, True, True)


def test_requests_that_each_wait_a_little_do_not_pile_up(victim: Server) -> None:
    """Before each wait more is there to be read."""
    member = victim.organization()
    _is_well(victim)
    memory = Memory(victim)
    with honest_people(victim) as people:
        wires = [Wire(victim) for _ in range(FLOOD // 4)]
        until = time.monotonic() + 2.0
        for wire in wires:
            wire.send(get(member, "/events?types=nothing&timeout=0.05s") * 40)
        while time.monotonic() < until:
            for wire in wires:
                pour(wire.socket, SMALLEST * 1_000, 0.01)
                _drain(wire.socket)
        growth_mb = memory.growth_mb
        for wire in wires:
            wire.close()
    assert (growth_mb < FLOOD * EACH_KB / 1_000, people.slowest_s < PROMPTLY_S) == (True, True)


def test_bodies_without_end_take_no_more_than_there_is_room_for(victim: Server) -> None:
    """Who has been at it for longest is told so, and others are served."""
    number = 3 * MOST_TOGETHER // MOST_BODY_BYTES
    head = request("POST", "/events", Content_Length=str(MOST_BODY_BYTES))
    memory = Memory(victim)
    with honest_people(victim) as people:
        wires = [Wire(victim) for _ in range(number)]
        for wire in wires:
            wire.send(head + b" " * (MOST_BODY_BYTES - 1))
        member = victim.organization()
        large = {"events": [{"type": ["large"], "payload": {"type": "json", "data": "x" * 300_000}}]}
        assert member.post(large).status_code == 201
        refused, deadline = list(_statuses(wires)), time.monotonic() + PATIENCE_S
        while len(refused) < number // 2 and time.monotonic() < deadline:
            _is_well(victim)
            refused += _statuses(wires)
        growth_mb = memory.growth_mb
        for wire in wires:
            wire.close()
    assert (set(refused), len(refused) >= number // 2) == ({503}, True)
    assert (growth_mb < 2 * MOST_TOGETHER / 1e6, people.slowest_s < PROMPTLY_S) == (True, True)


def test_large_bodies_are_parsed_by_few_at_once(victim: Server) -> None:
    """Each takes many times its own memory for a while; nobody needs a token for it."""
    body = b'{"code":[' + b"[]," * (MOST_BODY_BYTES // 3 - 10) + b"[]]}"
    memory = Memory(victim)
    with honest_people(victim) as people:
        wires = [Wire(victim) for _ in range(FLOOD)]
        for wire in wires:
            wire.send(request("POST", "/sign-in", body))
        statuses = {wire.answer().status for wire in wires}
        for wire in wires:
            wire.close()
    assert statuses <= {400, 503}
    assert (memory.growth_mb < PARSED_MB, people.slowest_s < PROMPTLY_S) == (True, True)


def _is_well(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(request("GET", "/health", Connection="close"))
        assert wire.answer().status == 200


def _drain(sock: socket.socket) -> None:
    try:
        sock.recv(1 << 18)
    except BlockingIOError:
        return


def _statuses(wires: list[Wire]) -> Iterator[int]:
    """Of the answers that have come by now."""
    for wire in wires:
        wire.socket.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            yield from (got.status for got in answers(wire.socket.recv(1 << 16), has_ended=False))
