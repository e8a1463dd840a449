"""Many clients in one event loop. Each is a plain socket that keeps all it has received."""

import json
import re
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.server.raw_connection import RawConnection, get, request
from tests.serving import Member, Server

NDJSON = {"Accept": "application/x-ndjson"}
SSE = {"Accept": "text/event-stream"}
BATCH_SIZE = 50
"""Number of clients that connect before the next ones do."""
MAX_WAIT_S = 60.0
MAX_FILES = 16_000


@dataclass(frozen=True)
class ReceivedResponse:
    """One response, as far as it has been received."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_complete: bool

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def ids(self) -> list[int]:
        """The EventIds of its complete events, in any feed format."""
        match self.headers["content-type"]:
            case "application/x-ndjson":
                lines = self.body.split(b"\n")[:-1]
                return [json.loads(line)["eventId"] for line in lines if line]
            case "text/event-stream":
                return [int(event_id) for event_id in re.findall(rb"(?:^|\n)id: (?:\w+-)?(\d+)\n(?=data)", self.body)]
            case _:
                return [event["eventId"] for event in self.json.get("eventSnapshots", [])] if self.is_complete else []


class Client:
    """One connection. `next_request` builds the request that follows a complete response."""

    def __init__(
        self, server: Server, next_request: Callable[[ReceivedResponse], bytes] | None = None, buffer: int = 0
    ) -> None:
        self.socket = server.connect() if not buffer else _connect_with_buffer(server, buffer)
        self.received = bytearray()
        self.is_closed = False
        self.completed: list[ReceivedResponse] = []
        """Complete responses that were followed by another request."""
        self._next_request = next_request

    def send(self, request: bytes) -> None:
        self.socket.sendall(request)

    def stop_polling(self) -> None:
        """Send no request after the current response."""
        self._next_request = None

    def receive(self) -> None:
        try:
            data = self.socket.recv(256 * 1024)
        except ConnectionError:
            data = b""
        self.received += data
        self.is_closed = not data
        while self._next_request is not None and (got := self.current) is not None and got.is_complete:
            self.completed.append(got)
            self.received.clear()
            self.send(self._next_request(got))

    @property
    def current(self) -> ReceivedResponse | None:
        """The current response, once its head has been received."""
        return next(parse_responses(bytes(self.received), self.is_closed), None)

    @property
    def responses(self) -> list[ReceivedResponse]:
        """All responses, the last of which may be incomplete."""
        return [*self.completed, *parse_responses(bytes(self.received), self.is_closed)]

    @property
    def ids(self) -> list[int]:
        """The EventIds of all received events."""
        return [event_id for got in self.responses for event_id in got.ids]

    @property
    def only_response(self) -> ReceivedResponse:
        """The response of a client that has received exactly one."""
        (got,) = self.responses
        return got


class ClientGroup:
    """The clients of a test."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clients: list[Client] = []
        self._selector = selectors.DefaultSelector()

    def connect(self, request: bytes, number: int = 1, reads: bool = True, **how: Any) -> list[Client]:
        """New clients that send the same request."""
        clients = [Client(self.server, **how) for _ in range(number)]
        for client in clients:
            client.send(request)
            self.clients.append(client)
            if reads:
                self._selector.register(client.socket, selectors.EVENT_READ, client)
        return clients

    def open_streams(self, request: bytes, number: int = 1, **how: Any) -> list[Client]:
        """New clients with a stream. Each has received the head."""
        clients: list[Client] = []
        for start in range(0, number, BATCH_SIZE):
            batch = self.connect(request, min(BATCH_SIZE, number - start), **how)
            self.wait_until(partial(_all_have_heads, batch))
            clients += batch
        assert {client.current.status for client in clients if client.current} == {200}
        return clients

    def start_polls(self, member: Member, target: str, after: int, number: int = 1) -> list[Client]:
        """New clients that poll from `after`, and then always from the end of the last response."""

        def next_request(got: ReceivedResponse) -> bytes:
            return get(member, f"{target}&after={got.json['eventId']}")

        clients: list[Client] = []
        for start in range(0, number, BATCH_SIZE):
            clients += self.connect(
                get(member, f"{target}&after={after}"), min(BATCH_SIZE, number - start), next_request=next_request
            )
            wait_until_processed(self.server)
        return clients

    def wait_until(self, condition: Callable[[], bool], within_s: float = MAX_WAIT_S) -> None:
        """Let all clients read until the condition holds."""
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, self._describe()
            self.read(0.02)

    def read(self, seconds: float = 0.0) -> None:
        """Let all clients read for this time."""
        until = time.monotonic() + seconds
        while True:
            for key, _ in self._selector.select(max(until - time.monotonic(), 0.0)):
                key.data.receive()
                if key.data.is_closed:
                    self._selector.unregister(key.fileobj)
            if time.monotonic() >= until:
                return

    def stop_reading(self, client: Client) -> None:
        """Stop reading from the client's socket."""
        self._selector.unregister(client.socket)

    def resume_reading(self, client: Client) -> None:
        """Read again, with a large receive buffer."""
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_000_000)
        self._selector.register(client.socket, selectors.EVENT_READ, client)

    def disconnect(self, clients: Sequence[Client], how: Callable[[socket.socket], None] = socket.socket.close) -> None:
        for client in clients:
            self._selector.unregister(client.socket)
            self.clients.remove(client)
            how(client.socket)

    def close(self) -> None:
        self._selector.close()
        for client in self.clients:
            client.socket.close()

    def _describe(self) -> str:
        states = [
            (client.is_closed, len(client.completed), bytes(client.received[-300:])) for client in self.clients[:5]
        ]
        return f"the condition does not hold; the first of {len(self.clients)} clients have {states}"


@contextmanager
def client_group(server: Server) -> Iterator[ClientGroup]:
    """A group of clients that disconnect in the end."""
    group = ClientGroup(server)
    try:
        yield group
    finally:
        group.close()


@contextmanager
def raise_file_limit() -> Iterator[None]:
    """Allow this process and its servers thousands of sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(MAX_FILES, hard)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def wait_until_processed(server: Server) -> None:
    """Return once the server has started to handle everything that was sent before.

    It accepts connections in order and reads all of them in turn, so two requests on new connections are enough.
    """
    for _ in range(2):
        with RawConnection(server) as wire:
            wire.send(request("GET", "/health", Connection="close"))
            assert wire.response().status == 200


def thread_count(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))


def socket_count(server: Server) -> int:
    links = []
    for entry in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return sum(link.startswith("socket:") for link in links)


def memory_mb(server: Server) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def _all_have_heads(clients: list[Client]) -> bool:
    return all(client.current for client in clients)


def _connect_with_buffer(server: Server, buffer: int) -> socket.socket:
    """A connection with a small receive buffer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.settimeout(MAX_WAIT_S)
    sock.connect(("127.0.0.1", server.port))
    return sock


def parse_responses(data: bytes, is_closed: bool) -> Iterator[ReceivedResponse]:
    """Parse the responses in the bytes received over a connection."""
    while b"\r\n\r\n" in data:
        head, _, data = data.partition(b"\r\n\r\n")
        status_line, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        status = int(status_line.split()[1])
        if headers.get("transfer-encoding") == "chunked":
            body, data, is_whole = _decode_chunks(data)
        elif "content-length" in headers:
            length = int(headers["content-length"])
            body, data, is_whole = data[:length], data[length:], len(data) >= length
        else:
            body, data, is_whole = data, b"", is_closed
        yield ReceivedResponse(status, headers, body, is_whole)
        if not is_whole:
            return


def _decode_chunks(data: bytes) -> tuple[bytes, bytes, bool]:
    """The body of the complete chunks, the bytes after the last chunk, and whether that has been received."""
    body: list[bytes] = []
    position = 0
    while (end := data.find(b"\r\n", position)) >= 0:
        length = int(data[position:end], 16)
        start, position = end + 2, end + 2 + length + 2
        if len(data) < position:
            break
        assert data[position - 2 : position] == b"\r\n"
        if length == 0:
            return b"".join(body), data[position:], True
        body.append(data[start : start + length])
    return b"".join(body), b"", False
