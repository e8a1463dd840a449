"""Connections to one endpoint, kept open: most of what a request would cost is to connect for it."""

import os
import select
import socket
import ssl
import weakref
import zlib
from base64 import b64encode
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit

CONNECT_TIMEOUT_S = 1.0
MOST_IDLE = 50

NO_ANSWER = (OSError, HTTPException)
"""What an exchange raises when there is no answer, or none that can be understood."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, as it was sent."""

    status: int
    content: bytes


class Wire(Protocol):
    """What carries requests to an endpoint."""

    host: str
    """As requests name it."""

    def exchange(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
        """Post this and wait for the answer; raises what `NO_ANSWER` names."""

    def close(self) -> None:
        """Carry nothing any more."""


class Connections:
    """The port `Wire` by sockets; threads may share it."""

    def __init__(self, endpoint: str, proxy: str | None = None) -> None:
        parts = urlsplit(endpoint)
        self.host = parts.netloc
        self._is_safe = parts.scheme == "https"
        self._proxy = None if proxy is None else urlsplit(proxy)
        # Whoever comes takes the one used last: those that are too many grow old, and their other end closes them.
        self._idle: deque[HTTPConnection] = deque()
        # Whoever makes a client for a moment need not think of its connections.
        weakref.finalize(self, _close, self._idle)

    def exchange(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
        """Post this and wait for the answer."""
        connection = self._taken() or self._opened(timeout_s)
        try:
            connection.sock.settimeout(timeout_s)
            connection.request("POST", "/", body, headers)
            response = connection.getresponse()
            answer = Answer(response.status, response.read())
            _check(answer, response.headers.get("x-amz-crc32"))
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None and len(self._idle) < MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        """Close those that nobody uses."""
        _close(self._idle)

    def _taken(self) -> HTTPConnection | None:
        """One that is open, if there is one: of those whose other end has closed them, nobody has told us."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not _has_news(connection.sock):
                return connection
            connection.close()

    def _opened(self, timeout_s: float) -> HTTPConnection:
        connection = self._closed(min(timeout_s, CONNECT_TIMEOUT_S))
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _closed(self, timeout_s: float) -> HTTPConnection:
        if not self._is_safe:
            return HTTPConnection(self.host, timeout=timeout_s)
        if self._proxy is None:
            return HTTPSConnection(self.host, timeout=timeout_s, context=_tls())
        near = HTTPSConnection(self._proxy.hostname or "", self._proxy.port or 80, timeout=timeout_s, context=_tls())
        near.set_tunnel(self.host, headers=_introduction(self._proxy))
        return near


def _close(connections: deque[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _introduction(proxy: SplitResult) -> dict[str, str]:
    """What a proxy is told that wants to know who comes."""
    if proxy.username is None:
        return {}
    who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(who.encode()).decode()}"}


def _check(answer: Answer, checksum: str | None) -> None:
    """DynamoDB says what it has sent."""
    if checksum is not None and checksum != str(zlib.crc32(answer.content)):
        raise HTTPException("the answer is not what was sent")


def _has_news(sock: socket.socket) -> bool:
    """Whether there is something to read: when nothing was asked, that is the end."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


@cache
def _tls() -> ssl.SSLContext:
    """One for all: to read the certificates of all authorities takes as long as a hundred requests."""
    return ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE"))
