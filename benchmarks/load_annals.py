"""The load generator for Annals: keep-alive HTTP over raw sockets, requests built beforehand."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from benchmarks import load
from benchmarks.events import DATA, KEY, TYPE
from benchmarks.load import Question
from benchmarks.past import Told

_EVENT = {"type": TYPE, "key": KEY, "payload": {"type": "json", "data": DATA}}
_LENGTH = b"content-length:"
_HEAD_END = b"\r\n\r\n"
_CHUNK = 1024 * 1024
_NUMBER = b'"eventId":'
"""Once in each event, and once in the answer around them; not in the payloads of these benchmarks."""


class Connection:
    """One socket; a request at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, request: bytes) -> bytes:
        """The whole answer to `request`, its head included."""
        self._socket.sendall(request)
        answer = self._received()
        end = answer.find(_HEAD_END)
        while end < 0:
            answer += self._received()
            end = answer.find(_HEAD_END)
        missing = end + len(_HEAD_END) + _content_length(answer[:end]) - len(answer)
        if missing == 0:
            return answer
        parts = [answer]
        while missing > 0:
            parts.append(self._received())
            missing -= len(parts[-1])
        return b"".join(parts)

    def chunks(self, request: bytes) -> Iterator[bytes]:
        """The chunks of a streamed answer, as they come."""
        self._socket.sendall(request)
        with self._socket.makefile("rb", _CHUNK) as answer:
            if not (status := answer.readline()).startswith(b"HTTP/1.1 200"):
                raise AssertionError(f"not 200: {status!r}")
            while answer.readline() != b"\r\n":
                pass
            while size := int(answer.readline(), 16):
                yield answer.read(size)
                answer.readline()
            answer.readline()

    def _received(self) -> bytes:
        data = self._socket.recv(_CHUNK)
        if not data:
            raise AssertionError("the server closed the connection")
        return data


class Annals:
    """Annals at `address`."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._headers = f"Host: {address}\r\nAuthorization: Bearer {token}\r\n"

    def store(self, events: Iterator[Told]) -> None:
        """Not over the wire: the store is filled before the server starts."""
        raise NotImplementedError

    def appender(self, events: int) -> Callable[[], None]:
        """POST /events; 201 comes when they are durable. Of the answer the position is taken."""
        connection = Connection(self._address)
        request = self._post(json.dumps({"events": [_EVENT] * events}, separators=(",", ":")).encode())
        last = 0

        def append() -> None:
            nonlocal last
            answer = connection.exchange(request)
            if not answer.startswith(b"HTTP/1.1 201"):
                raise AssertionError(f"not 201: {answer[:500]!r}")
            position = int(answer[answer.rindex(_NUMBER) + len(_NUMBER) : -1])
            if position < last + events:
                raise AssertionError(f"appended {events} events after {last}, told {position}")
            last = position

        return append

    def pages(self) -> Iterator[int]:
        """GET /events as NDJSON; lines are counted, not decoded."""
        return (chunk.count(b"\n") for chunk in self.stream("/events"))

    def told(self) -> Iterator[Told]:
        """GET /events as NDJSON; each EventId is greater than the one before."""
        rest, last = b"", 0
        for chunk in self.stream("/events"):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["eventId"] <= last:
                    raise AssertionError(f"not in order, after {last}: {event}")
                last = event["eventId"]
                yield _told(event)

    def asker(self, question: Question) -> Callable[[str], list[Told]]:
        """GET /events with a key or a type, and GET /events/latest."""
        connection = Connection(self._address)
        name = {"key": "eventSnapshots", "type": "eventSnapshots", "latest": "events"}[question]
        target = {"key": "/events?keys=", "type": "/events?types=", "latest": "/events/latest?types="}[question]

        def ask(subject: str) -> list[Told]:
            answer = _body(connection.exchange(self._get(target + quote(subject))))
            return [_told(event) for event in answer[name]]

        return ask

    def follower(self) -> Callable[[], int]:
        """GET /events?after=…&timeout=10s, the long poll."""
        connection = Connection(self._address)
        after = self.end()

        def follow() -> int:
            nonlocal after
            answer = _body(connection.exchange(self._get(f"/events?after={after}&timeout=10s")))
            after = answer["eventId"]
            return len(answer["eventSnapshots"])

        return follow

    def end(self) -> int:
        """The last EventId there is."""
        answer = Connection(self._address).exchange(self._get("/events?limit=-1"))
        return int(_body(answer)["eventId"])

    def stream(self, target: str) -> Iterator[bytes]:
        """The chunks of NDJSON, on a connection of its own."""
        request = self._get(target, "Accept: application/x-ndjson\r\n")
        return Connection(self._address).chunks(request)

    def _post(self, body: bytes) -> bytes:
        head = f"POST /events HTTP/1.1\r\n{self._headers}Content-Type: application/json\r\nPrefer: return=minimal\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _get(self, target: str, accept: str = "") -> bytes:
        return f"GET {target} HTTP/1.1\r\n{self._headers}{accept}\r\n".encode()


def _content_length(head: bytes) -> int:
    lower = head.lower()
    start = lower.index(_LENGTH) + len(_LENGTH)
    end = lower.find(b"\r", start)
    return int(lower[start : end if end >= 0 else len(lower)])


def _body(answer: bytes) -> Any:
    if not answer.startswith(b"HTTP/1.1 200"):
        raise AssertionError(f"not 200: {answer[:500]!r}")
    return json.loads(answer[answer.index(_HEAD_END) :])


def _told(event: Any) -> Told:
    return tuple(event["type"]), event["key"], event["payload"]["data"]


if __name__ == "__main__":
    load.main(Annals)
