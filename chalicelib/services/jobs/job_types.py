"""Job types: the runs of all jobs of a type, and statistics of the last 30 days."""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json, to_json

from chalicelib.domain import timestamps
from chalicelib.domain.errors import NotFound
from chalicelib.domain.objects.cursor import Cursor
from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies.job.duration_histogram import percentile
from chalicelib.domain.vocabularies.job.job_types import OUTCOMES, recent_days, success_rate
from chalicelib.domain.vocabularies.job.objects import JOB_TYPE
from chalicelib.services.objects.snapshot_pages import SnapshotPage, SnapshotQuery, snapshot_page
from chalicelib.services.objects.snapshots import Snapshot, object_snapshot
from chalicelib.services.ports import Clock
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary

NextStarts = Callable[[int, Collection[str]], Mapping[str, int]]
"""(server, job types) -> by job type, the next time in microseconds at which a run is expected, if there is one."""
EVERYTHING = PathQuery.parse("/")
_LISTED_MEMBERS = ("type", "open", "consecutiveFailures", "lastSuccess", "lastFailure", "createdAt", "updatedAt")


def job_type_state(reader: LogReader, server: int, job_type: str) -> State | None:
    """The current state of a job type, see `fold_job_type`. None if no job of this type was created."""
    try:
        return job_type_snapshot(reader, server, job_type).state_of(f"/{job_type}")
    except NotFound:
        return None


def job_type_snapshot(reader: LogReader, server: int, job_type: str) -> Snapshot:
    """The current state of a job type. Raises `NotFound` if no job of this type was created."""
    if not job_type or "/" in job_type:  # The path would be that of a folder.
        raise NotFound(f"there is no job type '{job_type[:80]}'")
    return object_snapshot(reader, server, ObjectRef(JOB_TYPE, f"/{job_type}"))


def job_type_query(server: int, selected: ListFilter, limit: int, cursor: str | None) -> SnapshotQuery:
    """The query of a page of job types. Raises `BadInput` for a cursor of another query."""
    query = SnapshotQuery(server, (JOB_TYPE,), EVERYTHING, limit, filter=selected)
    return query if cursor is None else query.after(Cursor.parse(cursor, query.scope))


def list_job_types(
    query: SnapshotQuery, reader: LogReader, boundary: RetentionBoundary, clock: Clock, next_starts_us: NextStarts
) -> SnapshotPage:
    """A page of job types with their statistics, ordered by name."""
    page = snapshot_page(query, reader, boundary)
    states = [from_json(text) for text in page.texts]
    next_us = next_starts_us(query.server, {state["type"] for state in states})
    texts = [to_json(listed_job_type(state, clock, next_us)).decode() for state in states]
    return SnapshotPage(page.event_id, texts, page.next)


def listed_job_type(state: State, clock: Clock, next_starts_us: Mapping[str, int]) -> dict[str, Any]:
    """A job type without its lists of runs. `next_starts_us` has the next expected starts by job type."""
    next_us = next_starts_us.get(state["type"])
    days = recent_days(state, datetime.fromtimestamp(clock() / 1000, UTC).date())
    durations = [day["durations"] for day in days]
    return {
        **{name: state[name] for name in _LISTED_MEMBERS},
        "lastRun": state["runs"][0] if state["runs"] else None,
        "successRate": success_rate(days),
        "outcomes": {name: sum(day[name] for day in days) for name in OUTCOMES},
        **{f"p{percent}": percentile(durations, percent) for percent in (50, 90, 99)},
        "nextExpectedAt": None if next_us is None else timestamps.iso(next_us),
    }


def whole_job_type(state: State, clock: Clock, next_starts_us: Mapping[str, int]) -> dict[str, Any]:
    """A job type with its open runs and its last runs."""
    return {**listed_job_type(state, clock, next_starts_us), "openRuns": state["openRuns"], "runs": state["runs"]}
