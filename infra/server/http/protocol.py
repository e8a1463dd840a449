"""HTTP/1.1 requests: from bytes to `HttpRequest`."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import httptools

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 2 * 1024 * 1024
"""Several times the size of a commit, because the same JSON may be written at length."""
VERSIONS = ("1.0", "1.1")


class HttpRequest(NamedTuple):
    """A complete request. Header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    version: str = "1.1"


class RequestRejected(Exception):
    """The input is not a request that can be answered. The connection ends with this status."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class RequestParser:
    """Parses the requests of one connection. The methods `on_...` are callbacks of httptools.

    Every request passes here, and a function call costs as much as parsing a header. So there are few of them.
    """

    def __init__(self, on_expect_continue: Callable[[], None]) -> None:
        self.requests: deque[tuple[HttpRequest, bool]] = deque()
        """Complete requests, each with whether the connection stays open after its response."""
        self.begun_at = 0.0
        """Monotonic time at which the current or the last request began."""
        self._on_expect_continue = on_expect_continue
        self._parser = httptools.HttpRequestParser(self)
        self._fed_bytes = 0
        self.reset()

    @property
    def missing_body_bytes(self) -> int:
        """The number of bytes that `Content-Length` announced and that have not arrived."""
        return self._content_length - self.body_bytes

    def feed(self, data: bytes) -> None:
        """Parse the next bytes. Pass few at a time, so that an endless head is noticed.

        Raises `RequestRejected`. Chunk sizes, chunk extensions and trailers count as head. They may take as much space
        as the body does, and `MAX_HEAD_BYTES` in addition.
        """
        self._input_bytes += len(data)
        self._fed_bytes = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # A server may ignore `Upgrade`. The parser would not, and would take the body for the next request.
            head = self._head_without_upgrade()
            self._parser = httptools.HttpRequestParser(self)
            self.reset()
            self.feed(head + data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, RequestRejected | OSError):
                raise error.__context__ from None
            raise
        except httptools.HttpParserError as error:
            raise RequestRejected(HTTPStatus.BAD_REQUEST, f"this is not a valid HTTP/1.1 request: {error}") from error
        if self._input_bytes - 2 * self.body_bytes > MAX_HEAD_BYTES:
            limit = MAX_HEAD_BYTES // 1024
            raise RequestRejected(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the request head is larger than {limit} KB"
            )

    def reset(self) -> None:
        """Forget the current request."""
        self._target = b""
        self._headers: dict[str, str] = {}
        self._input_bytes = 0
        self._is_head_complete = False
        self._body: list[bytes] = []
        self._content_length = 0
        self.body_bytes = 0

    def on_message_begin(self) -> None:
        self._input_bytes = self._fed_bytes  # Earlier input, such as empty lines, does not count.
        self.begun_at = time.monotonic()

    def on_url(self, target: bytes) -> None:
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_head_complete:
            return  # a trailer
        key, text = _header_name(name), value.decode("latin-1")
        if key in self._headers:
            if key == "host":
                raise RequestRejected(HTTPStatus.BAD_REQUEST, "the request has more than one Host header")
            text = f"{self._headers[key]},{text}"
        self._headers[key] = text

    def on_headers_complete(self) -> None:
        headers = self._headers
        self._is_head_complete = True
        self._version = self._parser.get_http_version()
        self._method = self._parser.get_method()
        self._check_framing(headers.get("transfer-encoding"))
        if "upgrade" in headers and self._parser.should_upgrade():
            return  # The head is parsed again without the upgrade.
        self._content_length = int(headers.get("content-length", "0"))
        if self._content_length > MAX_BODY_BYTES:
            raise _body_too_large()
        if "expect" in headers and headers["expect"].lower() == "100-continue":
            self._on_expect_continue()

    def on_body(self, data: bytes) -> None:
        self.body_bytes += len(data)
        if self.body_bytes > MAX_BODY_BYTES:
            raise _body_too_large()
        self._body.append(data)

    def on_message_complete(self) -> None:
        if "upgrade" in self._headers and self._parser.should_upgrade():
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        request = HttpRequest(
            self._method.decode("latin-1"), _origin_form(self._target), self._headers, body, self._version
        )
        self.requests.append((request, self._parser.should_keep_alive()))
        self.reset()

    def _head_without_upgrade(self) -> bytes:
        line = b"%b %b HTTP/%b" % (self._method, self._target, self._version.encode())
        headers = (f"{name}: {value}".encode("latin-1") for name, value in self._headers.items() if name != "upgrade")
        return b"\r\n".join((line, *headers, b"\r\n"))

    def _check_framing(self, transfer_encoding: str | None) -> None:
        """Reject requests whose end a proxy might see elsewhere."""
        if self._version not in VERSIONS:
            raise RequestRejected(
                HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"HTTP/{self._version} is not supported, use HTTP/1.1"
            )
        if self._method == b"CONNECT":
            raise RequestRejected(HTTPStatus.BAD_REQUEST, "CONNECT is not supported: this server is not a proxy")
        if transfer_encoding is not None and self._version == "1.0":
            raise RequestRejected(HTTPStatus.BAD_REQUEST, "Transfer-Encoding is not allowed in HTTP/1.0")
        if transfer_encoding is not None and transfer_encoding.lower() != "chunked":
            raise RequestRejected(HTTPStatus.NOT_IMPLEMENTED, "the only supported Transfer-Encoding is chunked")
        if "host" not in self._headers and self._version == "1.1":
            raise RequestRejected(HTTPStatus.BAD_REQUEST, "the request has no Host header, which HTTP/1.1 requires")


@lru_cache(maxsize=1024)
def _header_name(name: bytes) -> str:
    """Cached, because clients send the same few names."""
    return name.decode("latin-1").lower()


def _origin_form(target: bytes) -> str:
    """The path and query of a request target, which may be an absolute URL."""
    if b"%" in target or not target.isascii():
        try:
            unquote_to_bytes(target).decode()
        except UnicodeDecodeError as error:
            raise RequestRejected(HTTPStatus.BAD_REQUEST, "the request target is not valid UTF-8") from error
    if target.startswith(b"/"):
        return target.decode("latin-1")
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError as error:
        raise RequestRejected(HTTPStatus.BAD_REQUEST, "the request target is not a valid URL") from error
    path = (url.path or b"/").decode("latin-1")
    return f"{path}?{url.query.decode('latin-1')}" if url.query else path


def _body_too_large() -> RequestRejected:
    return RequestRejected(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {MAX_BODY_BYTES} bytes")
