"""The server's life: it starts, ends in good order, is killed, and loses nothing that it acknowledged."""

import contextlib
import resource
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.wire import LARGE_EVENTS, Wire, fill, get, post, request
from tests.serving import PATIENCE_S, Member, Server, serving

WRITERS = 6
ENOUGH = 60
"""So many acknowledged appends are enough before the server is stopped."""
PROMPTLY_S = 5.0


def test_a_long_poll_ends_with_what_it_has_when_the_server_is_stopped(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        member = server.organization()
        (event,) = member.publish("a")
        with Wire(server) as polling, Wire(server) as idle, Wire(server) as unfinished:
            polling.send(get(member, f"/events?timeout=1h&after={event['eventId']}"))
            unfinished.send(post(member, "b")[:-1])
            idle.send(request("GET", "/health"))
            assert idle.answer().status == 200
            began = time.monotonic()
            server.signal(signal.SIGTERM)
            answer = polling.answer()
            assert (answer.status, answer.json) == (
                200,
                {"TYPE": "Empty", "eventId": event["eventId"], "lastEventId": event["eventId"]},
            )
            assert [wire.rest() for wire in (polling, idle, unfinished)] == [b"", b"", b""]
            assert server.exit_code() == 0
            assert time.monotonic() - began < PROMPTLY_S
    assert events_after_restart(tmp_path, member) == [event]


def test_ctrl_c_ends_the_server_in_good_order(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.signal(signal.SIGINT)
        assert server.exit_code() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_what_was_acknowledged_is_in_the_log_after_a_restart(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        member = server.organization()
        acknowledged = Acknowledged()
        with ThreadPoolExecutor(WRITERS) as pool:
            for _ in range(WRITERS):
                pool.submit(acknowledged.write, member)
            assert acknowledged.enough.wait(PATIENCE_S)
            server.signal(number)
            assert server.exit_code() == code
    stored = events_after_restart(tmp_path, member)
    by_id = {event["eventId"]: event for event in stored}
    assert [by_id.get(event["eventId"]) for event in acknowledged.events] == acknowledged.events
    assert len(stored) <= len(acknowledged.events) + WRITERS
    assert [event["id"]["session"] for event in stored] == list(range(1, len(stored) + 1))


def test_an_answer_that_is_read_late_does_not_spoil_the_end(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        member = server.organization()
        fill(member)
        with Wire(server) as slow, Wire(server) as witness:
            slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            slow.send(get(member))
            began_to_answer = slow.socket.recv(1, socket.MSG_PEEK)
            witness.send(request("GET", "/health"))
            assert (began_to_answer, witness.answer().status) == (b"H", 200)
            began = time.monotonic()
            server.signal(signal.SIGTERM)
            assert witness.rest() == b""
            assert len(slow.answer().json["eventSnapshots"]) == LARGE_EVENTS
            assert slow.rest() == b""
            assert (server.exit_code(), time.monotonic() - began < PROMPTLY_S) == (0, True)


def test_a_server_that_ran_out_of_files_recovers(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        member = server.organization()
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (40, 40))
        wires = [Wire(server) for _ in range(80)]
        for wire in wires:
            wire.send(request("GET", "/health"))
        for wire in wires:
            wire.close()
        deadline = time.monotonic() + PATIENCE_S
        while (status := member.post({"events": [{"type": ["a"]}]}).status_code) == 503:
            assert time.monotonic() < deadline
        assert status == 201


def test_a_restart_goes_on_where_the_log_ended(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        member = server.organization()
        body = {"events": [{"type": ["a"]}], "condition": {"failIfEventsMatch": {"keys": list("abcdefgh")}}}
        first = member.post(body, **{"Idempotency-Key": "k"})
        server.signal(signal.SIGKILL)
        server.exit_code()
    with serving(tmp_path) as server:
        member = server.member(*member.organizations)
        again = member.post(body, **{"Idempotency-Key": "k"})
        (event,) = member.publish("b")
    assert (again.status_code, again.json()) == (200, first.json())
    assert event["id"]["session"] == 2
    assert event["eventId"] > first.json()["eventId"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_server_that_ended(number: signal.Signals, tmp_path: Path) -> None:
    """Not even when it is killed before what it started knows whom it belongs to."""
    with serving(tmp_path) as server:
        server.signal(number)
        server.exit_code()
        deadline, waiting = time.monotonic() + PROMPTLY_S, threading.Event()
        while not server.is_gone():
            assert time.monotonic() < deadline, "a process of the server lives on"
            waiting.wait(0.01)


def test_the_greeting_shows_requests_that_work(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.process.stdout is not None
        lines = [server.process.stdout.readline().decode() for _ in range(8)]
        token = next(line for line in lines if "Bearer " in line).split("Bearer ")[1].split("'")[0]
        answer = server.client.get("/events", headers={"Authorization": f"Bearer {token}"})
    assert answer.json() == {"TYPE": "Empty", "eventId": 0, "lastEventId": 0}


class Acknowledged:
    """The events that the server acknowledged to all writers."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.enough = threading.Event()

    def write(self, member: Member) -> None:
        """Publish until the server is gone."""
        with contextlib.suppress(httpx.TransportError):
            while True:
                answer = member.post({"events": [{"type": ["a"]}]})
                assert answer.status_code == 201
                self.events += answer.json()["events"]
                if len(self.events) >= ENOUGH:
                    self.enough.set()


def events_after_restart(data_dir: Path, member: Member) -> list[dict[str, Any]]:
    """The member's events in a new server on the same data."""
    with serving(data_dir) as server:
        found = Server.member(server, *member.organizations).stored()
    events: list[dict[str, Any]] = found["events"]
    return events
