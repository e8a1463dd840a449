"""HTTP over a plain socket, to send invalid requests and to see the bytes of the responses."""

import contextlib
import json
import socket
from dataclasses import dataclass
from typing import Any

from tests.serving import Member, Server

LARGE_EVENTS = 80
"""Number of large events that do not fit in the socket buffers but fit in a page of the feed."""


@dataclass(frozen=True)
class RawResponse:
    """One response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawConnection:
    """One connection to the server."""

    def __init__(self, server: Server) -> None:
        self.socket = server.connect()
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Send the data. A server that has closed the connection is no error."""
        with contextlib.suppress(ConnectionError):  # The server may have closed the connection.
            self.socket.sendall(data)

    def response(self, method: str = "GET") -> RawResponse:
        """Read the next response."""
        status_line, _, rest = self.read_until(b"\r\n\r\n").partition(b"\r\n")
        headers = dict(line.split(": ", 1) for line in rest.decode().split("\r\n") if line)
        headers = {name.lower(): value for name, value in headers.items()}
        length = 0 if method == "HEAD" else int(headers.get("content-length", "0"))
        return RawResponse(int(status_line.split()[1]), headers, self._read_exactly(length))

    def receive(self) -> bool:
        """Buffer some input and return whether there was any."""
        data = self.socket.recv(65536)
        self._buffer += data
        return bool(data)

    def read_to_end(self) -> bytes:
        """Read until the server closes the connection."""
        with contextlib.suppress(ConnectionError):
            while self.receive():
                pass
        data, self._buffer = self._buffer, b""
        return data

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def read_until(self, end: bytes) -> bytes:
        """Read up to `end`, and return what is before it."""
        while end not in self._buffer:
            assert self.receive(), f"the server closed the connection after {self._buffer!r}"
        data, _, self._buffer = self._buffer.partition(end)
        return data

    def _read_exactly(self, length: int) -> bytes:
        while len(self._buffer) < length:
            assert self.receive(), f"the server closed the connection after {len(self._buffer)} of {length} bytes"
        data, self._buffer = self._buffer[:length], self._buffer[length:]
        return data


def request(method: str, target: str, body: bytes = b"", /, **headers: str) -> bytes:
    """A request. Write _ for - in header names."""
    all_headers = {"Host": "test", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body or method in ("POST", "PUT"):
        all_headers.setdefault("Content-Length", str(len(body)))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in all_headers.items())]
    return "\r\n".join((*lines, "", "")).encode() + body


def post(member: Member, type_: str, **headers: str) -> bytes:
    body = json.dumps({"events": [{"type": [type_]}]}).encode()
    return request("POST", "/events", body, Authorization=f"Bearer {member.token}", **headers)


def get(member: Member, target: str = "/events", **headers: str) -> bytes:
    return request("GET", target, Authorization=f"Bearer {member.token}", **headers)


def publish_large_events(member: Member) -> None:
    """Publish `LARGE_EVENTS` events, several megabytes in total."""
    event = {"type": ["large"], "payload": {"type": "json", "data": "x" * 50_000}}
    for _ in range(LARGE_EVENTS // 2):
        answer = member.post({"events": [event, event]})
        assert answer.status_code == 201, answer.text


def reset_connection(sock: socket.socket) -> None:
    """Close the connection with a TCP reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    sock.close()
