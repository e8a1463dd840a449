"""Attackers: they throw hostile requests at a server that others need, while it is killed and started again."""

import random
import time
import traceback
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from tests.attacks.inputs import Hostile, hostile, throw
from tests.torture.clients import PAUSE_S, Address
from tests.torture.journal import SUFFIX, Journal, Surprised, Threw
from tests.torture.signals import Signals

SHARE = 0.1
"""Of all hostile requests so many are thrown in one pass: each pass has some of every kind."""


@dataclass(frozen=True, slots=True)
class Attack:
    """What an attacker is to do."""

    name: str
    home: Path
    address: Address
    seed: str


def attack(order: Attack) -> None:
    """Throw hostile requests until told to stop; none of them may be granted, or get an answer of distress."""
    journal = Journal(order.home / f"{order.name}{SUFFIX}")
    rng = random.Random(f"{order.seed}/{order.name}")
    signals = Signals(order.home)
    try:
        while not signals.stopped:
            for one in hostile(order.address.token, rng.randrange(1_000_000)):
                if signals.stopped:
                    break
                if rng.random() < SHARE:
                    _throw(one, order.address.port, journal)
    except Exception:
        journal.add(Surprised(text=traceback.format_exc()))


def _throw(one: Hostile, port: int, journal: Journal) -> None:
    """Throw it; whoever hits a server that is down gets no answer, and that is none of its faults."""
    journal.add(Threw(name=one.name))
    try:
        answers = throw(("127.0.0.1", port), one.data)
    except OSError:
        time.sleep(PAUSE_S)
        return
    for got in answers:
        if got.status not in one.statuses | {HTTPStatus.SERVICE_UNAVAILABLE}:
            journal.add(Surprised(text=f"{one.name}: {got.status} {got.body[:200]!r}"))
