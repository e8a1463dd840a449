"""A client that publishes and reads during an attack, and the server's memory usage.

Threads: `_publish` and `_follow` run in their own threads until `stop`.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.raw_connection import RawConnection, get, post
from tests.serving import TIMEOUT_S, Member, Server

PUBLISH_INTERVAL_S = 0.01


class BackgroundClient:
    """A publisher and a reader, each with one connection that the server must not close."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._is_started = threading.Event()
        self._is_stopping = threading.Event()
        self._published: list[int] = []
        self._read: list[int] = []
        self.max_latency_s = 0.0
        """The longest time until an event was acknowledged."""
        self.failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._publish, self._follow)]

    def start(self) -> None:
        """Start both threads and wait for the first event."""
        for thread in self._threads:
            thread.start()
        assert self._is_started.wait(TIMEOUT_S)

    def stop(self) -> None:
        """Publish one more event and wait until the reader has received all."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT_S)

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure
        assert len(self._published) > 1
        assert self._read == self._published

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.failure = error
            self._is_stopping.set()
            self._is_started.set()

    def _publish(self) -> None:
        with RawConnection(self._member.server) as connection:
            self._publish_one(connection)
            self._is_started.set()
            while not self._is_stopping.wait(PUBLISH_INTERVAL_S):
                self._publish_one(connection)
            self._publish_one(connection)

    def _publish_one(self, connection: RawConnection) -> None:
        started = time.monotonic()
        connection.send(post(self._member, "background"))
        response = connection.response()
        assert response.status == 201, response.body
        self._published.append(response.json["eventId"])
        self.max_latency_s = max(self.max_latency_s, time.monotonic() - started)

    def _follow(self) -> None:
        with self._member.server.connect() as sock:
            sock.sendall(
                get(self._member, "/events?types=background&timeout=1h&heartbeat=0.1", Accept="application/x-ndjson")
            )
            received = b""
            while not (self._is_stopping.is_set() and self._has_all()):
                piece = sock.recv(1 << 16)
                assert piece, "the stream was closed"
                received += piece
                *lines, received = received.split(b"\n")
                self._read += [json.loads(line)["eventId"] for line in lines if line.startswith(b"{")]

    def _has_all(self) -> bool:
        return not self._threads[0].is_alive() and len(self._read) >= len(self._published)


@contextmanager
def background_client(server: Server) -> Iterator[BackgroundClient]:
    """A background client for the duration of the block. It must not lose an event."""
    client = BackgroundClient(server.organization())
    client.start()
    try:
        yield client
    finally:
        client.stop()
    client.check()


class MemoryUsage:
    """Memory of the server's process since this object was created."""

    def __init__(self, server: Server) -> None:
        self._process = Path(f"/proc/{server.process.pid}")
        (self._process / "clear_refs").write_text("5")  # resets the peak
        self.before_mb = self._megabytes("VmRSS")

    @property
    def peak_mb(self) -> float:
        return self._megabytes("VmHWM")

    @property
    def growth_mb(self) -> float:
        return self.peak_mb - self.before_mb

    def _megabytes(self, name: str) -> float:
        status = (self._process / "status").read_text()
        return int(status.partition(f"{name}:")[2].split()[0]) * 1024 / 1e6
