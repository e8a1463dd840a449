"""Run claims: all processes of a consumer agree on the commits of a run before any of them writes its results.

A process that repeats the run, after a crash or at the same time as another one, then handles exactly the same commits.
Until the run is claimed, it may end at any commit. If the store accepts the claim, no other process has written since
the last claim was read, so all that was read in between is still valid.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pydantic_core import from_json, to_json

from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import RUNS_VIEW, Checkpoint, ConditionalWrite, Record
from chalicelib.services.ports import Views

_ITEM = "last"

Claim = Callable[[], None]
"""Claims the current run. Raises `RunTaken`."""


class RunTaken(Exception):
    """Another process has claimed a run. The checkpoint and the last claim have to be read again."""


@dataclass(frozen=True, slots=True)
class RunClaim:
    """The commits after `start`, up to session `end`."""

    start: Head
    end: int
    record_version: int | None = None
    """Version of the stored record, None if there is none."""

    def is_open(self, checkpoint: Checkpoint) -> bool:
        """Whether the run is not complete."""
        return self.end > checkpoint.head.session


def load_claim(checkpoint: Checkpoint, views: Views) -> RunClaim:
    """The last run that was claimed for the views of this generation."""
    record = views.get(checkpoint.view_name(RUNS_VIEW), [_ITEM]).get(_ITEM)
    if record is None:
        return RunClaim(Head(checkpoint.head.server), 0)
    start = Head(checkpoint.head.server, *from_json(record.data))
    return RunClaim(start, record.version, record.version)


def put_claim(checkpoint: Checkpoint, claim: RunClaim, views: Views) -> None:
    """Store a claim in place of the last one, unless it is stored. Raises `RunTaken` if another process was first."""
    if claim.end == claim.record_version:
        return
    start = claim.start
    data = to_json((start.session, start.instance, start.last_event_id)).decode()
    record = Record(checkpoint.view_name(RUNS_VIEW), _ITEM, claim.end, data)
    if views.put([ConditionalWrite(record, claim.record_version)]):
        raise RunTaken


class ClaimingViews:
    """Views that claim a run before the first write to them. Implements `Views`."""

    def __init__(self, views: Views, claim: Claim) -> None:
        self._views = views
        self._claim = claim
        self._is_claimed = False

    def claim(self) -> None:
        """Claim the run, unless that is done."""
        if not self._is_claimed:
            self._claim()
        self._is_claimed = True

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self._views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self._views.range(view, start, end, backwards)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        self.claim()
        return self._views.put(changes)

    def delete(self, view: str, items: Sequence[str]) -> None:
        self.claim()
        self._views.delete(view, items)

    def drop(self, view: str) -> int:
        self.claim()
        return self._views.drop(view)
