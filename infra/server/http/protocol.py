"""HTTP/1.1: bytes into requests, answers into bytes."""

from collections.abc import Callable, Generator
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

import httptools
from chalice.app import Response

from chalicelib.domain.events.head import Head
from chalicelib.http.responses import Stepwise
from chalicelib.services.feeds.suspension import Wait
from infra.server.gateway.gateway import HttpRequest

Steps = Generator[bytes | Wait, Head | None, None]
"""Bytes to be sent, and waits between them."""

MOST_HEADER_BYTES = 64 * 1024
MOST_BODY_BYTES = 2 * 1024 * 1024
"""Several times what fits in a commit, as JSON may be written at length."""
VERSIONS = ("1.0", "1.1")

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Rejected(Exception):
    """The bytes are no request we could answer; the connection ends with this status."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class RequestReader:
    """Makes requests of the bytes of one connection."""

    def __init__(
        self,
        begun: Callable[[], None],
        received: Callable[[HttpRequest, bool], None],
        expected: Callable[[], None],
    ) -> None:
        """`received` gets each request and whether the connection stays open; `expected` is called for 100-continue."""
        self._begun = begun
        self._received = received
        self._expected = expected
        self._parser = httptools.HttpRequestParser(self)
        self.is_between = True
        """Whether what comes next begins a request; after the last one nothing may come."""
        self.forget()

    @property
    def missing(self) -> int:
        """How much of the body has to come, if that is known."""
        return self._body_length - self.body_bytes

    def feed(self, data: bytes) -> None:
        """Take the next bytes; not too many at once, so that a head without end is noticed.

        Lengths of chunks, their extensions and trailers count as head: they may be as long as the body, and that much.
        """
        self._bytes += len(data)
        while data:
            data = self._parsed(data)
        if self._bytes - 2 * self.body_bytes > MOST_HEADER_BYTES:
            limit = MOST_HEADER_BYTES // 1024
            raise Rejected(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head has more than {limit} KB")

    def _parsed(self, data: bytes) -> bytes:
        """Parse; what is still to be parsed."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as failure:
            if isinstance(failure.__context__, Rejected | OSError):
                raise failure.__context__ from None
            raise
        except httptools.HttpParserUpgrade as upgrade:
            # We stay with HTTP/1.1, as we may. The parser would not, and would take the body for the next request.
            head = self._head_without_upgrade()
            self._parser = httptools.HttpRequestParser(self)
            return head + data[upgrade.args[0] :]
        except httptools.HttpParserError as failure:
            raise Rejected(HTTPStatus.BAD_REQUEST, f"this is no HTTP/1.1 request: {failure}") from failure
        return b""

    def _head_without_upgrade(self) -> bytes:
        line = b"%b %b HTTP/%b" % (self._parser.get_method(), self._target, self._parser.get_http_version().encode())
        kept = (f"{name}: {value}".encode("latin-1") for name, value in self._headers.items() if name != "upgrade")
        return b"\r\n".join((line, *kept, b"\r\n"))

    def forget(self) -> None:
        """Nothing is there of a request."""
        self._target = b""
        self._headers: dict[str, str] = {}
        self._bytes = 0
        self._in_body = False
        self._body: list[bytes] = []
        self._body_length = 0
        self.body_bytes = 0

    def on_message_begin(self) -> None:
        """A request begins."""
        self.is_between = False
        self.forget()
        self._begun()

    def on_url(self, target: bytes) -> None:
        """A piece of its target."""
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers; repeated ones are joined, as HTTP allows. What trails the body is of no interest."""
        if self._in_body:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if key in self._headers:
            if key == "host":
                raise Rejected(HTTPStatus.BAD_REQUEST, "the request has two hosts")
            text = f"{self._headers[key]},{text}"
        self._headers[key] = text

    def on_headers_complete(self) -> None:
        """Its headers are all there; a client that asks whether to go on is told so."""
        self._in_body = True
        self._check_framing(self._parser.get_http_version(), self._headers.get("transfer-encoding"))
        if self._parser.should_upgrade():
            return  # its head will be read again
        self._body_length = int(self._headers.get("content-length", "0"))
        if self._body_length > MOST_BODY_BYTES:
            raise _too_large()
        if self._headers.get("expect", "").lower() == "100-continue":
            self._expected()

    def on_body(self, data: bytes) -> None:
        """A piece of its body."""
        self.body_bytes += len(data)
        if self.body_bytes > MOST_BODY_BYTES:
            raise _too_large()
        self._body.append(data)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._parser.should_upgrade():
            return
        method = self._parser.get_method().decode("latin-1")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        version = self._parser.get_http_version()
        request = HttpRequest(method, _origin_form(self._target), self._headers, body, version)
        self.is_between = self._parser.should_keep_alive()
        self._received(request, self.is_between)
        self.forget()

    def _check_framing(self, version: str, coding: str | None) -> None:
        """Refuse what others on the way may read otherwise: where it ends must be beyond doubt."""
        if version not in VERSIONS:
            raise Rejected(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"this is HTTP/1.1, not HTTP/{version}")
        if self._parser.get_method() == b"CONNECT":
            raise Rejected(HTTPStatus.BAD_REQUEST, "there are no tunnels here")
        if coding is not None and version == "1.0":
            raise Rejected(HTTPStatus.BAD_REQUEST, "HTTP/1.0 has no Transfer-Encoding")
        if coding is not None and coding.lower() != "chunked":
            raise Rejected(HTTPStatus.NOT_IMPLEMENTED, "the only Transfer-Encoding understood is chunked")


def answer_bytes(answer: Response, keep_alive: bool, with_body: bool = True) -> bytes:
    """An answer of the app, as HTTP."""
    body, status = answer.body, answer.status_code
    payload: bytes = body if isinstance(body, bytes) else body.encode()
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, '')}", f"Content-Length: {len(payload)}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    if not keep_alive:
        lines.append("Connection: close")
    head = "\r\n".join((*lines, "\r\n")).encode("latin-1")
    return head + payload if with_body else head


def stepwise_bytes(answer: Stepwise, stays: Callable[[], bool], chunked: bool) -> Steps:
    """An answer that takes steps, as HTTP. A stream's head goes at once; without chunks it ends with the connection."""
    if answer.is_stream:
        lines = ["HTTP/1.1 200 OK", *(f"{name}: {value}" for name, value in answer.headers.items())]
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        if not stays():
            lines.append("Connection: close")
        yield "\r\n".join((*lines, "\r\n")).encode("latin-1")
    response = yield from _taken(answer.steps, chunked)
    if not answer.is_stream and response is not None:
        yield answer_bytes(response, stays())
    elif response is not None:
        raise ConnectionError("the stream is broken, and its client must not think that it ended")
    elif chunked:
        yield b"0\r\n\r\n"


def _taken(
    steps: Generator[str | Wait, Head | None, Response | None], chunked: bool
) -> Generator[bytes | Wait, Head | None, Response | None]:
    """The steps, with each piece of text as it is sent: in a chunk of its own."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, Wait):
                step = steps.send((yield step))
                continue
            piece = _piece(step, chunked)
            del step  # a client that reads slowly holds what it has not read, and no more
            yield piece
            step = next(steps)
    except StopIteration as end:
        response: Response | None = end.value
        return response


def _piece(text: str, chunked: bool) -> bytes:
    payload = text.encode()
    return b"%x\r\n%b\r\n" % (len(payload), payload) if chunked and payload else payload


def _origin_form(target: bytes) -> str:
    """The path and query of a target, which may be a whole address."""
    if b"%" in target or not target.isascii():
        try:
            unquote_to_bytes(target).decode()
        except UnicodeDecodeError as failure:
            raise Rejected(HTTPStatus.BAD_REQUEST, "the request's target is not written in UTF-8") from failure
    if target.startswith(b"/"):
        return target.decode("latin-1")
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError as failure:
        raise Rejected(HTTPStatus.BAD_REQUEST, "the request's target is no address") from failure
    path = (url.path or b"/").decode("latin-1")
    return f"{path}?{url.query.decode('latin-1')}" if url.query else path


def _too_large() -> Rejected:
    return Rejected(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {MOST_BODY_BYTES} bytes")
