"""Job types: the runs of all jobs of a type, and statistics of the last 30 days."""

from chalicelib.domain.errors import NotFound
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies.job.objects import JOB_TYPE
from chalicelib.services.objects.snapshots import object_snapshot
from chalicelib.services.reading.log_reader import LogReader


def job_type_state(reader: LogReader, server: int, job_type: str) -> State | None:
    """The current state of a job type, see `fold_job_type`. None if no job of this type was created."""
    if not job_type or "/" in job_type:
        return None  # Such a path is that of a folder.
    ref = ObjectRef(JOB_TYPE, f"/{job_type}")
    try:
        return object_snapshot(reader, server, ref).state_of(ref.path)
    except NotFound:
        return None
