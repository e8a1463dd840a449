"""Processes that die without a word, and a publisher who outlives them."""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import httpx

from tests.notifications.narration import job
from tests.notifications.outside import LONGEST_S, Json, Outside, eventually, text_of
from tests.serving import Member, Server

COURIER, PUMP = "infra.server.processes.delivery_worker", "infra.server.processes.consumer_worker"
KEYS = 40


def child(server: Server, module: str) -> int | None:
    """The process that the server has started for a module."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if parent == server.process.pid and module.encode() in command:
                return int(entry.name)
    return None


@dataclass
class Killer:
    """Kills processes at moments of its own."""

    chance: random.Random
    pause: Event = field(default_factory=Event)
    kills: int = 0

    def companion(self, server: Server, module: str, work: Callable[[], int]) -> None:
        """Kill a companion, a moment after it began to work."""
        process = eventually(lambda: child(server, module)) or 0
        before, deadline = work(), monotonic() + 5
        eventually(work, lambda done: done != before or monotonic() > deadline)
        self.pause.wait(self.chance.uniform(0, 0.4))
        os.kill(process, signal.SIGKILL)
        self.kills += 1
        eventually(lambda: child(server, module) not in (None, process))

    def server(self, server: Server, with_companions: bool) -> None:
        """Kill a server, with all that it started or alone."""
        self.pause.wait(self.chance.uniform(0, 0.4))
        if with_companions:
            os.killpg(server.process.pid, signal.SIGKILL)
        else:
            server.process.kill()
        server.exit_code()
        self.kills += 1
        eventually(server.is_gone)


class Publisher:
    """Publishes events in a thread of its own, each once, whatever becomes of the server."""

    def __init__(self, events: int, batch: int, pause_s: float = 0.0) -> None:
        self.url = ""
        self.organization = ""
        self._batches = [range(start, min(start + batch, events)) for start in range(0, events, batch)]
        self._pause_s = pause_s
        self._stopped = Event()
        self._thread = Thread(target=self._run)

    def start(self, member: Member) -> None:
        """Begin with this member's organization."""
        self.organization, self._headers = member.organization, member.headers
        self.url = member.server.url
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether all of it is published."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Publish no more."""
        self._stopped.set()
        if self.url:
            self._thread.join(LONGEST_S)

    def _run(self) -> None:
        with httpx.Client(trust_env=False, timeout=15) as client:
            for batch in self._batches:
                events = [job("create", n % KEYS, params={"n": str(n)}) for n in batch]
                while not self._stopped.is_set() and not self._taken(client, f"batch-{batch[0]}", events):
                    self._stopped.wait(0.1)
                self._stopped.wait(self._pause_s)

    def _taken(self, client: httpx.Client, key: str, events: list[Json]) -> bool:
        headers = {**self._headers, "Idempotency-Key": key}
        try:
            answer = client.post(f"{self.url}/events/job", json={"events": events}, headers=headers)
        except httpx.TransportError:
            return False
        return answer.status_code in (200, 201)


def number_of(text: str) -> int:
    """The number of the event that a text is about."""
    return int(text.partition("n = ")[2].split()[0])


def numbers_mailed(world: Outside, address: str) -> list[int]:
    """The numbers of the events that an address was told about, as they came."""
    return [number_of(text_of(mail)) for mail in world.mails(address)]


def numbers_posted(world: Outside, channel: str) -> list[int]:
    """The same of a Slack channel."""
    return [int(one["value"]) for post in world.slack.of(channel) for one in post["fields"] if one["title"] == "n"]


def by_key(numbers: list[int]) -> dict[int, list[int]]:
    """The numbers of each job."""
    found: dict[int, list[int]] = {}
    for number in numbers:
        found.setdefault(number % KEYS, []).append(number)
    return found
