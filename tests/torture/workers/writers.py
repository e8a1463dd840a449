"""Writer processes that append directly to a store and may be killed at any moment."""

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
from tests.torture.checks.evidence import AssignedId
from tests.torture.checks.journal import (
    SUFFIX,
    Journal,
    RequestAcknowledged,
    RequestRefused,
    RequestSent,
    UnexpectedResult,
    read_entries,
    unanswered_requests,
)
from tests.torture.faults import Dice, Fault, FaultyClock, Odds, SkippableClock, with_faults
from tests.torture.signals import Signals
from tests.torture.stores import Store
from tests.torture.workers.workload import SERVER, Request, Workload

REPEAT_SHARE = 0.1
"""Share of acknowledged requests with a key that are sent again."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Settings of a writer process. It continues where the previous process of the same `slot` was killed."""

    slot: str
    turn: int
    home: Path
    store: Store
    odds: Odds
    seed: str

    @property
    def name(self) -> str:
        return f"{self.slot}.{self.turn}"


def write(settings: WriterSettings) -> None:
    """Repeat unanswered requests, then send new ones until the run stops."""
    earlier = sorted(settings.home.glob(f"{settings.slot}.*{SUFFIX}"))
    journal = Journal(settings.home / f"{settings.name}{SUFFIX}")
    try:
        unanswered = unanswered_requests(list(read_entries(path)) for path in earlier)
        with settings.store.open() as log:
            writer = _Writer(settings, log, journal)
            for request in unanswered:
                writer.send(request, first=False)
            for request in writer.new_requests():
                writer.send(request, first=True)
    except Exception:
        journal.add(UnexpectedResult(text=traceback.format_exc()))


class _Writer:
    def __init__(self, settings: WriterSettings, log: Log, journal: Journal) -> None:
        self._settings = settings
        self._log = log
        self._journal = journal
        self._rng = random.Random(f"{settings.seed}/{settings.name}")
        self._dice = Dice(self._rng, settings.odds, journal.record_fault)
        self._appender = self._create_appender()
        self._second_appender = self._create_appender()

    def new_requests(self) -> Iterator[Request]:
        workload = Workload(self._settings.name, self._rng, head=lambda: self._log.head(SERVER).last_event_id)
        signals = Signals(self._settings.home)
        while not signals.is_stopped:
            try:
                yield workload.next()
            except Unavailable:
                continue

    def send(self, request: Request, first: bool) -> None:
        """Send a request once, or twice at the same time as an impatient client would."""
        self._journal.add(RequestSent(request=request))
        if request.idempotency_key is None or not self._dice.throw(Fault.SENT_TWICE):
            self._append(self._appender, request, first)
            return
        with ThreadPoolExecutor(2) as both:
            list(
                both.map(
                    lambda appender: self._append(appender, request, first=False),
                    (self._appender, self._second_appender),
                )
            )

    def _append(self, appender: Appender, request: Request, first: bool) -> None:
        """Append, and record the outcome."""
        try:
            appended = appender.append(request.append(secrets.token_urlsafe(9)))
        except ConditionFailed:
            self._journal.add(RequestRefused(tag=request.tag))
        except Busy:
            # This attempt wrote nothing, but an earlier one may have.
            if first:
                self._journal.add(RequestRefused(tag=request.tag))
        except Unavailable:
            if request.idempotency_key is not None:
                self._append(appender, request, first=False)
        else:
            self._journal.add(RequestAcknowledged(tag=request.tag, numbers=_assigned_ids(appended)))
            if first and request.idempotency_key is not None and self._rng.random() < REPEAT_SHARE:
                self._append(appender, request, first=False)

    def _create_appender(self) -> Appender:
        monotonic = SkippableClock()
        log = with_faults(self._log, self._dice, monotonic)
        return Appender(log, FaultyClock(self._dice), monotonic=monotonic)


def _assigned_ids(appended: Appended) -> tuple[AssignedId, ...]:
    return tuple(AssignedId(str(event.id), event.event_id) for event in appended.commit.events)
