"""A client connection: its socket, its parser, and the parsed requests that have not been handled yet."""

import socket
import time

from infra.server.http.protocol import HttpRequest, RequestParser, RequestRejected

MAX_BUFFERED_BYTES = 32 * 1024
"""Input that is kept while the connection's current request is handled."""
MAX_PARSED_BYTES = 4 * 1024
"""Input that is parsed at a time. It may contain two hundred requests, and each is held until its turn."""

_NOTHING = memoryview(b"")
"""An empty slice of a sent buffer would keep the whole buffer in memory."""


class Connection:
    """A client connection. No method blocks. One thread at a time may use it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self.is_head_request = False
        """Whether the current response must not have a body."""
        self.accepts_chunks = True
        """Whether the client understands `Transfer-Encoding: chunked`."""
        self.is_idle = True
        """Whether no request is being handled."""
        self.has_unsent_data = False
        """Whether the client has to read before the response can continue."""
        self.is_new = True
        """Whether the client has not sent a complete request yet."""
        self.waiting_since = time.monotonic()
        """Since when the server waits for the client to send a request, to complete one, or to read."""
        self.keep_alive = True
        """Whether the connection stays open after the current response."""
        self.is_eof = False
        """Whether the client will send no more."""
        self.rejection: RequestRejected | None = None
        """The reason why further input is ignored."""
        self.is_rejection_sent = False
        self.active_body_bytes = 0
        """Size of the body of the request that is being handled."""
        self.counted_body_bytes = 0
        """The `body_bytes` that `Connections` has counted."""
        self._buffer = b""
        self._parser = RequestParser(self._on_expect_continue)
        self._requests = self._parser.requests

    @property
    def has_input(self) -> bool:
        """Whether there is input, its end, or invalid input, that has not been handled."""
        return bool(self._buffer or self._requests) or self.is_eof or self.rejection is not None

    @property
    def body_bytes(self) -> int:
        """Memory used for the bodies of the current request and of the request that is not complete."""
        return self.active_body_bytes + self._parser.body_bytes

    def receive(self) -> bool:
        """Buffer the available input and return whether there is room for more.

        Raises `OSError` if the connection is broken.
        """
        room = MAX_BUFFERED_BYTES - len(self._buffer)
        if not room:
            return False
        try:
            data = self.socket.recv(room)
        except BlockingIOError:
            return True
        self._buffer += data
        self.is_eof = not data
        return 0 < len(data) < room

    def parse_next(self) -> bool:
        """Parse the buffered input up to the next request and return whether there is one."""
        while self._buffer and not self._requests and self.rejection is None:
            end = max(MAX_PARSED_BYTES, self._parser.missing_body_bytes)
            data, self._buffer = self._buffer[:end], self._buffer[end:]
            try:
                self._parser.feed(data)
            except RequestRejected as rejection:
                self.reject(rejection)
            self.waiting_since = max(self.waiting_since, self._parser.begun_at)
        if self.rejection is not None:
            self._buffer = b""
        return bool(self._requests)

    def start_request(self) -> HttpRequest:
        """Take the next request. The connection is not idle until its response is sent."""
        request, self.keep_alive = self._requests.popleft()
        self.is_new = False
        self.is_idle = False
        self.active_body_bytes = len(request.body)
        self.is_head_request = request.method == "HEAD"
        self.accepts_chunks = request.version != "1.0"
        return request

    def close(self) -> None:
        self.is_idle = self.is_eof = True
        self._requests.clear()
        self.socket.close()

    def reject(self, rejection: RequestRejected) -> None:
        """Ignore all further input."""
        self.rejection = rejection
        self.discard_input()

    def discard_input(self) -> None:
        """Release the memory used for input."""
        self._buffer = b""
        self.active_body_bytes = 0
        self._parser.reset()

    def try_send(self, data: bytes | memoryview) -> memoryview:
        """Send what the socket accepts and return the unsent rest."""
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        return memoryview(data)[sent:] if sent < len(data) else _NOTHING

    def _on_expect_continue(self) -> None:
        self.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")
