"""Writers that append directly to a store, each in a process of its own that may be killed at any moment."""

import random
import secrets
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from chalicelib.domain.errors import Busy, ConditionFailed, Unavailable
from chalicelib.domain.log.commit import Appended
from chalicelib.services.log.appender import Appender
from chalicelib.services.ports import Log
from tests.torture.evidence import Numbered
from tests.torture.faults import Dice, Fault, Odds, Patience, WildClock, faulty
from tests.torture.journal import SUFFIX, Acknowledged, Attempted, Denied, Journal, Surprised, lines, unfinished
from tests.torture.signals import Signals
from tests.torture.stores import Store
from tests.torture.workload import SERVER, Request, Workload

AGAIN = 0.1
"""How many of the requests that were acknowledged are repeated nevertheless, if they have a key."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What a writer's process is to do: go on where the process before it in the same `slot` was killed."""

    slot: str
    turn: int
    home: Path
    store: Store
    odds: Odds
    seed: str

    @property
    def name(self) -> str:
        """Who writes."""
        return f"{self.slot}.{self.turn}"


def write(shift: Shift) -> None:
    """Repeat what was left unfinished, then send new requests until told to stop."""
    earlier = sorted(shift.home.glob(f"{shift.slot}.*{SUFFIX}"))
    journal = Journal(shift.home / f"{shift.name}{SUFFIX}")
    try:
        left = unfinished(list(lines(path)) for path in earlier)
        with shift.store.opened() as log:
            writer = _Writer(shift, log, journal)
            for request in left:
                writer.send(request, first=False)
            for request in writer.new_requests():
                writer.send(request, first=True)
    except Exception:
        journal.add(Surprised(text=traceback.format_exc()))


class _Writer:
    def __init__(self, shift: Shift, log: Log, journal: Journal) -> None:
        self._shift = shift
        self._log = log
        self._journal = journal
        self._rng = random.Random(f"{shift.seed}/{shift.name}")
        self._dice = Dice(self._rng, shift.odds, journal.suffer)
        self._appender = self._an_appender()
        self._twin = self._an_appender()

    def new_requests(self) -> Iterator[Request]:
        workload = Workload(self._shift.name, self._rng, head=lambda: self._log.head(SERVER).last)
        signals = Signals(self._shift.home)
        while not signals.stopped:
            try:
                yield workload.next()
            except Unavailable:
                continue

    def send(self, request: Request, first: bool) -> None:
        """Ask once or, as an impatient client does, twice at the same time."""
        self._journal.add(Attempted(request=request))
        if request.idempotency_key is None or not self._dice.throws(Fault.SENT_TWICE):
            self._ask(self._appender, request, first)
            return
        with ThreadPoolExecutor(2) as both:
            list(both.map(lambda appender: self._ask(appender, request, first=False), (self._appender, self._twin)))

    def _ask(self, appender: Appender, request: Request, first: bool) -> None:
        """Ask, and write down what is known thereafter."""
        try:
            appended = appender.append(request.append(secrets.token_urlsafe(9)))
        except ConditionFailed:
            self._journal.add(Denied(tag=request.tag))
        except Busy:
            # This attempt wrote nothing; what one before has done is not known.
            if first:
                self._journal.add(Denied(tag=request.tag))
        except Unavailable:
            if request.idempotency_key is not None:
                self._ask(appender, request, first=False)
        else:
            self._journal.add(Acknowledged(tag=request.tag, numbers=_numbers(appended)))
            if first and request.idempotency_key is not None and self._rng.random() < AGAIN:
                self._ask(appender, request, first=False)

    def _an_appender(self) -> Appender:
        patience = Patience()
        log = faulty(self._log, self._dice, patience)
        return Appender(log, WildClock(self._dice), monotonic=patience)


def _numbers(appended: Appended) -> tuple[Numbered, ...]:
    return tuple(Numbered(str(event.id), event.event_id) for event in appended.commit.events)
