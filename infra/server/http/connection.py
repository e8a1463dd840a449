"""A client's connection: its socket, and the requests that wait for their turn."""

import socket
import time
from collections import deque

from infra.server.gateway.gateway import HttpRequest
from infra.server.http.head_cache import KnownHeads, head_of
from infra.server.http.protocol import Rejected, RequestReader

_ROOM = 32 * 1024
"""So much is kept of what a client sends before its turn."""
_PIECE = 2 * 1024
"""So much of it is looked at at once: a hundred requests may be in there."""

_NOTHING = memoryview(b"")
"""The end of something would hold all of it."""


class Connection:
    """Neither reads nor writes ever wait."""

    def __init__(self, sock: socket.socket, heads: KnownHeads | None = None) -> None:
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
        self.is_behind = False
        """Whether the client has to read before its answer goes on."""
        self.is_new = True
        """Whether it has not brought a request yet."""
        self.waits_since = time.monotonic()
        """Since when it is the client's turn: to ask, to end what it began to ask, or to read."""
        self.stays = True
        """Whether the connection stays open after the answer under way."""
        self.has_ended = False
        """Whether the client will send no more."""
        self.rejection: Rejected | None = None
        """Why what it sends is of no interest any more."""
        self.is_told = False
        """Whether it knows that."""
        self.at_work_bytes = 0
        """How long the body is that is being worked on."""
        self._kept = b""
        """What came before its turn."""
        self._heads = heads or KnownHeads()
        self._head = b""
        """The head of the request that is being parsed, if it may be learnt."""
        self._reader = RequestReader(self._begun, self._received, self._expected)

    @property
    def body_bytes(self) -> int:
        """How much of bodies is held for it: of what is being worked on, and of what is not complete."""
        return self.at_work_bytes + self._reader.body_bytes

    def keep(self) -> bool:
        """Take what there is for later; whether there is room for more. Raises `OSError` if the client is gone."""
        room = _ROOM - len(self._kept)
        if not room:
            return False
        try:
            data = self.socket.recv(room)
        except BlockingIOError:
            return True
        self._kept += data
        self.has_ended = not data
        return 0 < len(data) < room

    def take_kept(self) -> bool:
        """Look at what was kept, as far as the next request; whether there is one."""
        while self._kept and not self.requests and self.rejection is None:
            if self._reader.is_between and self._took_known():
                break
            end = max(_PIECE, self._reader.missing)
            piece, self._kept = self._kept[:end], self._kept[end:]
            try:
                self._reader.feed(piece)
            except Rejected as rejection:
                self.reject(rejection)
        if self.rejection is not None:
            self._kept = b""
        return bool(self.requests)

    def begin(self) -> HttpRequest:
        """The next request, which is being worked on from now on."""
        request, self.stays = self.requests.popleft()
        self.is_idle = False
        self.at_work_bytes = len(request.body)
        self.is_head = request.method == "HEAD"
        self.takes_chunks = request.version != "1.0"
        return request

    def close(self) -> None:
        """Nothing comes of it any more, and nothing goes."""
        self.is_idle = self.has_ended = True
        self.requests.clear()
        self.socket.close()

    def reject(self, rejection: Rejected) -> None:
        """Look at nothing more that it sends."""
        self.rejection = rejection
        self.forget()

    def forget(self) -> None:
        """Hold nothing of what it sent."""
        self._kept = b""
        self.at_work_bytes = 0
        self._reader.forget()

    def send_now(self, data: bytes | memoryview) -> memoryview:
        """Send as much as goes without waiting; the rest."""
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        return memoryview(data)[sent:] if sent < len(data) else _NOTHING

    def _took_known(self) -> bool:
        """Take the next request, if one like it came before; if not, its head may be learnt."""
        known = self._heads.request(self._kept)
        if known is None:
            self._head = head_of(self._kept)
            return False
        request, end = known
        self._kept = self._kept[end:]
        self._reader.forget()
        self._begun()
        self._received(request, stays=True)
        return True

    def _begun(self) -> None:
        self.waits_since = time.monotonic()

    def _received(self, request: HttpRequest, stays: bool) -> None:
        self.is_new = False
        self.requests.append((request, stays))
        if self._head and stays:
            self._heads.learn(self._head, request)
        self._head = b""

    def _expected(self) -> None:
        self.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")
