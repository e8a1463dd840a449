"""Real worker processes that are killed with SIGKILL while they work on the backlog of a week."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.faults.week.check import Outcome, compare
from tests.faults.week.configurations import CLEAN_TIMEOUT
from tests.faults.week.report import folder_in_memory
from tests.faults.week.scenario import create_scenario
from tests.faults.week.week import Week
from tests.notifications.fake_channels import eventually

KILLS = 8
MAX_DELAY_S = 0.3
WORKERS = ("consumer_worker", "delivery_worker")


class Workers:
    """The worker processes of a data directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes = {name: self._start(name) for name in WORKERS}

    def kill_one(self, rng: random.Random) -> None:
        """Kill a worker at a random time after one of them has begun to write, and start it again."""
        before = self._write_times()
        eventually(self._write_times, lambda now: now != before)
        end = time.monotonic() + rng.random() * MAX_DELAY_S
        eventually(lambda: time.monotonic() > end)
        name = rng.choice(WORKERS)
        self._kill(name)
        self._processes[name] = self._start(name)

    def kill(self) -> None:
        for name in WORKERS:
            self._kill(name)

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", f"infra.server.processes.{name}", str(os.getpid())]
        environment = {"DATA_DIR": str(self._folder), "MAIL_FROM": "annals@example.org", "CLEAN_TIMEOUT": CLEAN_TIMEOUT}
        return subprocess.Popen(command, env=os.environ | environment)

    def _kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()

    def _write_times(self) -> list[int]:
        return [(self._folder / f"{name}.sqlite-wal").stat().st_mtime_ns for name in ("annals", "views", "outbox")]


@contextmanager
def running_workers(folder: Path) -> Iterator[Workers]:
    workers = Workers(folder)
    try:
        yield workers
    finally:
        workers.kill()


def outcome(week: Week) -> Outcome:
    return Outcome(week.components.stores.log, week.server, week.folder, time.time_ns() // 1_000_000)


def differences(week: Week) -> list[object]:
    found = outcome(week)
    alarms, deliveries = (found.expected_alarms, found.logged_alarms), (found.expected_deliveries, found.deliveries)
    compared = (compare(*alarms), compare(*deliveries), compare(found.expected_inbox, found.inbox))
    return [item for one in compared for item in (*one.missing, *one.unexpected)]


def test_killed_processes_miss_and_repeat_nothing() -> None:
    rng = random.Random(1)
    with folder_in_memory() as folder:
        first_day = datetime.now(UTC).date() - timedelta(days=7)
        week = Week(folder, create_scenario(1, types=12, runs_of_type=12, first_day=first_day), seed=1)
        week.publish_only()
        with running_workers(folder) as workers:
            for _ in range(KILLS):
                workers.kill_one(rng)
            eventually(lambda: differences(week), lambda found: not found)
        found = outcome(week)
        assert min(found.logged_alarms.total(), found.deliveries.total()) > 100
        week.close()
