"""Summaries of jobs, job sets and job types."""

from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import ObjectSummary, Result, parse_progress, truncate
from chalicelib.domain.vocabularies.job.events import JOB, JOBSET
from chalicelib.domain.vocabularies.job.jobsets import has_ended
from chalicelib.domain.vocabularies.job.objects import JOB_TYPE


def summarize(ref: ObjectRef, state: State) -> ObjectSummary:
    if ref.collection == JOB_TYPE:
        return _job_type(ref, state)
    if ref.collection == JOB:
        label, result = f"{state['type']} on {state['node']}", state.get("outcome")
        progress = parse_progress(state.get("progress"))
    else:
        label, result, progress = _jobset_label(state), _jobset_result(state), _jobset_progress(state)
    return ObjectSummary(
        path=ref.path,
        key=f"/{ref.collection}{ref.path}",
        state=truncate(state["state"]),
        label=truncate(label),
        result=result,
        created_at=state["createdAt"],
        updated_at=state["updatedAt"],
        progress=None if has_ended(state) else progress,
        parent=f"/{JOBSET}/{state['jobset']}" if "jobset" in state else None,
        type=truncate(state["type"]) if "type" in state else None,
        node=truncate(state["node"]),
        author=_author(ref, state),
    )


def _job_type(ref: ObjectRef, state: State) -> ObjectSummary:
    """The result is that of the run that ended last."""
    return ObjectSummary(
        path=ref.path,
        key=None,
        state="running" if state["open"] else "idle",
        label=truncate(state["type"]),
        result=state["runs"][0]["outcome"] if state["runs"] else None,
        created_at=state["createdAt"],
        updated_at=state["updatedAt"],
        type=truncate(state["type"]),
    )


def _author(ref: ObjectRef, state: State) -> str | None:
    """None also if the properties of a job set are too large to be stored."""
    if ref.collection == JOB:
        return state.get("author")
    author = (state["props"] or {}).get("author")
    return None if author is None else truncate(author)


def _jobset_result(jobset: State) -> Result | None:
    """A finished set is successful if all its jobs were. A cleaned set has no result."""
    if jobset["state"] != "finished" or not has_ended(jobset):
        return None
    jobs = jobset["jobs"]
    has_failure = bool(jobset.get("failed")) if jobs is None else any(job.get("success") != "1" for job in jobs)
    return _result(not has_failure)


def _jobset_progress(jobset: State) -> float | None:
    """The progress that the set reports, or else the ratio of finished jobs."""
    reported, total = parse_progress(jobset.get("progress")), jobset.get("total")
    return min(jobset["finished"] / total, 1.0) if reported is None and total else reported


def _jobset_label(jobset: State) -> str:
    total = jobset.get("total")
    jobs = "jobs" if total is None else "1 job" if total == 1 else f"{total} jobs"
    return f"{jobs} of {jobset['node']}"


def _result(is_success: bool) -> Result:
    return "success" if is_success else "failure"
