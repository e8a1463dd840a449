"""Pools of worker processes, which are replaced when they die."""

import itertools
import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

from tests.torture.faults import Fault

# The fork server has everything imported, so a process is replaced quickly and no threads are copied.
_CONTEXT: ForkServerContext = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "chalicelib.adapters.aws.client",
        "chalicelib.adapters.dynamodb.log",
        "chalicelib.adapters.sqlite.log",
        "tests.torture.workers.attackers",
        "tests.torture.workers.clients",
        "tests.torture.workers.readers",
        "tests.torture.workers.writers",
    ]
)
JOIN_TIMEOUT_S = 30.0
"""How long a worker may take to finish after the run stops."""
POLL_INTERVAL_S = 0.05


@dataclass
class WorkerSlot:
    """A slot of a pool: one process after the other. Each gets the number of its turn."""

    name: str
    make_process: Callable[[int], tuple[Callable[[Any], None], object]]
    """Returns the function to run in the given turn, and its argument."""
    turn: int = 0
    process: ForkServerProcess | None = None

    def start_process(self) -> None:
        target, argument = self.make_process(self.turn)
        self.process = _CONTEXT.Process(target=target, args=(argument,), daemon=True)
        self.process.start()
        self.turn += 1


@dataclass
class WorkerPool:
    """A group of worker processes."""

    slots: list[WorkerSlot]
    faults: Counter[Fault] = field(default_factory=Counter)
    unexpected_results: list[str] = field(default_factory=list)

    def start(self) -> None:
        for slot in self.slots:
            slot.start_process()

    def kill_randomly(self, max_interval_s: float, rng: random.Random, should_continue: Callable[[], bool]) -> None:
        """Kill one worker at random intervals of at most `max_interval_s` seconds, and replace dead workers."""
        targets = itertools.cycle(reversed(self.slots))
        kill_at = time.monotonic() + rng.uniform(0, max_interval_s)
        while should_continue():
            if time.monotonic() > kill_at:
                self._kill_process(next(targets))
                kill_at = time.monotonic() + rng.uniform(0, max_interval_s)
            wait([slot.process.sentinel for slot in self.slots if slot.process], POLL_INTERVAL_S)
            for slot in self.slots:
                if slot.process is not None and not slot.process.is_alive():
                    self._reap(slot)
                    slot.start_process()

    def join(self) -> None:
        """Wait until all workers have finished. A worker that does not finish is an unexpected result."""
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        for slot in self.slots:
            if slot.process is not None:
                slot.process.join(max(0.0, deadline - time.monotonic()))
                if slot.process.is_alive():
                    self.unexpected_results.append(f"{slot.name} did not finish within {JOIN_TIMEOUT_S:.0f} s")
                self._reap(slot)

    def kill(self) -> None:
        """Kill all workers that are still running."""
        for slot in self.slots:
            if slot.process is not None:
                slot.process.kill()
                slot.process.join()

    def _kill_process(self, slot: WorkerSlot) -> None:
        if slot.process is not None and slot.process.is_alive():
            self.faults[Fault.KILLED] += 1
            slot.process.kill()
            slot.process.join()

    def _reap(self, slot: WorkerSlot) -> None:
        if slot.process is None:
            return
        if slot.process.is_alive():
            slot.process.kill()
            slot.process.join()
        elif slot.process.exitcode not in (0, -signal.SIGKILL):
            self.unexpected_results.append(f"{slot.name} exited with {slot.process.exitcode}")
        slot.process.close()
        slot.process = None
