"""Many clients in one loop: each a raw socket, with all that it got."""

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

from tests.server.wire import Wire, get, request
from tests.serving import Member, Server

NDJSON = {"Accept": "application/x-ndjson"}
SSE = {"Accept": "text/event-stream"}
AT_ONCE = 50
"""So many are let in before the next."""
LONGEST_S = 60.0
FILES = 16_000


@dataclass(frozen=True)
class Got:
    """One answer, as far as it has come."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool
    """Whether its end has come."""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def ids(self) -> list[int]:
        """The EventIds of its events, in any of the formats; of a piece that is not whole yet none."""
        match self.headers["content-type"]:
            case "application/x-ndjson":
                lines = self.body.split(b"\n")[:-1]
                return [json.loads(line)["eventId"] for line in lines if line]
            case "text/event-stream":
                return [int(found) for found in re.findall(rb"(?:^|\n)id: (?:\w+-)?(\d+)\n(?=data)", self.body)]
            case _:
                return [event["eventId"] for event in self.json.get("eventSnapshots", [])] if self.is_whole else []


class Client:
    """One connection: asks, and keeps what it gets. With `again` it asks again after each whole answer."""

    def __init__(self, server: Server, again: Callable[[Got], bytes] | None = None, buffer: int = 0) -> None:
        self.socket = server.connect() if not buffer else _connected(server, buffer)
        self.received = bytearray()
        self.has_ended = False
        self.answers: list[Got] = []
        """Whole answers to which it has asked again."""
        self._again = again

    def ask(self, request: bytes) -> None:
        """Send a request."""
        self.socket.sendall(request)

    def stop_asking(self) -> None:
        """The answer that comes now is the last."""
        self._again = None

    def receive(self) -> None:
        """Take what there is."""
        try:
            data = self.socket.recv(256 * 1024)
        except ConnectionError:
            data = b""
        self.received += data
        self.has_ended = not data
        while self._again is not None and (got := self.got) is not None and got.is_whole:
            self.answers.append(got)
            self.received.clear()
            self.ask(self._again(got))

    @property
    def got(self) -> Got | None:
        """The answer under way, once its head is there."""
        return next(answers(bytes(self.received), self.has_ended), None)

    @property
    def all(self) -> list[Got]:
        """All answers that came, one after the other."""
        return [*self.answers, *answers(bytes(self.received), self.has_ended)]

    @property
    def ids(self) -> list[int]:
        """The EventIds of all events that it got."""
        return [event_id for got in self.all for event_id in got.ids]

    @property
    def one(self) -> Got:
        """The only answer that came."""
        (got,) = self.all
        return got


class Crowd:
    """All the clients of a test."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clients: list[Client] = []
        self._selector = selectors.DefaultSelector()

    def join(self, request: bytes, number: int = 1, reads: bool = True, **how: Any) -> list[Client]:
        """So many new clients that ask for the same, each of them."""
        some = [Client(self.server, **how) for _ in range(number)]
        for client in some:
            client.ask(request)
            self.clients.append(client)
            if reads:
                self._selector.register(client.socket, selectors.EVENT_READ, client)
        return some

    def streams(self, request: bytes, number: int = 1, **how: Any) -> list[Client]:
        """So many new clients with a stream; each has its head."""
        found: list[Client] = []
        for start in range(0, number, AT_ONCE):
            some = self.join(request, min(AT_ONCE, number - start), **how)
            self.until(partial(_all_begun, some))
            found += some
        assert {client.got.status for client in found if client.got} == {200}
        return found

    def polls(self, member: Member, target: str, after: int, number: int = 1) -> list[Client]:
        """So many new clients that poll, and again from where the last answer ended."""

        def again(got: Got) -> bytes:
            return get(member, f"{target}&after={got.json['eventId']}")

        found: list[Client] = []
        for start in range(0, number, AT_ONCE):
            found += self.join(get(member, f"{target}&after={after}"), min(AT_ONCE, number - start), again=again)
            settled(self.server)
        return found

    def until(self, condition: Callable[[], bool], within_s: float = LONGEST_S) -> None:
        """Let everybody read until the condition holds."""
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, self._told()
            self.read(0.02)

    def read(self, seconds: float = 0.0) -> None:
        """Take what comes within that time."""
        until = time.monotonic() + seconds
        while True:
            for key, _ in self._selector.select(max(until - time.monotonic(), 0.0)):
                key.data.receive()
                if key.data.has_ended:
                    self._selector.unregister(key.fileobj)
            if time.monotonic() >= until:
                return

    def stop_reading(self, client: Client) -> None:
        """This one does not look at what it gets."""
        self._selector.unregister(client.socket)

    def go_on_reading(self, client: Client) -> None:
        """Now it does, and makes room."""
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_000_000)
        self._selector.register(client.socket, selectors.EVENT_READ, client)

    def leave(self, clients: Sequence[Client], how: Callable[[socket.socket], None] = socket.socket.close) -> None:
        """They hang up."""
        for client in clients:
            self._selector.unregister(client.socket)
            self.clients.remove(client)
            how(client.socket)

    def close(self) -> None:
        """All hang up."""
        self._selector.close()
        for client in self.clients:
            client.socket.close()

    def _told(self) -> str:
        states = [(client.has_ended, len(client.answers), bytes(client.received[-300:])) for client in self.clients[:5]]
        return f"it did not come to that; the first of {len(self.clients)} clients have {states}"


@contextmanager
def crowd(server: Server) -> Iterator[Crowd]:
    """A crowd that goes home in the end."""
    found = Crowd(server)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def many_files() -> Iterator[None]:
    """This process, and the servers that it starts, may have thousands of sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(FILES, hard)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def settled(server: Server) -> None:
    """Whatever was sent to the server before is being worked on after this.

    It takes connections in their order, and then reads all of them in turn: so this is asked on new ones, twice.
    """
    for _ in range(2):
        with Wire(server) as wire:
            wire.send(request("GET", "/health", Connection="close"))
            assert wire.answer().status == 200


def threads(server: Server) -> int:
    """How many threads the server has."""
    return len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))


def sockets(server: Server) -> int:
    """How many sockets the server has open."""
    links = []
    for entry in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return sum(link.startswith("socket:") for link in links)


def memory_mb(server: Server) -> float:
    """The memory that the server has."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def _all_begun(clients: list[Client]) -> bool:
    return all(client.got for client in clients)


def _connected(server: Server, buffer: int) -> socket.socket:
    """A connection with room for so little that the server has to wait soon."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.settimeout(LONGEST_S)
    sock.connect(("127.0.0.1", server.port))
    return sock


def answers(data: bytes, has_ended: bool) -> Iterator[Got]:
    """The answers that follow one another in what came over a connection."""
    while b"\r\n\r\n" in data:
        head, _, data = data.partition(b"\r\n\r\n")
        status_line, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        status = int(status_line.split()[1])
        if headers.get("transfer-encoding") == "chunked":
            body, data, is_whole = _unchunked(data)
        elif "content-length" in headers:
            length = int(headers["content-length"])
            body, data, is_whole = data[:length], data[length:], len(data) >= length
        else:
            body, data, is_whole = data, b"", has_ended
        yield Got(status, headers, body, is_whole)
        if not is_whole:
            return


def _unchunked(data: bytes) -> tuple[bytes, bytes, bool]:
    """The chunks that are there together, what follows them, and whether the last one is there."""
    body: list[bytes] = []
    place = 0
    while (end := data.find(b"\r\n", place)) >= 0:
        length = int(data[place:end], 16)
        start, place = end + 2, end + 2 + length + 2
        if len(data) < place:
            break
        assert data[place - 2 : place] == b"\r\n"
        if length == 0:
            return b"".join(body), data[place:], True
        body.append(data[start : start + length])
    return b"".join(body), b"", False
