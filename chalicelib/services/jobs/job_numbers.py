"""Assign numbers to jobs that are created without an id: greater than every number of a job below `ASSIGNABLE_END`.

The root of the list of jobs has the greatest number up to the checkpoint of the views. The commits after it are read
from the log. A condition of the append refuses a number that another writer has taken since, so the root, the log and
this process need not agree: an outdated greatest number only costs a retry.

Threads: any thread may call any method. `_lock` protects `_reserved` and is never held while reading. `_positions` has
no lock: if a thread replaces a later position by an earlier one, the next call reads some commits again.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ASSIGNABLE_END, number_in_path
from chalicelib.domain.queries.event_filter import ObjectSelection
from chalicelib.domain.views.list_index import ROOT_ITEM, Root
from chalicelib.domain.views.record import Checkpoint, list_view
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.domain.vocabularies.job.events import JOB, id_from_key
from chalicelib.domain.vocabularies.job.publishing_rules import is_without_id, needs_existing_job, with_id
from chalicelib.services.reading.log_reader import LogReader

MAX_CACHED_POSITIONS = 1_000


@dataclass(frozen=True, slots=True)
class _Position:
    """The greatest number of a job in the log up to `head`."""

    head: Head
    greatest: int


@dataclass(frozen=True, slots=True)
class AssignedNumbers:
    """Consecutive numbers for new jobs."""

    server: int
    numbers: Sequence[int]
    event_id: int
    """No event up to here is about a job with one of the numbers."""

    @property
    def condition(self) -> AppendCondition:
        """Fails if another writer has used one of the numbers."""
        query = PathQuery(tuple(PathPattern(f"/{number}") for number in self.numbers))
        selection = ObjectSelection(collection=JOB, query=query)
        return AppendCondition(fail_if_events_match=selection, after=self.event_id)


class JobNumbers:
    """The numbers of the jobs that this process creates."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._positions: dict[int, _Position] = {}
        self._reserved: dict[int, int] = {}
        """By server, the greatest number that this process has assigned, so that its requests do not collide."""

    def assign(self, server: int, events: Sequence[NewEvent]) -> tuple[Sequence[NewEvent], AssignedNumbers | None]:
        """The events of a request, with the next numbers in place of ids that are missing.

        The numbers are greater than those of the request's other jobs. Raises `BadInput` if there are none left.
        """
        count = sum(map(is_without_id, events))
        if not count:
            return events, None
        position = self._read(server)
        # Other events about unknown jobs are ignored.
        used = max(0 if needs_existing_job(event) else _number_of(event.key) for event in events)
        with self._lock:
            first = max(position.greatest, self._reserved.get(server, 0), used) + 1
            if first + count > ASSIGNABLE_END:
                raise BadInput(f"there is no number after {first - 1} to assign; create the job with an id of your own")
            self._reserved[server] = first + count - 1
        numbers = iter(range(first, first + count))
        numbered = [with_id(event, next(numbers)) if is_without_id(event) else event for event in events]
        return numbered, AssignedNumbers(server, range(first, first + count), position.head.last_event_id)

    def release(self, assigned: AssignedNumbers) -> None:
        """Make the numbers available again, unless later ones have been assigned."""
        with self._lock:
            if self._reserved.get(assigned.server) == assigned.numbers[-1]:
                self._reserved[assigned.server] = assigned.numbers[0] - 1

    def _read(self, server: int) -> _Position:
        """The greatest number of a job in the log. Reads the commits since the last call, or those after the views."""

        def read(checkpoint: Checkpoint) -> tuple[_Position, bool]:
            start = self._positions.get(server)
            is_complete = start is not None and start.head.session >= checkpoint.head.session
            if start is None or not is_complete:
                view = checkpoint.view_name(list_view(JOB))
                record = self._reader.views.get(view, [ROOT_ITEM]).get(ROOT_ITEM)
                start, is_complete = _Position(checkpoint.head, Root.from_record(record).greatest_number), bool(record)
            head, greatest = start.head, start.greatest
            for commit in self._reader.tail(start.head):
                head, greatest = commit.head, max(greatest, _greatest_number(commit))
            return _Position(head, greatest), is_complete

        _, (position, _) = self._reader.read_views(server, read, is_complete=lambda result: result[1])
        if len(self._positions) > MAX_CACHED_POSITIONS:
            self._positions.clear()
        self._positions[server] = position
        return position


def _number_of(key: str | None) -> int:
    """The number of the job with this key. 0 if the key is not a job's."""
    number = id_from_key(JOB, key)
    return 0 if number is None else number_in_path(f"/{number}")


def _greatest_number(commit: Commit) -> int:
    """0 if the commit has no events of jobs."""
    numbers = (
        number_in_path(ref.path)
        for event in commit.events
        for ref in JOB_VOCABULARY.affected_objects(event.fields)
        if ref.collection == JOB
    )
    return max(numbers, default=0)
