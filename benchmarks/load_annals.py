"""The load generator for Annals: keep-alive HTTP over raw sockets, requests built beforehand."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import load
from benchmarks.events import DATA, KEY, TYPE

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

    def appender(self, events: int) -> Callable[[], None]:
        """POST /events; 201 comes when they are durable."""
        connection = Connection(self._address)
        request = self._post(json.dumps({"events": [_EVENT] * events}, separators=(",", ":")).encode())

        def append() -> None:
            answer = connection.exchange(request)
            if not answer.startswith(b"HTTP/1.1 201"):
                raise AssertionError(f"not 201: {answer[:500]!r}")

        return append

    def pages(self) -> Iterator[int]:
        """GET /events?after=… until Empty; events are counted, not decoded."""
        return (page.count(_NUMBER) - 1 for page in self._pages())

    def follower(self) -> Callable[[], int]:
        """GET /events?after=…&timeout=10s, the long poll."""
        connection = Connection(self._address)
        (after, _) = _parsed(connection.exchange(self._get("/events?limit=-1")))

        def follow() -> int:
            nonlocal after
            page = connection.exchange(self._get(f"/events?after={after}&timeout=10s"))
            (after, events) = _counted(page)
            return events

        return follow

    def verified(self) -> int:
        """Each event parsed: its EventId greater than the one before, its content what was appended."""
        total = last = 0
        for page in self._pages():
            _, events = _parsed(page)
            for event in events:
                if event["eventId"] <= last or any(event[name] != wanted for name, wanted in _EVENT.items()):
                    raise AssertionError(f"not what was appended, or not in order: {event}")
                last = event["eventId"]
            total += len(events)
        return total

    def _pages(self) -> Iterator[bytes]:
        connection, after, events = Connection(self._address), 0, 1
        while events:
            page = connection.exchange(self._get(f"/events?after={after}"))
            (after, events) = _counted(page)
            if events:
                yield page

    def _post(self, body: bytes) -> bytes:
        head = f"POST /events HTTP/1.1\r\n{self._headers}Content-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _get(self, target: str) -> bytes:
        return f"GET {target} HTTP/1.1\r\n{self._headers}\r\n".encode()


def _content_length(head: bytes) -> int:
    lower = head.lower()
    start = lower.index(_LENGTH) + len(_LENGTH)
    end = lower.find(b"\r", start)
    return int(lower[start : end if end >= 0 else len(lower)])


def _counted(answer: bytes) -> tuple[int, int]:
    """Up to which EventId the answer goes, and how many events it has."""
    if not answer.startswith(b"HTTP/1.1 200"):
        raise AssertionError(f"not 200: {answer[:500]!r}")
    start = answer.index(_NUMBER) + len(_NUMBER)
    return int(answer[start : answer.index(b",", start)]), answer.count(_NUMBER) - 1


def _parsed(answer: bytes) -> tuple[int, list[Any]]:
    value = json.loads(answer[answer.index(_HEAD_END) :])
    return value["eventId"], value.get("eventSnapshots", [])


if __name__ == "__main__":
    load.main(Annals)
