"""TCP proxies that inject faults between an HTTP client and its server.

- `ScriptedProxy` applies a planned fault to each request.
- `RandomFaultProxy` breaks requests and responses at random, with a seed.
- `CuttingProxy` cuts connections in the middle of a response at random, with a seed. It forwards streams, too.

Threads: one accepts connections, and each connection has its own (two in `CuttingProxy`).
"""

import contextlib
import hashlib
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from enum import Enum, auto
from types import TracebackType
from typing import Self

from tests.torture.faults import Dice, Fault, Odds

IO_TIMEOUT_S = 60.0
MAX_DELAY_S = 0.2
MAX_CONNECTION_AGE_S = 2.0
"""`CuttingProxy` cuts a connection after a random time up to this."""
WRITE_OPERATIONS = (b"DynamoDB_20120810.PutItem", b"DynamoDB_20120810.BatchWriteItem")
"""Found in the head of DynamoDB requests that write, for which faults are more likely."""
PERSISTENT_FAULT_SHARE = 0.2
"""Share of the broken requests that are also broken when the SDK retries them, so that it gives up."""
PERSISTENT_FAULT_RETRIES = 3

_HEAD_END = b"\r\n\r\n"
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_RECEIVE_BYTES = 65_536
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""Value for SO_LINGER: closing the socket sends a reset."""


class _Proxy:
    """Listens on a free port, which stays the same while the server restarts, and connects clients to the server."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # shutdown wakes accept(), close alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._upstream) as server:
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._forward(client, server)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """Forward until one side or a fault closes the connection."""
        raise NotImplementedError


class _MessageProxy(_Proxy):
    """Forwards whole HTTP messages."""

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        for sock in (client, server):
            sock.settimeout(IO_TIMEOUT_S)
        while (request := _receive_message(client)) and self._exchange(request, client, server):
            pass

    def _exchange(self, request: bytes, client: socket.socket, server: socket.socket) -> bool:
        """Forward one request and its response. False closes the connection."""
        raise NotImplementedError


class HttpFault(Enum):
    """Planned fault of a `ScriptedProxy`."""

    LOSE_REQUEST = auto()
    """The connection is closed before the server receives the request."""
    LOSE_RESPONSE = auto()
    """The server handles the request, but the connection is closed without a response."""
    CUT_RESPONSE = auto()
    """The server handles the request, but only half of the response arrives."""
    UNAVAILABLE = auto()
    """The server handles the request, but the response is 503."""
    FOREIGN_PAGE = auto()
    """The response is an HTML page with status 200."""


class ScriptedProxy(_MessageProxy):
    """Applies the planned faults to the next requests, in order."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.planned: deque[HttpFault | None] = deque()
        """Faults of the next requests. None: no fault. Later requests are forwarded."""
        self.requests: list[tuple[str, str]] = []
        """Method and path of each request."""

    def _exchange(self, request: bytes, client: socket.socket, server: socket.socket) -> bool:
        method, target, _ = request.split(b" ", 2)
        self.requests.append((method.decode(), target.decode().partition("?")[0]))
        fault = self.planned.popleft() if self.planned else None
        if fault is HttpFault.LOSE_REQUEST:
            return False
        server.sendall(request)
        response = _receive_message(server)
        if response is None or fault is HttpFault.LOSE_RESPONSE:
            return False
        match fault:
            case HttpFault.CUT_RESPONSE:
                head, _, body = response.partition(_HEAD_END)
                client.sendall(head + _HEAD_END + body[: len(body) // 2])
                return False
            case HttpFault.UNAVAILABLE:
                response = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy"
            case HttpFault.FOREIGN_PAGE:
                response = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 16\r\n\r\n<h1>Welcome</h1>"
        client.sendall(response)
        return True


class RandomFaultProxy(_MessageProxy):
    """Breaks requests to DynamoDB and their responses at random."""

    def __init__(self, host: str, port: int, write_odds: Odds, read_odds: Odds, seed: str) -> None:
        super().__init__(host, port)
        self.faults: Counter[Fault] = Counter()
        self._rng = random.Random(seed)
        self._write_dice = Dice(self._rng, write_odds, self._count)
        self._read_dice = Dice(self._rng, read_odds, self._count)
        self._lock = threading.Lock()
        """Protects the dice and `_persistent`."""
        self._persistent: dict[bytes, tuple[Fault, int]] = {}
        """Digest of a request: its fault, and how many times it will be repeated."""

    def _exchange(self, request: bytes, client: socket.socket, server: socket.socket) -> bool:
        fault = self._choose_fault(request)
        if fault is Fault.WIRE_REFUSED:
            return False
        if fault is Fault.WIRE_ZOMBIE:
            client.shutdown(socket.SHUT_RDWR)
            time.sleep(self._rng.uniform(0, MAX_DELAY_S))
        server.sendall(request)
        response = _receive_message(server)
        if response is None or fault in (Fault.WIRE_CUT, Fault.WIRE_ZOMBIE):
            return False
        if fault is Fault.WIRE_SLOW:
            time.sleep(self._rng.uniform(0, MAX_DELAY_S))
        client.sendall(response)
        return True

    def _choose_fault(self, request: bytes) -> Fault | None:
        head, _, body = request.partition(_HEAD_END)
        digest = hashlib.sha256(body).digest()
        dice = self._write_dice if any(name in head for name in WRITE_OPERATIONS) else self._read_dice
        with self._lock:
            repeated, remaining = self._persistent.pop(digest, (None, 0))
            if repeated is not None:
                self._count(repeated)
                if remaining > 1:
                    self._persistent[digest] = (repeated, remaining - 1)
                return repeated
            fault = dice.throw(Fault.WIRE_REFUSED, Fault.WIRE_CUT, Fault.WIRE_SLOW, Fault.WIRE_ZOMBIE)
            if fault in (Fault.WIRE_REFUSED, Fault.WIRE_CUT) and self._rng.random() < PERSISTENT_FAULT_SHARE:
                self._persistent[digest] = (fault, PERSISTENT_FAULT_RETRIES)
            return fault

    def _count(self, fault: Fault) -> None:
        self.faults[fault] += 1


class CuttingProxy(_Proxy):
    """Cuts connections in the middle of a response while `is_cutting`."""

    def __init__(self, host: str, port: int, seed: str) -> None:
        super().__init__(host, port)
        self.cuts = 0
        self.is_cutting = False
        self._rng = random.Random(seed)
        self._open: set[socket.socket] = set()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self.cut_all()

    def cut_all(self) -> None:
        """Close all open connections."""
        for client in tuple(self._open):
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _connect(self, client: socket.socket) -> None:
        self._open.add(client)
        super()._connect(client)
        self._open.discard(client)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        threading.Thread(target=_copy_requests, args=(client, server), daemon=True).start()
        try:
            self._copy_responses(server, client)
        finally:
            # Wakes the other thread, which would keep the connection open. The client does not see a regular end.
            client.shutdown(socket.SHUT_RD)

    def _copy_responses(self, server: socket.socket, client: socket.socket) -> None:
        cut_at = time.monotonic() + self._rng.uniform(0, MAX_CONNECTION_AGE_S)
        while data := server.recv(_RECEIVE_BYTES):
            if self.is_cutting and time.monotonic() > cut_at:
                # Chromium accepts a head that is cut off, and its EventSource gives up if the Content-Type is missing.
                head_end = data.find(_HEAD_END) + len(_HEAD_END) if data.startswith(b"HTTP/") else 0
                client.sendall(data[: max(head_end, self._rng.randrange(len(data)))])
                self.cuts += 1
                if self._rng.random() < 0.5:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                return
            client.sendall(data)


def _copy_requests(client: socket.socket, server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := client.recv(_RECEIVE_BYTES):
            server.sendall(data)
    with contextlib.suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)


def _receive_message(sock: socket.socket) -> bytes | None:
    """The next whole HTTP message, or None at the end of the connection."""
    data = b""
    while _HEAD_END not in data:
        more = sock.recv(_RECEIVE_BYTES)
        if not more:
            return None
        data += more
    while not _is_complete(data):
        more = sock.recv(_RECEIVE_BYTES)
        if not more:
            return None
        data += more
    return data


def _is_complete(message: bytes) -> bool:
    head, _, body = message.partition(_HEAD_END)
    headers = {name.lower(): value for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])}
    if b"transfer-encoding" in headers:
        # JSON has no line breaks in this form, so this is the last chunk.
        return message.endswith(_LAST_CHUNK)
    return len(body) >= int(headers.get(b"content-length", 0))
