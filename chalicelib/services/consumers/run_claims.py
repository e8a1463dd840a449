"""Run claims: all processes of a consumer agree on the commits of a run before any of them starts it.

A process that repeats the run, after a crash or at the same time as another one, then handles exactly the same commits.
"""

from dataclasses import dataclass

from pydantic_core import from_json, to_json

from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import RUNS_VIEW, Checkpoint, ConditionalWrite, Record
from chalicelib.services.ports import Views

_ITEM = "last"


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


def put_claim(checkpoint: Checkpoint, claim: RunClaim, views: Views) -> bool:
    """Store a claim in place of the last one. Returns False if another process was first."""
    start = claim.start
    data = to_json((start.session, start.instance, start.last_event_id)).decode()
    record = Record(checkpoint.view_name(RUNS_VIEW), _ITEM, claim.end, data)
    return not views.put([ConditionalWrite(record, claim.record_version)])
