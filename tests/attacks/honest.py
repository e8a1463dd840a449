"""Honest people: they publish and read all the while, and lose nothing."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.wire import Wire, get, post
from tests.serving import PATIENCE_S, Member, Server

PACE_S = 0.01
"""Between two events."""


class Honest:
    """A publisher and a reader, each with one connection that nobody has a reason to close."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._has_begun = threading.Event()
        self._is_over = threading.Event()
        self._published: list[int] = []
        self._read: list[int] = []
        self.slowest_s = 0.0
        """The longest that an event took to be acknowledged."""
        self.failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._guarded, args=(act,)) for act in (self._publish, self._follow)]

    def start(self) -> None:
        """Begin; one event is there."""
        for thread in self._threads:
            thread.start()
        assert self._has_begun.wait(PATIENCE_S)

    def stop(self) -> None:
        """End with one event more, when all that was published has been read."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)

    def check(self) -> None:
        """Whether all went as it should."""
        if self.failure is not None:
            raise self.failure
        assert len(self._published) > 1
        assert self._read == self._published

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as failure:
            self.failure = failure
            self._is_over.set()
            self._has_begun.set()

    def _publish(self) -> None:
        with Wire(self._member.server) as wire:
            self._publish_one(wire)
            self._has_begun.set()
            while not self._is_over.wait(PACE_S):
                self._publish_one(wire)
            self._publish_one(wire)

    def _publish_one(self, wire: Wire) -> None:
        began = time.monotonic()
        wire.send(post(self._member, "honest"))
        answer = wire.answer()
        assert answer.status == 201, answer.body
        self._published.append(answer.json["eventId"])
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def _follow(self) -> None:
        with self._member.server.connect() as sock:
            sock.sendall(
                get(self._member, "/events?types=honest&timeout=1h&heartbeat=0.1", Accept="application/x-ndjson")
            )
            received = b""
            while not (self._is_over.is_set() and self._has_all()):
                piece = sock.recv(1 << 16)
                assert piece, "the stream was closed"
                received += piece
                *lines, received = received.split(b"\n")
                self._read += [json.loads(line)["eventId"] for line in lines if line.startswith(b"{")]

    def _has_all(self) -> bool:
        return not self._threads[0].is_alive() and len(self._read) >= len(self._published)


@contextmanager
def honest_people(server: Server) -> Iterator[Honest]:
    """Honest people for as long as the block runs, who in the end have lost nothing."""
    people = Honest(server.organization())
    people.start()
    try:
        yield people
    finally:
        people.stop()
    people.check()


class Memory:
    """What the server's process takes from now on."""

    def __init__(self, server: Server) -> None:
        self._process = Path(f"/proc/{server.process.pid}")
        (self._process / "clear_refs").write_text("5")  # its peak is forgotten
        self.before_mb = self._megabytes("VmRSS")

    @property
    def peak_mb(self) -> float:
        """The most that it took."""
        return self._megabytes("VmHWM")

    @property
    def growth_mb(self) -> float:
        """How much more that was than before."""
        return self.peak_mb - self.before_mb

    def _megabytes(self, name: str) -> float:
        status = (self._process / "status").read_text()
        return int(status.partition(f"{name}:")[2].split()[0]) * 1024 / 1e6
