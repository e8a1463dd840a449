"""HTTP by hand: for what no client library would send, and to see what comes back byte by byte."""

import contextlib
import json
import socket
from dataclasses import dataclass
from typing import Any

from tests.serving import Member, Server

LARGE_EVENTS = 80
"""So many large events are more than sockets hold, and less than a page of the feed."""


@dataclass(frozen=True)
class Answer:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Wire:
    """One connection to the server."""

    def __init__(self, server: Server) -> None:
        self.socket = server.connect()
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Send, as far as the server lets us."""
        with contextlib.suppress(ConnectionError):  # it may have answered and gone already
            self.socket.sendall(data)

    def answer(self, to: str = "GET") -> Answer:
        """The next answer."""
        status_line, _, rest = self._until(b"\r\n\r\n").partition(b"\r\n")
        headers = dict(line.split(": ", 1) for line in rest.decode().split("\r\n") if line)
        headers = {name.lower(): value for name, value in headers.items()}
        length = 0 if to == "HEAD" else int(headers.get("content-length", "0"))
        return Answer(int(status_line.split()[1]), headers, self._exactly(length))

    def rest(self) -> bytes:
        """All that still comes until the server closes the connection."""
        with contextlib.suppress(ConnectionError):
            while self._receive():
                pass
        found, self._buffer = self._buffer, b""
        return found

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            assert self._receive(), f"the server hung up after {self._buffer!r}"
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def _exactly(self, length: int) -> bytes:
        while len(self._buffer) < length:
            assert self._receive(), f"the server hung up after {len(self._buffer)} of {length} bytes"
        found, self._buffer = self._buffer[:length], self._buffer[length:]
        return found

    def _receive(self) -> bool:
        data = self.socket.recv(65536)
        self._buffer += data
        return bool(data)


def request(method: str, target: str, body: bytes = b"", /, **headers: str) -> bytes:
    """A request; header names are written with _ for -."""
    given = {"Host": "test", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body or method in ("POST", "PUT"):
        given.setdefault("Content-Length", str(len(body)))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join((*lines, "", "")).encode() + body


def post(member: Member, type_: str, **headers: str) -> bytes:
    """A request that publishes one event."""
    body = json.dumps({"events": [{"type": [type_]}]}).encode()
    return request("POST", "/events", body, Authorization=f"Bearer {member.token}", **headers)


def get(member: Member, target: str = "/events", **headers: str) -> bytes:
    """A request that reads."""
    return request("GET", target, Authorization=f"Bearer {member.token}", **headers)


def fill(member: Member) -> None:
    """Publish large events until reading them all takes some megabytes."""
    event = {"type": ["large"], "payload": {"type": "json", "data": "x" * 50_000}}
    for _ in range(LARGE_EVENTS // 2):
        answer = member.post({"events": [event, event]})
        assert answer.status_code == 201, answer.text


def reset(sock: socket.socket) -> None:
    """Hang up in the rudest way there is."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    sock.close()
