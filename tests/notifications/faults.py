"""Kills processes of a server while a publisher keeps publishing."""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import httpx

from tests.notifications.fake_channels import WAIT_TIMEOUT_S, FakeChannels, Json, eventually, mail_text
from tests.notifications.observer_client import job
from tests.serving import Member, Server

DELIVERY_WORKER, CONSUMER_WORKER = "infra.server.processes.delivery_worker", "infra.server.processes.consumer_worker"
KEYS = 40


def child_pid(server: Server, module: str) -> int | None:
    """The process that the server has started for a module, if it runs."""
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
    """Kills processes at random moments."""

    chance: random.Random
    pause: Event = field(default_factory=Event)
    kills: int = 0

    def kill_worker(self, server: Server, module: str, work: Callable[[], int]) -> None:
        """Kill a worker process shortly after `work` has changed."""
        process = eventually(lambda: child_pid(server, module)) or 0
        before, deadline = work(), monotonic() + 5
        eventually(work, lambda done: done != before or monotonic() > deadline)
        self.pause.wait(self.chance.uniform(0, 0.4))
        os.kill(process, signal.SIGKILL)
        self.kills += 1
        eventually(lambda: child_pid(server, module) not in (None, process))

    def kill_server(self, server: Server, with_workers: bool) -> None:
        """Kill a server, alone or with its workers."""
        self.pause.wait(self.chance.uniform(0, 0.4))
        if with_workers:
            os.killpg(server.process.pid, signal.SIGKILL)
        else:
            server.process.kill()
        server.exit_code()
        self.kills += 1
        eventually(server.is_gone)


class Publisher:
    """Publishes each event exactly once, in its own thread, while the server is killed and restarted."""

    def __init__(self, events: int, batch: int, pause_s: float = 0.0) -> None:
        self.url = ""
        self.organization = ""
        self._batches = [range(start, min(start + batch, events)) for start in range(0, events, batch)]
        self._pause_s = pause_s
        self._stopped = Event()
        self._thread = Thread(target=self._run)

    def start(self, member: Member) -> None:
        """Publish to this member's organization."""
        self.organization, self._headers = member.organization, member.headers
        self.url = member.server.url
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._stopped.set()
        if self.url:
            self._thread.join(WAIT_TIMEOUT_S)

    def _run(self) -> None:
        with httpx.Client(trust_env=False, timeout=15) as client:
            for batch in self._batches:
                events = [job("create", n % KEYS, params={"n": str(n)}) for n in batch]
                while not self._stopped.is_set() and not self._is_accepted(client, f"batch-{batch[0]}", events):
                    self._stopped.wait(0.1)
                self._stopped.wait(self._pause_s)

    def _is_accepted(self, client: httpx.Client, key: str, events: list[Json]) -> bool:
        headers = {**self._headers, "Idempotency-Key": key}
        try:
            answer = client.post(f"{self.url}/events/job", json={"events": events}, headers=headers)
        except httpx.TransportError:
            return False
        return answer.status_code in (200, 201)


def event_number(text: str) -> int:
    """The event number in the text of a message."""
    return int(text.partition("n = ")[2].split()[0])


def numbers_mailed(channels: FakeChannels, address: str) -> list[int]:
    """Event numbers in the mails to an address, in order of arrival."""
    return [event_number(mail_text(mail)) for mail in channels.mails(address)]


def numbers_posted(channels: FakeChannels, channel: str) -> list[int]:
    """Event numbers in the posts to a Slack channel, in order of arrival."""
    return [
        int(item["value"])
        for post in channels.slack.attachments(channel)
        for item in post["fields"]
        if item["title"] == "n"
    ]


def by_key(numbers: list[int]) -> dict[int, list[int]]:
    """Group event numbers by job."""
    groups: dict[int, list[int]] = {}
    for number in numbers:
        groups.setdefault(number % KEYS, []).append(number)
    return groups
