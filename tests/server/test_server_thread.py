"""The threads that serve all sockets read next to nothing, however a request is spelled."""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from app import app
from tests.conformance.anyjob.anyjob import create, post, progress
from tests.http import scheduler_client
from tests.http.scheduler_client import ADDED
from tests.server.raw_connection import RawConnection, get, request
from tests.server.recording_server import Read, read_record
from tests.serving import TIMEOUT_S, Member, Server, run_server

SOCKET_THREADS = ("annals-server", "annals-parked")
MAX_ROWS = 5
"""Rows that a socket thread may read for a request: the head of the log and a receipt, for example."""
COMMITS = 60
"""More than a socket thread may read. There are as many organizations."""

VALUES = {
    "vocabulary": ("job", "push", "scheduler", "latest"),
    "collection": ("job", "order", "event"),
    "path+": ("a/b", "index.html"),
    "number": ("1",),
    "job_type": ("backup",),
    "silence": ("1",),
    "job": ("1",),
    "name": ("x",),
    "user": ("anna",),
    "key": ("org.secret",),
    "signal": ("start", "0"),
}
CONDITION: dict[str, Any] = {"failIfEventsMatch": {"types": [["never"]]}, "after": 0}
EVENTS = [{"type": ["a"]}]
BODIES: tuple[object, ...] = (
    {},
    {"events": EVENTS},
    {"events": EVENTS, "condition": CONDITION},
    {"events": EVENTS, "condition": {"failIfEventsMatch": {"types": [["never"]]}, "afterPosition": 1}},
    {"events": [create(1)]},
    {"items": [], "limit": 100_000},
)


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("server"), module="tests.server.recording_server") as running:
        yield running


@pytest.fixture(scope="module", name="member")
def fixture_member(server: Server) -> Member:
    """A user of an organization with a log and jobs. There are many other organizations."""
    for number in range(COMMITS):
        server.member(f"other-{number}").create()
    member = server.organization()
    for number in range(COMMITS):
        assert post(member, {"events": [create(number), progress(number)]}).status_code == 201
    return member


def paths(member: Member) -> list[tuple[str, str]]:
    """The methods and paths of all routes."""
    found = []
    for pattern, methods in app.routes.items():
        filled = [pattern]
        for name, values in {**VALUES, "org": (member.organization,)}.items():
            filled = [path.replace(f"{{{name}}}", value) for path in filled for value in values]
        assert not any("{" in path for path in filled), pattern
        found += [(method, path) for path in sorted(set(filled)) for method in methods if method in ("GET", "POST")]
    return found


def spellings(path: str) -> list[str]:
    """The path in odd spellings. Some of them are other resources, or none."""
    encoded = "/".join(f"{part[:-1]}%{ord(part[-1]):02X}" if part else "" for part in path.split("/"))
    return [
        path,
        f"{path}/",
        f"/{path}",
        path.replace("/", "//"),
        path.upper(),
        path.title(),
        encoded,
        encoded.replace("%", "%25"),
        quote(path, safe=""),
        f"{path}/../events",
        f"{path}/.",
        f"{path};a=b",
        f"{path}?",
        f"{path}?limit=1000000000&after=0&timeout=0",
        f"{path}?limit=-5000&after=0&types=*",
        f"{path}?limit=1000&brief=yes&q=a&maxResults=1000000",
        f"http://test{path}",
        f"HTTP://TEST:80{path}?limit=1000",
    ]


def exchange(server: Server, data: bytes) -> list[Read]:
    """Send a request, wait for the head of its response, and return the queries of the socket threads meanwhile."""
    before = len(read_record(server.data_dir))
    with RawConnection(server) as connection:
        connection.send(data)
        assert connection.receive()
    return [read for read in read_record(server.data_dir)[before:] if read.thread in SOCKET_THREADS]


def count_rows(reads: list[Read]) -> int:
    return sum(read.rows + 1 for read in reads)


def test_any_spelling_reads_little_in_socket_threads(server: Server, member: Member) -> None:
    headers = {"Authorization": f"Bearer {member.token}", "Content-Type": "application/json"}
    member.publish("first")
    excessive = {}
    for method, path in paths(member):
        for target in spellings(path):
            bodies = [json.dumps(body).encode() for body in BODIES] if method == "POST" else [b""]
            for sent in ("GET", "HEAD", "POST") if target == path else (method,):
                for body in bodies if sent == "POST" else [b""]:
                    reads = exchange(server, request(sent, target, body, **headers))
                    if count_rows(reads) > MAX_ROWS:
                        excessive[sent, target, body] = reads
    assert excessive == {}


@pytest.mark.parametrize("header", [False, True], ids=["in token", "in header"])
def test_append_to_unknown_organization_runs_in_worker(server: Server, member: Member, header: bool) -> None:
    """Looking for an organization that does not exist may read the whole directory."""
    unknown = server.member(member.organization, "unknown") if header else server.member("unknown")
    headers = {"Authorization": f"Bearer {unknown.token}", "X-Organization": "unknown"}
    body = json.dumps({"events": EVENTS}).encode()
    assert unknown.get("/me").status_code == 200
    rows = [count_rows(exchange(server, request("POST", "/events", body, **headers))) for _ in range(3)]
    assert max(rows) <= MAX_ROWS


@pytest.mark.parametrize(
    "target",
    [
        "/events?after=0&keys=/job/rare&timeout=60&delay=0.01",
        "/jobscheduler/master/api/order?return=OrderStatisticsChanged&timeout=60&after={after}",
    ],
    ids=["delay", "statistics"],
)
def test_long_poll_with_expensive_read_resumes_in_worker(server: Server, member: Member, target: str) -> None:
    after = member.publish("before")[0]["eventId"]
    before = len(read_record(server.data_dir))
    with RawConnection(server) as waiting:
        waiting.send(get(member, target.format(after=after)))
        deadline = time.monotonic() + TIMEOUT_S
        while len(read_record(server.data_dir)) == before:
            assert time.monotonic() < deadline
        scheduler_client.publish(member, {**ADDED, "key": f"/a/chain,{after}"})
        assert member.post({"events": [{"type": ["a"], "key": "/job/rare"}]}).status_code == 201
        assert waiting.response().json["TYPE"] == "NonEmpty"
    reads = [read for read in read_record(server.data_dir)[before:] if read.thread == "annals-parked"]
    assert count_rows(reads) <= MAX_ROWS


def test_client_that_sends_no_more_gets_end_of_expensive_poll(server: Server, member: Member) -> None:
    with RawConnection(server) as waiting:
        waiting.send(get(member, "/jobscheduler/master/api/order?return=OrderStatisticsChanged&timeout=60"))
        waiting.socket.shutdown(socket.SHUT_WR)
        assert waiting.response().json["TYPE"] == "Empty"
