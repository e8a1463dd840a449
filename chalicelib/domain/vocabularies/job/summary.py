"""What a list shows of jobs and of sets of jobs."""

from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import Brief, Result, share, short
from chalicelib.domain.vocabularies.job.events import JOB, JOBSET
from chalicelib.domain.vocabularies.job.jobsets import is_over


def brief_of(ref: ObjectRef, state: State) -> Brief:
    """A job is called by its type and node, a set by the number of its jobs."""
    has_ended = is_over(state)
    if ref.collection == JOB:
        label, result, progress = f"{state['type']} on {state['node']}", _result_of_job(state), _said(state)
    else:
        label, result, progress = _label_of_set(state), _result_of_set(state), _progress_of_set(state)
    return Brief(
        path=ref.path,
        key=f"/{ref.collection}{ref.path}",
        state=short(state["state"]),
        label=short(label),
        result=result,
        created_at=state["createdAt"],
        updated_at=state["updatedAt"],
        progress=None if has_ended else progress,
        parent=f"/{JOBSET}/{state['jobset']}" if "jobset" in state else None,
    )


def _result_of_job(job: State) -> Result | None:
    """Only who has finished has a result; who was cleaned has none."""
    success = (job.get("result") or job).get("success")
    return None if success is None else _result(success == "1")


def _result_of_set(jobset: State) -> Result | None:
    """A set has succeeded if all its jobs have; which is not said of one that was cleaned."""
    if jobset["state"] != "finished" or not is_over(jobset):
        return None
    jobs = jobset["jobs"]
    failed = jobset.get("failed", 0) if jobs is None else sum(job.get("success") != "1" for job in jobs)
    return _result(not failed)


def _progress_of_set(jobset: State) -> float | None:
    total = jobset.get("total")
    said = _said(jobset)
    return min(jobset["finished"] / total, 1.0) if said is None and total else said


def _said(state: State) -> float | None:
    """How far it says it is; None if that was said in words, or was too long to be kept."""
    return share(state.get("progress"))


def _label_of_set(jobset: State) -> str:
    total = jobset.get("total")
    jobs = "jobs" if total is None else "1 job" if total == 1 else f"{total} jobs"
    return f"{jobs} of {jobset['node']}"


def _result(is_good: bool) -> Result:
    return "success" if is_good else "failure"
