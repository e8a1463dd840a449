"""Faults, thrown by seeded dice, and the clock and log that suffer them."""

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
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Commit
from chalicelib.services.log.appender import DEADLINE_S
from chalicelib.services.ports import Log

WORST_SKEW_MS = 5_000
STEP_MS = 2_000
LONGEST_DELAY_S = 0.05
LONGEST_WRITE_S = 0.003


class Fault(StrEnum):
    """What we do to the product."""

    CLOCK_OFF = "clock off by seconds"
    CLOCK_BACK = "clock stepped back"
    ANSWER_LOST = "answer lost after the write"
    ANSWER_GONE = "answers lost until the writer gave up"
    ANSWER_LATE = "answer late"
    KILLED_BEFORE = "writer killed before the write"
    KILLED_DURING = "writer killed during the write"
    KILLED_AFTER = "writer killed after the write"
    SENT_TWICE = "request sent twice at the same time"
    KILLED = "writer killed at a random moment"
    WIRE_REFUSED = "connection closed before the request got through"
    WIRE_CUT = "connection closed instead of the answer"
    WIRE_SLOW = "answer held up on the wire"
    WIRE_ZOMBIE = "request got through after its connection was closed"
    SERVER_KILLED = "server killed"
    SERVER_STOPPED = "server told to stop"
    HUNG_UP = "client hung up without waiting"


Odds = Mapping[Fault, float]


class Dice:
    """Decides with these odds which fault happens now, and tells `note` of each.

    A fault that should have happened twice since it last did is due: no run is too short or too lucky.
    """

    def __init__(self, rng: random.Random, odds: Odds, note: Callable[[Fault], None]) -> None:
        self._rng = rng
        self._odds = odds
        self._note = note
        self._since: Counter[Fault] = Counter()
        """How often each could have happened since it did."""

    def throws(self, *faults: Fault) -> Fault | None:
        """One of `faults`, or mostly none."""
        chance = self._rng.random()
        for fault in faults:
            odds = self._odds.get(fault, 0.0)
            chance -= odds
            self._since[fault] += 1
            if chance < 0 or odds * self._since[fault] >= 2:
                self._since[fault] = 0
                self._note(fault)
                return fault
        return None

    def delay_s(self, longest_s: float) -> float:
        """How long something takes that ought to take no time."""
        return self._rng.uniform(0, longest_s)

    def skew_ms(self) -> int:
        """How wrong a clock is."""
        return self._rng.randint(-WORST_SKEW_MS, WORST_SKEW_MS)


class WildClock:
    """A clock that is seconds off and now and then steps back."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._skew_ms = dice.skew_ms() if dice.throws(Fault.CLOCK_OFF) else 0

    def __call__(self) -> int:
        """Milliseconds since 1970, more or less."""
        if self._dice.throws(Fault.CLOCK_BACK):
            self._skew_ms -= STEP_MS
        return time.time_ns() // 1_000_000 + self._skew_ms


class Patience:
    """Monotonic seconds that a fault can make pass at once, so that nobody has to wait for a deadline."""

    def __init__(self) -> None:
        self._skipped_s = 0.0

    def __call__(self) -> float:
        """Seconds, as `time.monotonic` counts them."""
        return time.monotonic() + self._skipped_s

    def end(self) -> None:
        """Let every deadline pass."""
        self._skipped_s += DEADLINE_S + 1


def faulty(log: Log, dice: Dice, patience: Patience) -> Log:
    """The log, but its answers get lost and its writers die, before or after the write."""
    return cast("Log", _FaultyLog(log, dice, patience))


class _FaultyLog:
    def __init__(self, log: Log, dice: Dice, patience: Patience) -> None:
        self._log = log
        self._dice = dice
        self._patience = patience

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        """Store it all, and then perhaps tell nobody."""
        match self._dice.throws(Fault.KILLED_BEFORE, Fault.KILLED_DURING):
            case Fault.KILLED_BEFORE:
                _die()
            case Fault.KILLED_DURING:
                threading.Timer(self._dice.delay_s(LONGEST_WRITE_S), _die).start()
        self._log.append(commits, receipts, now_s)
        fault = self._dice.throws(Fault.KILLED_AFTER, Fault.ANSWER_LOST, Fault.ANSWER_GONE, Fault.ANSWER_LATE)
        match fault:
            case Fault.KILLED_AFTER:
                _die()
            case Fault.ANSWER_LATE:
                time.sleep(self._dice.delay_s(LONGEST_DELAY_S))
            case Fault.ANSWER_GONE:
                self._patience.end()
                raise Unavailable(fault)
            case Fault.ANSWER_LOST:
                raise Unavailable(fault)

    def __getattr__(self, name: str) -> Any:
        """Whatever else a log can do, this one does too."""
        return getattr(self._log, name)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
