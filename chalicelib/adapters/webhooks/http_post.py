"""Posts a request to a checked host, with a deadline and a size limit, and without redirects and proxies."""

import http.client
import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from io import BufferedReader
from typing import cast
from urllib.parse import SplitResult, urlsplit

from chalicelib.adapters.mail.message import Clock, now_ms
from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.adapters.webhooks.allowed_hosts import AllowedHost, SocketAddress, resolve
from chalicelib.adapters.webhooks.io_deadline import Deadline, open_reader
from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable

MISSING_URL = "No destination URL"
TIMEOUT_S = 10
MAX_RETRY_AFTER_S = 3600
MAX_RESPONSE_BYTES = 64 * 1024
"""Including headers."""

_MAX_TEXT_BYTES = 1000
_MIN_SECRET_CHARS = 6
"""Minimum length of a part of the path that is treated as secret."""
_RETRYABLE_STATUSES = {408, 425}
"""Client errors after which a retry may succeed."""


def split_url(url: str) -> SplitResult:
    """Raises `ValueError`. Its message never contains the path, because the path may be a secret."""
    if not url.strip():
        raise ValueError(MISSING_URL)
    if re.search(r"[^!-~]|\\", url):
        raise ValueError("the URL contains a character that is not allowed in URLs")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("the URL has a malformed host or port") from None
    if "@" in parts.netloc:
        raise ValueError("the URL contains a user or a password")
    return parts


class HttpPoster:
    """Posts requests. Threads may share it.

    Connecting, encrypting and answering may take `timeout_s` each, and all together twice that.
    """

    def __init__(self, timeout_s: float = TIMEOUT_S, clock: Clock = now_ms) -> None:
        self._timeout_s = timeout_s
        self._clock = clock

    def post(self, url: SplitResult, host: AllowedHost, headers: Mapping[str, str], body: bytes) -> None:
        """Return after a status of the 200s.

        Raises `NotDelivered`, `RateLimited`, or `Undeliverable` if a retry cannot succeed.
        """
        try:
            status, retry_after, text = self._exchange(host, _request(url, host, headers, body))
        except ssl.SSLCertVerificationError as error:
            reason = shorten_reason(error.verify_message)
            raise NotDelivered(f"{host.name} has no valid certificate: {reason}") from error
        except TimeoutError as error:
            raise NotDelivered(f"{host.name} did not answer in time") from error
        except http.client.HTTPException as error:
            raise NotDelivered(f"{host.name} closed the connection or did not answer with HTTP") from error
        except OSError as error:
            raise NotDelivered(f"{host.name} cannot be reached: {shorten_reason(str(error))}") from error
        retry_after_s = _parse_retry_after(retry_after, self._clock())
        _raise_for_status(status, f"{host.name} answered {status}{_without_secrets(text, url)}", retry_after_s)

    def _exchange(self, host: AllowedHost, request: bytes) -> tuple[int, str | None, bytes]:
        """Send `request`. Returns the status, Retry-After, and for failures the beginning of the body."""
        deadline = Deadline(2 * self._timeout_s, self._timeout_s)
        with self._connect(host, deadline) as connection:
            connection.settimeout(deadline.remaining_s())
            connection.sendall(request)
            response_socket = cast("socket.socket", _ResponseSocket(connection, deadline))
            with http.client.HTTPResponse(response_socket, method="POST") as response:
                response.begin()
                text = _read_text(response) if response.status >= 400 else b""
                return response.status, response.getheader("Retry-After"), text

    def _connect(self, host: AllowedHost, deadline: Deadline) -> socket.socket:
        """Connect to an address that was checked. The certificate must match the name of the host."""
        plain = _open_socket(resolve(host, deadline), deadline)
        if not host.is_tls:
            return plain
        try:
            plain.settimeout(deadline.remaining_s())
            return self._context.wrap_socket(plain, server_hostname=host.host)
        except BaseException:
            plain.close()
            raise

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context()


class _ResponseSocket:
    """The part of a socket that `HTTPResponse` uses, with a deadline."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._reader = open_reader(connection, deadline, MAX_RESPONSE_BYTES)

    def makefile(self, _mode: str) -> BufferedReader:
        return self._reader


def _request(url: SplitResult, host: AllowedHost, headers: Mapping[str, str], body: bytes) -> bytes:
    head = [
        f"POST {url.path or '/'}{'?' if url.query else ''}{url.query} HTTP/1.1",
        f"Host: {host.name}",
        "User-Agent: annals",
        "Accept-Encoding: identity",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body


def _open_socket(addresses: Iterable[SocketAddress], deadline: Deadline) -> socket.socket:
    """Connect to the first address that accepts. Raises the error of the last one."""
    last_error: OSError = ConnectionError("it has no address")
    for family, address in addresses:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(deadline.remaining_s())
            connection.connect(address)
        except OSError as error:
            connection.close()
            last_error = error
        else:
            return connection
    raise last_error


def _read_text(response: http.client.HTTPResponse) -> bytes:
    """The beginning of the body, as far as it can be read. The status is more important than a complete text."""
    text = b""
    try:
        while len(text) < _MAX_TEXT_BYTES and (more := response.read1(_MAX_TEXT_BYTES)):
            text += more
    except (OSError, http.client.HTTPException, ValueError):
        return text
    return text


def _without_secrets(text: bytes, url: SplitResult) -> str:
    """The text for an error message, without parts of the URL that the server repeated."""
    line = text.decode("utf-8", "replace")
    secrets = [url.path, url.query, *url.path.split("/")]
    for secret in (secret for secret in secrets if len(secret) >= _MIN_SECRET_CHARS):
        line = line.replace(secret, "…")
    return f": {shorten_reason(line)}" if line.strip() else ""


def _raise_for_status(status: int, reason: str, retry_after_s: float | None) -> None:
    match status:
        case _ if 200 <= status < 300:
            return
        case _ if 300 <= status < 400:
            raise Undeliverable(f"{reason}, but redirects are not followed")
        case http.client.TOO_MANY_REQUESTS:
            raise RateLimited(reason, retry_after_s)
        case http.client.SERVICE_UNAVAILABLE if retry_after_s is not None:
            raise RateLimited(reason, retry_after_s)
        case _ if 400 <= status < 500 and status not in _RETRYABLE_STATUSES:
            raise Undeliverable(reason)
        case _:
            raise NotDelivered(reason, retry_after_s)


def _parse_retry_after(value: str | None, now_ms: int) -> float | None:
    """Retry-After (seconds or a date) as seconds, at most an hour. None if it is missing or not valid."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), MAX_RETRY_AFTER_S))
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return min(max(_timestamp(date) - now_ms / 1000, 0.0), float(MAX_RETRY_AFTER_S))


def _timestamp(date: datetime) -> float:
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
