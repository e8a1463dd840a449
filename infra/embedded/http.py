"""HTTP/1.1 over one socket: requests read one after the other, answers written in one piece each."""

import socket
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httptools

from infra.embedded.gateway import HttpRequest

MOST_HEADER_BYTES = 64 * 1024
MOST_BODY_BYTES = 6 * 1024 * 1024
"""What Lambda takes."""

_CHUNK = 64 * 1024
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Rejected(Exception):
    """The bytes are no request we could answer; the connection ends with this status."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Connection:
    """One client's socket. Pipelined requests wait their turn."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._parser = httptools.HttpRequestParser(self)
        self._complete: deque[tuple[HttpRequest, bool]] = deque()
        self._begin()

    def request(self) -> tuple[HttpRequest, bool] | None:
        """The next request, and whether the connection stays open after it; None when the client is gone."""
        while not self._complete:
            data = self._socket.recv(_CHUNK)
            if not data:
                return None
            self._feed(data)
        return self._complete.popleft()

    def send(self, answer: Mapping[str, Any], keep_alive: bool) -> None:
        """Write an answer that has the form of a Lambda function's."""
        body = answer["body"]
        payload = body if isinstance(body, bytes) else body.encode()
        status = answer["statusCode"]
        lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, '')}", f"Content-Length: {len(payload)}"]
        lines += [f"{name}: {value}" for name, value in answer["headers"].items()]
        if not keep_alive:
            lines.append("Connection: close")
        head = "\r\n".join((*lines, "\r\n")).encode("latin-1")
        self._socket.sendall(head + payload)

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as failure:
            if isinstance(failure.__context__, Rejected):
                raise failure.__context__ from None
            raise
        except httptools.HttpParserUpgrade as upgrade:
            raise Rejected(HTTPStatus.BAD_REQUEST, "this server speaks HTTP/1.1 only") from upgrade
        except httptools.HttpParserError as failure:
            raise Rejected(HTTPStatus.BAD_REQUEST, f"this is no HTTP/1.1 request: {failure}") from failure
        if self._header_bytes == 0 and not self._in_body and not self._complete:
            self._unfinished += len(data)
            if self._unfinished > MOST_HEADER_BYTES:
                raise Rejected(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's target is too long")

    def _begin(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._unfinished = 0
        self._in_body = False
        self._body: list[bytes] = []
        self._body_bytes = 0

    def on_message_begin(self) -> None:
        """A request begins."""
        self._begin()

    def on_url(self, target: bytes) -> None:
        """A piece of its target."""
        self._target += target
        self._count_header(len(target))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers; repeated ones are joined, as HTTP allows."""
        self._count_header(len(name) + len(value) + 4)
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]},{text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Its headers are all there; a client that asks whether to go on is told so."""
        self._in_body = True
        length = self._headers.get("content-length", "0")
        if length.isdigit() and int(length) > MOST_BODY_BYTES:
            raise _too_large()
        if self._headers.get("expect", "").lower() == "100-continue":
            self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        """A piece of its body."""
        self._body_bytes += len(data)
        if self._body_bytes > MOST_BODY_BYTES:
            raise _too_large()
        self._body.append(data)

    def on_message_complete(self) -> None:
        """The request is complete."""
        method = self._parser.get_method().decode("latin-1")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        request = HttpRequest(method, self._target.decode("latin-1"), self._headers, body)
        self._complete.append((request, self._parser.should_keep_alive()))
        self._begin()

    def _count_header(self, length: int) -> None:
        self._header_bytes += length
        if self._header_bytes > MOST_HEADER_BYTES:
            limit = MOST_HEADER_BYTES // 1024
            raise Rejected(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the headers have more than {limit} KB")


def _too_large() -> Rejected:
    return Rejected(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {MOST_BODY_BYTES} bytes")
