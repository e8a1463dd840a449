"""Faults, chosen by seeded dice, and a clock and a log that inject them."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

from chalicelib.domain.errors import Unavailable
from chalicelib.domain.log.commit import Commit
from chalicelib.services.log.appender import APPEND_TIMEOUT_S
from chalicelib.services.ports import Log

MAX_SKEW_MS = 5_000
CLOCK_STEP_MS = 2_000
MAX_DELAY_S = 0.05
MAX_WRITE_S = 0.003


class Fault(StrEnum):
    """A fault. The value is its description in the report."""

    CLOCK_OFF = "clock off by seconds"
    CLOCK_BACK = "clock stepped back"
    RESPONSE_LOST = "response lost after the write"
    ALL_RESPONSES_LOST = "responses lost until the writer gave up"
    RESPONSE_LATE = "response late"
    KILLED_BEFORE = "writer killed before the write"
    KILLED_DURING = "writer killed during the write"
    KILLED_AFTER = "writer killed after the write"
    SENT_TWICE = "request sent twice at the same time"
    KILLED = "writer killed at a random moment"
    WIRE_REFUSED = "connection closed before the request got through"
    WIRE_CUT = "connection closed instead of the response"
    WIRE_SLOW = "response delayed on the wire"
    WIRE_ZOMBIE = "request got through after its connection was closed"
    SERVER_KILLED = "server killed"
    SERVER_STOPPED = "server stopped"
    CLIENT_DISCONNECTED = "client disconnected without waiting"


Odds = Mapping[Fault, float]


class Dice:
    """Chooses faults with the given odds, and reports each to `on_fault`.

    A fault that is overdue by twice its expected interval is chosen for certain, so that every run has all faults.
    """

    def __init__(self, rng: random.Random, odds: Odds, on_fault: Callable[[Fault], None]) -> None:
        self._rng = rng
        self._odds = odds
        self._on_fault = on_fault
        self._since: Counter[Fault] = Counter()
        """Throws since the last occurrence of each fault."""

    def throw(self, *faults: Fault) -> Fault | None:
        """One of `faults`, or usually None."""
        number = self._rng.random()
        for fault in faults:
            odds = self._odds.get(fault, 0.0)
            number -= odds
            self._since[fault] += 1
            if number < 0 or odds * self._since[fault] >= 2:
                self._since[fault] = 0
                self._on_fault(fault)
                return fault
        return None

    def delay_s(self, max_s: float) -> float:
        return self._rng.uniform(0, max_s)

    def skew_ms(self) -> int:
        return self._rng.randint(-MAX_SKEW_MS, MAX_SKEW_MS)


class FaultyClock:
    """A clock that is off by seconds and sometimes steps back."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._skew_ms = dice.skew_ms() if dice.throw(Fault.CLOCK_OFF) else 0

    def __call__(self) -> int:
        if self._dice.throw(Fault.CLOCK_BACK):
            self._skew_ms -= CLOCK_STEP_MS
        return time.time_ns() // 1_000_000 + self._skew_ms


class SkippableClock:
    """A monotonic clock that a fault can advance past the deadline of an append."""

    def __init__(self) -> None:
        self._skipped_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._skipped_s

    def skip_deadline(self) -> None:
        self._skipped_s += APPEND_TIMEOUT_S + 1


def with_faults(log: Log, dice: Dice, monotonic: SkippableClock) -> Log:
    """Wrap a log: responses get lost, and writers are killed before, during or after the write."""
    return cast("Log", _FaultyLog(log, dice, monotonic))


class _FaultyLog:
    def __init__(self, log: Log, dice: Dice, monotonic: SkippableClock) -> None:
        self._log = log
        self._dice = dice
        self._monotonic = monotonic

    def append(self, commits: Sequence[Commit]) -> None:
        match self._dice.throw(Fault.KILLED_BEFORE, Fault.KILLED_DURING):
            case Fault.KILLED_BEFORE:
                _kill_process()
            case Fault.KILLED_DURING:
                threading.Timer(self._dice.delay_s(MAX_WRITE_S), _kill_process).start()
        self._log.append(commits)
        fault = self._dice.throw(Fault.KILLED_AFTER, Fault.RESPONSE_LOST, Fault.ALL_RESPONSES_LOST, Fault.RESPONSE_LATE)
        match fault:
            case Fault.KILLED_AFTER:
                _kill_process()
            case Fault.RESPONSE_LATE:
                time.sleep(self._dice.delay_s(MAX_DELAY_S))
            case Fault.ALL_RESPONSES_LOST:
                self._monotonic.skip_deadline()
                raise Unavailable(fault)
            case Fault.RESPONSE_LOST:
                raise Unavailable(fault)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def _kill_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
