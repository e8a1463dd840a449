"""The status of expectations for people: whether the jobs run as expected, and when the next run is."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from chalicelib.domain.expectations.expectation import Configured
from chalicelib.domain.expectations.fold import ExpectationFold, OpenAlarms
from chalicelib.services.expectations.fold_store import FoldStore
from chalicelib.services.expectations.registry import ExpectationRegistry
from chalicelib.services.ports import Clock

State = Literal["ok", "new", "paused", "missed", "late", "overdue", "early"]
_WORST_FIRST: tuple[State, ...] = ("overdue", "missed", "late", "early")


@dataclass(frozen=True, slots=True)
class ExpectationStatus:
    """An expectation, and its state as of the end of the log and the current time."""

    configured: Configured
    state: State
    since_us: int
    """When the oldest open alarm fell due. Without one, when the configuration began to hold."""
    next_expected_us: int | None
    """The time for which the next run is expected. None: runs are not expected at certain times."""
    last_start_us: int | None
    """The last start of a run, if there was one since the expectation exists."""
    open_alarms: Mapping[str, OpenAlarms]
    """By kind. Closed by the next successful run."""


@dataclass(frozen=True, slots=True)
class ExpectationStatuses:
    """Computes the status of expectations. Exact: alarms that are due but not in the log yet are included."""

    registry: ExpectationRegistry
    folds: FoldStore
    clock: Clock

    def status(self, server: int, name: str) -> ExpectationStatus:
        """Raises `NotFound` for an unknown name."""
        return self._status(server, self.registry.get(server, name))

    def statuses(self, server: int) -> Mapping[str, ExpectationStatus]:
        """The status of each expectation, by name."""
        return {name: self._status(server, configured) for name, configured in self.registry.load(server).items()}

    def next_starts_us(self, server: int, job_types: Collection[str]) -> dict[str, int]:
        """By job type, the next time at which a run is expected. Types without such a time are left out."""
        starts: dict[str, int] = {}
        for configured in self.registry.load(server).values():
            job_type = configured.expectation.type
            if job_type in job_types and configured.expectation.has_schedule and not configured.expectation.paused:
                next_us = self._status(server, configured).next_expected_us
                if job_type is not None and next_us is not None:
                    starts[job_type] = min(next_us, starts.get(job_type, next_us))
        return starts

    def _status(self, server: int, configured: Configured) -> ExpectationStatus:
        head = self.folds.reader.log.head(server)
        fold = self.folds.load(server, configured, head, limit=head.session).fold
        fold.advance(max(self.clock() * 1000, head.last_event_id))
        return status_of(configured, fold)


def status_of(configured: Configured, fold: ExpectationFold) -> ExpectationStatus:
    """The status according to an up-to-date fold."""
    since_us = min((opened.first_us for opened in fold.open.values()), default=fold.at_us)
    return ExpectationStatus(configured, _state(fold), since_us, fold.expected_us, fold.last_start_us, dict(fold.open))


def _state(fold: ExpectationFold) -> State:
    if fold.expectation.paused:
        return "paused"
    last = {kind: opened.last_us for kind, opened in fold.open.items()}
    if last.get("late", 0) > last.get("missed", 0):
        last.pop("missed", None)  # The run of the last missed slot has started meanwhile.
    worst = next((kind for kind in _WORST_FIRST if kind in last), None)
    if worst is not None:
        return worst
    return "new" if fold.last_start_us is None else "ok"
