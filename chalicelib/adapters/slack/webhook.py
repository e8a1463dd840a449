"""Messages to Slack's incoming webhooks, and to nowhere else."""

import http.client
import re
import socket
import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from io import BufferedReader
from typing import cast
from urllib.parse import SplitResult, urlsplit

from chalicelib.adapters.mail.message import Clock, now_ms
from chalicelib.adapters.slack.allowed_hosts import AllowedHost, SocketAddress, allowed_host, destination, resolve
from chalicelib.adapters.slack.io_deadline import Deadline, reader
from chalicelib.adapters.templates.text import said
from chalicelib.domain.errors import NotDelivered, Undeliverable
from chalicelib.domain.notifications.delivery import SlackPost

NO_URL = "No destination URL"
ALLOWED = ("hooks.slack.com",)
TIMEOUT_S = 10
LONGEST_PAUSE_S = 3600
MOST_BYTES = 64 * 1024
"""As much of an answer as is read, headers and all."""

_MOST_TEXT = 1000
_SECRET = 6
"""The shortest part of a path that may be a secret."""
_LATER = {408, 425, 429}
"""Refusals that ask for another try."""


def check_url(url: str, allowed: Sequence[str] = ALLOWED) -> None:
    """Raise ValueError, which says why, if nothing could ever be posted to `url`. Asks no DNS."""
    _checked(url, [allowed_host(entry) for entry in allowed])


class SlackPoster:
    """Posts to webhooks of `allowed` hosts: `host`, `host:port` or, where its address is private, `private:host:port`.

    To connect, to encrypt and to answer may take `timeout_s` each, and all of it together twice that.
    """

    def __init__(self, allowed: Sequence[str] = ALLOWED, timeout_s: float = TIMEOUT_S, clock: Clock = now_ms) -> None:
        self._allowed = [allowed_host(entry) for entry in allowed]
        self._timeout_s = timeout_s
        self._clock = clock

    def post(self, post: SlackPost) -> None:
        """Post once, or raise `NotDelivered`; `Undeliverable` if the URL or the answer leaves no hope."""
        try:
            url, host = _checked(post.url, self._allowed)
        except ValueError as refusal:
            raise Undeliverable(str(refusal)) from refusal
        try:
            status, retry_after, text = self._answer(host, _request(url, host, post.json))
        except ssl.SSLCertVerificationError as failure:
            raise NotDelivered(f"{host.name} has no valid certificate: {said(failure.verify_message)}") from failure
        except TimeoutError as failure:
            raise NotDelivered(f"{host.name} did not answer in time") from failure
        except http.client.HTTPException as failure:
            raise NotDelivered(f"{host.name} broke off, or what it answered is not HTTP") from failure
        except OSError as failure:
            raise NotDelivered(f"{host.name} cannot be reached: {said(str(failure))}") from failure
        pause_s = _pause_s(retry_after, self._clock())
        _judge(status, f"{host.name} answered {status}{_without_secrets(text, url)}", pause_s)

    def _answer(self, host: AllowedHost, request: bytes) -> tuple[int, str | None, bytes]:
        """Send `request`: the status, Retry-After, and the first of what is said about a refusal."""
        deadline = Deadline(2 * self._timeout_s, self._timeout_s)
        with self._connected(host, deadline) as connection:
            connection.settimeout(deadline.left_s())
            connection.sendall(request)
            answering = cast("socket.socket", _Answering(connection, deadline))
            with http.client.HTTPResponse(answering, method="POST") as response:
                response.begin()
                text = _text(response) if response.status >= 400 else b""
                return response.status, response.getheader("Retry-After"), text

    def _connected(self, host: AllowedHost, deadline: Deadline) -> ssl.SSLSocket:
        """An encrypted connection to an address that was checked; the certificate is that of the host's name."""
        plain = _opened(resolve(host, deadline), deadline)
        try:
            plain.settimeout(deadline.left_s())
            return self._context.wrap_socket(plain, server_hostname=host.host)
        except BaseException:
            plain.close()
            raise

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context()


class _Answering:
    """As much of a socket as `HTTPResponse` wants."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._reader = reader(connection, deadline, MOST_BYTES)

    def makefile(self, _mode: str) -> BufferedReader:
        return self._reader


def _checked(url: str, allowed: Iterable[AllowedHost]) -> tuple[SplitResult, AllowedHost]:
    """The URL and its host. No reason names the path: who knows that can post."""
    if not url.strip():
        raise ValueError(NO_URL)
    if re.search(r"[^!-~]|\\", url):
        raise ValueError("the URL holds a character that no URL may hold")
    try:
        parts = urlsplit(url)
        host = destination(parts, allowed)
    except ValueError:
        raise ValueError("the URL is not one: its host or its port is malformed") from None
    if parts.scheme != "https":
        raise ValueError("the URL does not begin with https://")
    if "@" in parts.netloc:
        raise ValueError("the URL holds a user or a password")
    if host is None:
        raise ValueError(f"'{said(parts.netloc)}' is not among the hosts that messages may go to")
    return parts, host


def _request(url: SplitResult, host: AllowedHost, json: str) -> bytes:
    body = json.encode("utf-8", "replace")
    head = [
        f"POST {url.path or '/'}{'?' if url.query else ''}{url.query} HTTP/1.1",
        f"Host: {host.name}",
        "User-Agent: annals",
        "Accept-Encoding: identity",
        "Content-Type: application/json; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body


def _opened(addresses: Iterable[SocketAddress], deadline: Deadline) -> socket.socket:
    """A connection to the first address that takes one."""
    refusal: OSError = ConnectionError("it has no address")
    for family, address in addresses:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(deadline.left_s())
            connection.connect(address)
        except OSError as failure:
            connection.close()
            refusal = failure
        else:
            return connection
    raise refusal


def _text(response: http.client.HTTPResponse) -> bytes:
    """The first of the body, as much as comes: the status matters more."""
    text = b""
    try:
        while len(text) < _MOST_TEXT and (more := response.read1(_MOST_TEXT)):
            text += more
    except (OSError, http.client.HTTPException, ValueError):
        return text
    return text


def _without_secrets(text: bytes, url: SplitResult) -> str:
    """What was said, in brackets; parts of the URL that it repeats are left out."""
    line = text.decode("utf-8", "replace")
    secrets = [url.path, url.query, *url.path.split("/")]
    for secret in (secret for secret in secrets if len(secret) >= _SECRET):
        line = line.replace(secret, "…")
    return f": {said(line)}" if line.strip() else ""


def _judge(status: int, reason: str, pause_s: float | None) -> None:
    """Raise what an answer means, unless it is a success."""
    match status:
        case _ if 200 <= status < 300:
            return
        case _ if 300 <= status < 400:
            raise Undeliverable(f"{reason}, but redirects are not followed")
        case _ if 400 <= status < 500 and status not in _LATER:
            raise Undeliverable(reason)
        case _:
            raise NotDelivered(reason, pause_s)


def _pause_s(retry_after: str | None, now_ms: int) -> float | None:
    """The seconds of a Retry-After, in seconds or as a date, an hour at most; None if there is none that is clear."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), LONGEST_PAUSE_S))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return min(max(_seconds(moment) - now_ms / 1000, 0.0), float(LONGEST_PAUSE_S))


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
