"""Keep-alive connections to one endpoint. Connecting costs more than the rest of a request.

Any thread may use the pool. It needs no lock: appending to and popping from a deque are atomic.
"""

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
MAX_IDLE_CONNECTIONS = 50

TRANSPORT_ERRORS = (OSError, HTTPException)
"""Raised by `Transport.post` if there is no response or an invalid one."""


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response with its body as received."""

    status: int
    content: bytes
    request_id: str = ""
    """Of the service. AWS support asks for it."""


class Transport(Protocol):
    """Sends requests to one endpoint."""

    host: str
    """Value of the Host header."""

    def post(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Response:
        """Send a request and wait for the response. Raises `TRANSPORT_ERRORS`."""

    def close(self) -> None: ...


class ConnectionPool:
    """Implements `Transport` over sockets. Thread-safe."""

    def __init__(self, endpoint: str, proxy: str | None = None) -> None:
        url = urlsplit(endpoint)
        self.host = url.netloc
        self._uses_tls = url.scheme == "https"
        self._proxy = None if proxy is None else urlsplit(proxy)
        # Last in, first out: surplus connections stay idle until the service closes them.
        self._idle: deque[HTTPConnection] = deque()
        # Short-lived clients need not be closed explicitly.
        weakref.finalize(self, _close_all, self._idle)

    def post(self, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Response:
        connection = self._take_idle() or self._connect(timeout_s)
        try:
            connection.sock.settimeout(timeout_s)
            connection.request("POST", "/", body, headers)
            http_response = connection.getresponse()
            headers_received = http_response.headers
            request_id = headers_received.get("x-amzn-requestid", "")
            response = Response(http_response.status, http_response.read(), request_id)
            _verify_checksum(response, headers_received.get("x-amz-crc32"))
        except BaseException:
            connection.close()
            # After a freeze of the function, all idle connections may be dead. Each would cost a retry.
            self.close()
            raise
        if connection.sock is not None and len(self._idle) < MAX_IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
        return response

    def close(self) -> None:
        """Close the idle connections."""
        _close_all(self._idle)

    def _take_idle(self) -> HTTPConnection | None:
        """An idle connection that the service has not closed."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not _is_readable(connection.sock):
                return connection
            connection.close()

    def _connect(self, timeout_s: float) -> HTTPConnection:
        connection = self._new_connection(min(timeout_s, CONNECT_TIMEOUT_S))
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _new_connection(self, timeout_s: float) -> HTTPConnection:
        """A connection, possibly through the proxy, that is not open yet."""
        if not self._uses_tls:
            return HTTPConnection(self.host, timeout=timeout_s)
        if self._proxy is None:
            return HTTPSConnection(self.host, timeout=timeout_s, context=_tls_context())
        proxy_host, proxy_port = self._proxy.hostname or "", self._proxy.port or 80
        connection = HTTPSConnection(proxy_host, proxy_port, timeout=timeout_s, context=_tls_context())
        connection.set_tunnel(self.host, headers=_proxy_auth_header(self._proxy))
        return connection


def _close_all(connections: deque[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _proxy_auth_header(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    user_and_password = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(user_and_password.encode()).decode()}"}


def _verify_checksum(response: Response, checksum: str | None) -> None:
    """Compare the body with the CRC-32 that DynamoDB sends."""
    if checksum is not None and checksum != str(zlib.crc32(response.content)):
        raise HTTPException("the checksum of the response is wrong")


def _is_readable(sock: socket.socket) -> bool:
    """Whether an idle connection has data. Without a request that means the service closed it."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


@cache
def _tls_context() -> ssl.SSLContext:
    """Shared, because loading the CA certificates takes as long as a hundred requests."""
    return ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE"))
