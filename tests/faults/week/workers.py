"""The worker processes of the week, simulated in this process: real components, opened again after each kill."""

import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.domain.errors import AnnalsError
from chalicelib.services.consumers.for_each import raise_first
from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local
from chalicelib.wiring.notifications import build_deliverer
from infra.server.processes.consumer_worker import ConsumerWorker
from infra.server.processes.delivery_worker import DeliveryWorker
from tests.faults.week.configurations import CLEAN_TIMEOUT
from tests.faults.week.kills import Killed, Kills
from tests.services.fakes import World


class InlinePool(ThreadPoolExecutor):
    """Runs its work at once in the thread of the caller, so that a kill ends the poll of the worker."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        fn(*args, **kwargs)
        return Future()


def open_components(folder: Path, world: World) -> Components:
    environment = {"DATA_DIR": str(folder), "MAIL_FROM": "annals@example.org", "CLEAN_TIMEOUT": CLEAN_TIMEOUT}
    return build_local(Settings.from_environment(environment), world.clock)


class Process:
    """A worker process. It starts when it is first used, and again after it was killed."""

    def __init__(self, folder: Path, world: World, kills: Kills, errors: "Counter[str]") -> None:
        self._folder = folder
        self._world = world
        self._kills = kills
        self._errors = errors
        """Failures that the real process logs, before it tries again."""
        self._components: Components | None = None
        self.is_running = False

    def run(self) -> None:
        """Do what the process does in one poll."""
        if self.is_running:
            return  # A process does not run within itself.
        self.is_running = True
        try:
            if self._components is None:
                self._components = self._kills.wrap(open_components(self._folder, self._world))
                self.start(self._components)
            self.poll()
        except Killed:
            self.stop()
        except AnnalsError as error:
            self._errors[type(error).__name__] += 1
        finally:
            self.is_running = False

    def stop(self) -> None:
        if self._components is not None:
            self._components.close()
            self._components = None

    def start(self, components: Components) -> None:
        raise NotImplementedError

    def poll(self) -> None:
        raise NotImplementedError


class ConsumerProcess(Process):
    """The consumer worker."""

    def start(self, components: Components) -> None:
        self._worker = ConsumerWorker(components, sleep=lambda _: None)

    def poll(self) -> None:
        # The intervals are those of the real clock.
        self._worker.next_idle_run = math.inf
        self._worker.next_due_run = 0.0
        self._worker.run_once()


class DueProcess(Process):
    """Does the time-driven work alone, like the function `clean` on AWS. Events may not be matched yet."""

    def start(self, components: Components) -> None:
        self._indexes = components.consumers.due_indexes

    def poll(self) -> None:
        for index in self._indexes:
            index.run(on_error=raise_first)


class DeliveryProcess(Process):
    """The delivery worker."""

    def start(self, components: Components) -> None:
        outbox = cast(SqliteOutbox, components.stores.outbox)
        report_failure = components.notifications.failures.report
        outbox.repair_order()
        self._worker = DeliveryWorker(outbox, build_deliverer(components), self._world.clock, report_failure)
        self._worker._pools = {channel: InlinePool(1) for channel in self._worker._pools}

    def poll(self) -> None:
        self._worker.poll()
