"""A client's connection: its socket, and the requests that wait for their turn."""

import socket
import time
from collections import deque

from infra.embedded.gateway import HttpRequest
from infra.embedded.http import Rejected, RequestReader

IDLE_S = 75.0
"""How long a client may keep a connection without a word, leave a request unfinished or an answer unread."""

_CHUNK = 256 * 1024


class Connection:
    """Neither reads nor writes ever wait."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self.requests: deque[tuple[HttpRequest, bool]] = deque()
        """Each complete request, and whether the connection stays open after it."""
        self.is_head = False
        """Whether the answer under way must have no body."""
        self.takes_chunks = True
        """Whether it understands an answer whose length is not known."""
        self.is_idle = True
        """Whether no request is being worked on."""
        self.stays = True
        """Whether the connection stays open after the answer under way."""
        self.has_ended = False
        """Whether the client will send no more."""
        self.rejection: Rejected | None = None
        """Why what it sends is of no interest any more."""
        self.is_told = False
        """Whether it knows that."""
        self.heard = time.monotonic()
        self._kept = b""
        """What came while an answer was under way."""
        self._reader = RequestReader(self._received, self._expected)

    def read(self) -> None:
        """Take what there is; raises `OSError` if the client is gone."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self.has_ended = True

    def keep(self) -> bool:
        """Take what there is for later; whether there is room for more. Raises `OSError` if the client is gone."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return True
        self._kept += data
        self.has_ended = not data
        return not self.has_ended and len(self._kept) < _CHUNK

    def take_kept(self) -> None:
        """Look at what was kept."""
        kept, self._kept = self._kept, b""
        if kept:
            self._take(kept)

    def send_now(self, data: bytes | memoryview) -> memoryview:
        """Send as much as goes without waiting; the rest."""
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        return memoryview(data)[sent:]

    def _take(self, data: bytes) -> None:
        if self.rejection is None:
            self.heard = time.monotonic()
            try:
                self._reader.feed(data)
            except Rejected as rejection:
                self.rejection = rejection

    def _received(self, request: HttpRequest, stays: bool) -> None:
        self.requests.append((request, stays))

    def _expected(self) -> None:
        self.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")
