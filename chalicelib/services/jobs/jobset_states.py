"""The current states of job sets, for publishers that need the same sets again and again.

The views lag behind under load. A publisher that folded the commits after them for each event would take longer with
each event of the set. So each state is cached with its position, and only the commits after it are folded.

Threads: any thread may call any method. The caches have no lock: their updates are atomic, and a lost entry only costs
another read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

from chalicelib.domain import vocabularies
from chalicelib.domain.events.head import Head
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import Checkpoint, objects_view
from chalicelib.domain.vocabularies.job.events import JOBSET
from chalicelib.domain.vocabularies.job.jobsets import is_finish_due
from chalicelib.services.objects.snapshots import Snapshot, events_by_object
from chalicelib.services.reading.log_reader import LogReader

MAX_CACHED_JOBSETS = 1_000

_Key = tuple[int, str]
"""Server and path of a job set."""


@dataclass(frozen=True, slots=True)
class _Position:
    head: Head
    """The log was read up to here."""
    session: int
    """The last session that is folded. A record of the views may be newer than their checkpoint."""
    state: State | None


class JobSetStates:
    """Reads job sets, in the form in which the views store them."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._positions: dict[_Key, _Position] = {}
        self._repeats: dict[_Key, tuple[str, int]] = {}
        """When a run of a very large set began, and how many of its `finish` events are known to be repeats."""

    def read(self, server: int, refs: Sequence[ObjectRef]) -> Snapshot:
        """The current states of the sets."""
        _, positions = self._reader.read_views(server, lambda checkpoint: self._latest_positions(checkpoint, refs))
        head = min((position.head for position in positions.values()), key=lambda head: head.session)
        for commit in self._reader.tail(head):
            head = commit.head
            for ref, events in events_by_object(commit, positions.__contains__).items():
                if commit.session > positions[ref].session:
                    state = reduce(partial(vocabularies.fold, JOBSET), events, positions[ref].state)
                    positions[ref] = _Position(head, commit.session, state)
        if len(self._positions) > MAX_CACHED_JOBSETS:
            self._positions.clear()
        for ref, position in positions.items():
            self._positions[server, ref.path] = _Position(head, head.session, position.state)
        states = {ref.path: position.state for ref, position in positions.items() if position.state is not None}
        return Snapshot(head.last_event_id, states)

    def may_be_complete(self, server: int, ref: ObjectRef, state: State) -> bool:
        """Whether all jobs of the set may have finished. False if too many of the finishes are known to be repeats."""
        began_at, repeats = self._repeats.get((server, ref.path), ("", 0))
        known = repeats if began_at == state["createdAt"] else 0
        return is_finish_due({**state, "finished": state["finished"] - known})

    def note_exact_count(self, server: int, ref: ObjectRef, state: State, exact: State) -> None:
        """Remember how many repeats `state` counts. `exact` is the full state as of the same position.

        Without this, each further event of the set would read the whole history again.
        """
        if len(self._repeats) > MAX_CACHED_JOBSETS:
            self._repeats.clear()
        self._repeats[server, ref.path] = state["createdAt"], state["finished"] - exact["finished"]

    def _latest_positions(self, checkpoint: Checkpoint, refs: Sequence[ObjectRef]) -> dict[ObjectRef, _Position]:
        """The cached states, or those of the views if they are newer."""
        cached = {ref: self._positions.get((checkpoint.head.server, ref.path)) for ref in refs}
        positions = {
            ref: position
            for ref, position in cached.items()
            if position is not None and position.head.session >= checkpoint.head.session
        }
        missing = [ref for ref in refs if ref not in positions]
        records = self._reader.views.get(checkpoint.view_name(objects_view(JOBSET)), [ref.path for ref in missing])
        for ref in missing:
            view = ObjectView.from_record(records.get(ref.path))
            positions[ref] = _Position(checkpoint.head, view.last_session, view.state)
        return positions
