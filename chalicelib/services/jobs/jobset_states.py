"""The current states of job sets, for publishers that need the same sets again and again.

The views lag behind under load. A publisher that folded the commits after them for each event would take longer with
each event of the set. So each state is cached with its position, and only the commits after it are folded. The same
holds for the ended jobs of very large sets, whose number the stored state only estimates.

Threads: any thread may call any method, but `ended_jobs` of one set only one thread at a time. The caches have no lock:
their updates are atomic, and a lost entry only costs another read.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import Busy
from chalicelib.domain.events.head import Head
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_filter import ObjectSelection
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.projection import group_by_object
from chalicelib.domain.views.record import Checkpoint, objects_view
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.domain.vocabularies.job.ended_jobs import EndedJobs
from chalicelib.domain.vocabularies.job.events import JOB, JOBSET
from chalicelib.services.objects.snapshots import Snapshot
from chalicelib.services.reading.log_reader import LogReader

MAX_CACHED_JOBSETS = 1_000
MAX_CACHED_IDS = 1_000_000
"""Limit of the ids of ended jobs, of all sets together. They take about 60 bytes each."""
MAX_READ_S = 15.0
"""How long one request may read the history of a very large set. The next request continues."""
COUNTED_EVENTS = ((JOB, "create", "*"), (JOB, "finish", "*"), (JOBSET, "*"))
"""The events that change which jobs of a set have ended."""

_Key = tuple[int, str]
"""Server and path of a job set."""


@dataclass(frozen=True, slots=True)
class _Position:
    head: Head
    """The log was read up to here."""
    session: int
    """The last session that is folded. A record of the views may be newer than their checkpoint."""
    state: State | None


@dataclass(slots=True)
class _History:
    """The ended jobs of a set, from all its events up to `head`."""

    head: Head
    ended: EndedJobs = field(default_factory=EndedJobs)


class JobSetStates:
    """Reads job sets, in the form in which the views store them."""

    def __init__(self, reader: LogReader, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._monotonic = monotonic
        self._positions: dict[_Key, _Position] = {}
        self._histories: dict[_Key, _History] = {}

    def read(self, server: int, refs: Sequence[ObjectRef]) -> Snapshot:
        """The current states of the sets."""
        _, positions = self._reader.read_views(server, lambda checkpoint: self._latest_positions(checkpoint, refs))
        head = min((position.head for position in positions.values()), key=lambda head: head.session)
        for commit in self._reader.tail(head):
            head = commit.head
            for ref, events in group_by_object([commit], positions.__contains__).items():
                if commit.session > positions[ref].session:
                    state = reduce(partial(vocabularies.fold, JOBSET), events, positions[ref].state)
                    positions[ref] = _Position(head, commit.session, state)
        if len(self._positions) > MAX_CACHED_JOBSETS:
            self._positions.clear()
        for ref, position in positions.items():
            self._positions[server, ref.path] = _Position(head, head.session, position.state)
        states = {ref.path: position.state for ref, position in positions.items() if position.state is not None}
        return Snapshot(head.last_event_id, states)

    def ended_jobs(self, server: int, ref: ObjectRef, event_id: int) -> EndedJobs:
        """The ended jobs of a set as of `event_id`. Callers must not change the result.

        Reads the commits that earlier calls have not read. Raises `Busy` if that takes too long.
        """
        history = self._histories.pop((server, ref.path), None)
        if history is None or history.head.last_event_id > event_id:
            history = _History(self._reader.log.start(server))
        deadline = self._monotonic() + MAX_READ_S
        query = PathQuery((PathPattern(ref.path),))
        selection = ObjectSelection(types=COUNTED_EVENTS, collection=JOBSET, query=query)
        try:
            for commit in self._reader.commits_after(history.head, selection).commits:
                if commit.at_us > event_id:
                    break
                events = commit.build_events(selection.candidates(commit.body))
                own_events = (event for event in events if ref in JOB_VOCABULARY.affected_objects(event.fields))
                natives = map(JOB_VOCABULARY.native_json, own_events)
                history.ended.fold(native for native in natives if native is not None)
                history.head = commit.head
                if self._monotonic() > deadline:
                    raise Busy(f"the history of job set {ref.path[1:]} is long, retry to continue. Nothing was written")
        finally:
            if sum(len(other.ended.ids) for other in list(self._histories.values())) > MAX_CACHED_IDS:
                self._histories.clear()
            self._histories[server, ref.path] = history
        return history.ended

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
