"""Start, shutdown and crash of the server: acknowledged events are never lost."""

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

from tests.server.raw_connection import LARGE_EVENTS, RawConnection, get, post, publish_large_events, request
from tests.serving import TIMEOUT_S, Member, Server, run_server

pytestmark = pytest.mark.serial

WRITERS = 6
MIN_ACKNOWLEDGED = 60
"""Number of acknowledged events before the server is stopped."""
MAX_STOP_S = 5.0


def test_sigterm_ends_long_poll_with_empty_response(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        member = server.organization()
        (event,) = member.publish("a")
        with RawConnection(server) as polling, RawConnection(server) as idle, RawConnection(server) as unfinished:
            polling.send(get(member, f"/events?timeout=1h&after={event['eventId']}"))
            unfinished.send(post(member, "b")[:-1])
            idle.send(request("GET", "/health"))
            assert idle.response().status == 200
            began = time.monotonic()
            server.signal(signal.SIGTERM)
            answer = polling.response()
            assert (answer.status, answer.json) == (
                200,
                {
                    "TYPE": "Empty",
                    "eventId": event["eventId"],
                    "lastEventId": event["eventId"],
                    "moreFollows": False,
                    "position": 1,
                },
            )
            assert [wire.read_to_end() for wire in (polling, idle, unfinished)] == [b"", b"", b""]
            assert server.exit_code() == 0
            assert time.monotonic() - began < MAX_STOP_S
    assert events_after_restart(tmp_path, member) == [event]


def test_sigint_exits_with_status_zero(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        server.signal(signal.SIGINT)
        assert server.exit_code() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_acknowledged_events_survive_a_restart(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        member = server.organization()
        acknowledged = AcknowledgedEvents()
        with ThreadPoolExecutor(WRITERS) as pool:
            for _ in range(WRITERS):
                pool.submit(acknowledged.write, member)
            assert acknowledged.enough.wait(TIMEOUT_S)
            server.signal(number)
            assert server.exit_code() == code
    stored = events_after_restart(tmp_path, member)
    by_id = {event["eventId"]: event for event in stored}
    assert [by_id.get(event["eventId"]) for event in acknowledged.events] == acknowledged.events
    assert len(stored) <= len(acknowledged.events) + WRITERS
    assert [event["id"]["session"] for event in stored] == list(range(1, len(stored) + 1))


def test_sigterm_lets_slow_client_read_its_response(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        member = server.organization()
        publish_large_events(member)
        with RawConnection(server) as slow, RawConnection(server) as witness:
            slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            slow.send(get(member))
            first_byte = slow.socket.recv(1, socket.MSG_PEEK)
            witness.send(request("GET", "/health"))
            assert (first_byte, witness.response().status) == (b"H", 200)
            began = time.monotonic()
            server.signal(signal.SIGTERM)
            assert witness.read_to_end() == b""
            assert len(slow.response().json["eventSnapshots"]) == LARGE_EVENTS
            assert slow.read_to_end() == b""
            assert (server.exit_code(), time.monotonic() - began < MAX_STOP_S) == (0, True)


def test_server_recovers_from_file_descriptor_shortage(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        member = server.organization()
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (40, 40))
        wires = [RawConnection(server) for _ in range(80)]
        for wire in wires:
            wire.send(request("GET", "/health"))
        for wire in wires:
            wire.close()
        deadline = time.monotonic() + TIMEOUT_S
        while (status := member.post({"events": [{"type": ["a"]}]}).status_code) == 503:
            assert time.monotonic() < deadline
        assert status == 201


def test_restart_continues_sessions_and_idempotency_keys(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        member = server.organization()
        body = {"events": [{"type": ["a"]}], "condition": {"failIfEventsMatch": {"keys": list("abcdefgh")}}}
        first = member.post(body, **{"Idempotency-Key": "k"})
        server.signal(signal.SIGKILL)
        server.exit_code()
    with run_server(tmp_path) as server:
        member = server.member(*member.organizations)
        again = member.post(body, **{"Idempotency-Key": "k"})
        (event,) = member.publish("b")
    assert (again.status_code, again.json()) == (200, first.json())
    assert event["id"]["session"] == 2
    assert event["eventId"] > first.json()["eventId"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_worker_processes_end_with_the_server(number: signal.Signals, tmp_path: Path) -> None:
    """Also if it is killed before the worker processes have read its process id."""
    with run_server(tmp_path) as server:
        server.signal(number)
        server.exit_code()
        deadline, waiting = time.monotonic() + MAX_STOP_S, threading.Event()
        while not server.is_gone():
            assert time.monotonic() < deadline, "a worker process is still running"
            waiting.wait(0.01)


def test_greeting_token_is_accepted(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        assert server.process.stdout is not None
        lines = [server.process.stdout.readline().decode() for _ in range(8)]
        token = next(line for line in lines if "Bearer " in line).split("Bearer ")[1].split("'")[0]
        answer = server.client.get("/events", headers={"Authorization": f"Bearer {token}"})
    assert answer.json() == {"TYPE": "Empty", "eventId": 0, "lastEventId": 0, "moreFollows": False, "position": 0}


class AcknowledgedEvents:
    """The events that the server has acknowledged to all writers."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.enough = threading.Event()

    def write(self, member: Member) -> None:
        """Publish until the server has ended."""
        with contextlib.suppress(httpx.TransportError):
            while True:
                answer = member.post({"events": [{"type": ["a"]}]})
                assert answer.status_code == 201
                self.events += answer.json()["events"]
                if len(self.events) >= MIN_ACKNOWLEDGED:
                    self.enough.set()


def events_after_restart(data_dir: Path, member: Member) -> list[dict[str, Any]]:
    """The member's events in a new server on the same data."""
    with run_server(data_dir) as server:
        log = Server.member(server, *member.organizations).read_log()
    events: list[dict[str, Any]] = log["events"]
    return events
