"""Load generator for Annals: keep-alive HTTP over raw sockets with prepared requests."""

import json
import socket
from collections.abc import Callable, Iterator
from itertools import count
from random import randrange
from typing import Any
from urllib.parse import quote

from benchmarks.load import generator
from benchmarks.load.dataset import PlainEvent
from benchmarks.load.generator import QueryKind
from benchmarks.load.job_events import DATA, KEY, TYPE

_EVENT = {"type": TYPE, "key": KEY, "payload": {"type": "json", "data": DATA}}
_LENGTH = b"content-length:"
_HEAD_END = b"\r\n\r\n"
_CHUNK = 1024 * 1024
_EVENT_ID = b'"eventId":'
"""Occurs once per event and once in the enclosing response, and not in the payloads of these benchmarks."""


class Connection:
    """One socket that carries one request at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, request: bytes) -> bytes:
        """Send a request and return the whole response, including its head."""
        self._socket.sendall(request)
        response = self._receive()
        end = response.find(_HEAD_END)
        while end < 0:
            response += self._receive()
            end = response.find(_HEAD_END)
        missing = end + len(_HEAD_END) + _content_length(response[:end]) - len(response)
        if missing == 0:
            return response
        parts = [response]
        while missing > 0:
            parts.append(self._receive())
            missing -= len(parts[-1])
        return b"".join(parts)

    def chunks(self, request: bytes) -> Iterator[bytes]:
        """Send a request and yield the chunks of the streamed response."""
        self._socket.sendall(request)
        with self._socket.makefile("rb", _CHUNK) as response:
            if not (status := response.readline()).startswith(b"HTTP/1.1 200"):
                raise AssertionError(f"not 200: {status!r}")
            while response.readline() != b"\r\n":
                pass
            while size := int(response.readline(), 16):
                yield response.read(size)
                response.readline()
            response.readline()

    def _receive(self) -> bytes:
        data = self._socket.recv(_CHUNK)
        if not data:
            raise AssertionError("the server closed the connection")
        return data


class Annals:
    """Annals at `address`."""

    connection = Connection
    """Opens the connections of publishers."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._headers = f"Host: {address}\r\nAuthorization: Bearer {token}\r\n"

    def store(self, events: Iterator[PlainEvent]) -> None:
        """Not supported: the store is filled before the server starts."""
        raise NotImplementedError

    def appender(self, events: int) -> Callable[[], None]:
        """POST /events. The response 201 means the events are durable; it contains the position."""
        connection = self.connection(self._address)
        body = json.dumps({"events": [_EVENT] * events}, separators=(",", ":")).encode()
        request_ids = (f"{client:08x}-{number:08}" for client in [randrange(2**32)] for number in count())
        last = 0

        def append() -> None:
            nonlocal last
            # Real clients send a trace id or an idempotency key, so no two of their requests have the same head.
            response = connection.exchange(self._post(body, next(request_ids)))
            if not response.startswith(b"HTTP/1.1 201"):
                raise AssertionError(f"not 201: {response[:500]!r}")
            position = int(response[response.rindex(_EVENT_ID) + len(_EVENT_ID) : -1])
            if position < last + events:
                raise AssertionError(f"appended {events} events after {last}, but the response says {position}")
            last = position

        return append

    def pages(self) -> Iterator[int]:
        """GET /events as NDJSON, counting lines without decoding them."""
        return (chunk.count(b"\n") for chunk in self.stream("/events"))

    def decoded_events(self) -> Iterator[PlainEvent]:
        """GET /events as NDJSON, checking that EventIds increase."""
        rest, last = b"", 0
        for chunk in self.stream("/events"):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["eventId"] <= last:
                    raise AssertionError(f"not in order, after {last}: {event}")
                last = event["eventId"]
                yield _plain_event(event)

    def querier(self, kind: QueryKind) -> Callable[[str], list[PlainEvent]]:
        """GET /events with a key or a type, or GET /events/latest."""
        connection = Connection(self._address)
        name = {"key": "eventSnapshots", "type": "eventSnapshots", "latest": "events"}[kind]
        target = {"key": "/events?keys=", "type": "/events?types=", "latest": "/events/latest?types="}[kind]

        def run_query(argument: str) -> list[PlainEvent]:
            response = _body(connection.exchange(self._get(target + quote(argument))))
            return [_plain_event(event) for event in response[name]]

        return run_query

    def follower(self) -> Callable[[], int]:
        """GET /events?after=…&timeout=10s, the long poll."""
        connection = Connection(self._address)
        after = self.end()

        def follow() -> int:
            nonlocal after
            response = _body(connection.exchange(self._get(f"/events?after={after}&timeout=10s")))
            after = response["eventId"]
            return len(response["eventSnapshots"])

        return follow

    def end(self) -> int:
        """The last EventId of the log."""
        response = Connection(self._address).exchange(self._get("/events?limit=-1"))
        return int(_body(response)["eventId"])

    def stream(self, target: str) -> Iterator[bytes]:
        """Chunks of NDJSON, read on a separate connection."""
        request = self._get(target, "Accept: application/x-ndjson\r\n")
        return Connection(self._address).chunks(request)

    def _post(self, body: bytes, request_id: str) -> bytes:
        head = f"POST /events HTTP/1.1\r\n{self._headers}Content-Type: application/json\r\nPrefer: return=minimal\r\n"
        return f"{head}X-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def _get(self, target: str, accept: str = "") -> bytes:
        return f"GET {target} HTTP/1.1\r\n{self._headers}{accept}\r\n".encode()


def _content_length(head: bytes) -> int:
    lower = head.lower()
    start = lower.index(_LENGTH) + len(_LENGTH)
    end = lower.find(b"\r", start)
    return int(lower[start : end if end >= 0 else len(lower)])


def _body(response: bytes) -> Any:
    if not response.startswith(b"HTTP/1.1 200"):
        raise AssertionError(f"not 200: {response[:500]!r}")
    return json.loads(response[response.index(_HEAD_END) :])


def _plain_event(event: Any) -> PlainEvent:
    return tuple(event["type"]), event["key"], event["payload"]["data"]


if __name__ == "__main__":
    generator.main(Annals)
