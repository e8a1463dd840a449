"""Folds the events of a job set, and of its jobs, into the set's state.

A set is created with a list of planned jobs without ids. Each `create` event that names the set replaces one of them.
A `createJobSet` event of a set that has ended, and a `create` event of a job that has ended, begin a new run.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.vocabularies.job.events import JOB_EVENTS

Fields = Mapping[str, Any]
_JobSet = dict[str, Any]
_Job = dict[str, Any]


def fold_jobset(jobset: _JobSet | None, at_us: int, native: Fields) -> _JobSet:
    """Update `jobset` in place with an event of the set or of one of its jobs."""
    at, name = timestamps.iso(at_us), native["event"]
    jobset_id = native["jobset"] if name in JOB_EVENTS else native["id"]
    if jobset is None or (name == "createJobSet" and has_ended(jobset)):
        jobset = {"id": jobset_id, "node": native["node"], "props": {}, "state": "created", "createdAt": at, "jobs": []}
    jobset["updatedAt"] = at
    match name:
        case "createJobSet":
            jobset |= {"node": native["node"], "props": native["props"], "total": len(native["jobs"])}
            if jobset["jobs"] is not None:  # None: too large to be stored, then only the counters are updated
                early, jobset["jobs"] = jobset["jobs"], [{**planned, "state": "planned"} for planned in native["jobs"]]
                for job in early:
                    _assign_to_planned_job(jobset["jobs"], job)
        case "progressJobSet":
            jobset |= {field: native[field] for field in ("state", "progress", "data") if field in native}
        case "finishJobSet" | "cleanJobSet":
            jobset |= {"state": "finished" if name == "finishJobSet" else "cleaned", "finishedAt": at}
            if native["jobs"]:  # the list is empty if the jobs did not fit in one event
                jobset["jobs"] = [dict(job) for job in native["jobs"]]
                for substitute in ("ended", "failures", "failed"):
                    jobset.pop(substitute, None)
        case _:
            _fold_job_of_set(jobset, native)
    if jobset["jobs"] is not None:
        jobset["finished"] = sum("success" in job for job in jobset["jobs"])
    return jobset


def finished_job_ids(jobset: Fields) -> list[int]:
    return [job["id"] for job in jobset["jobs"] if "success" in job and "id" in job]


def failed_job_ids(jobset: Fields) -> list[int]:
    return [job["id"] for job in jobset["jobs"] if job.get("success") == "0" and "id" in job]


def has_ended(state: Fields) -> bool:
    """Whether the job or set has finished or was cleaned."""
    return "finishedAt" in state


def is_finish_due(jobset: Fields) -> bool:
    """Whether all jobs of the set have finished, but there is no `finishJobSet` event yet."""
    return not has_ended(jobset) and 0 < jobset.get("total", 0) <= jobset["finished"]


def finish_event(jobset: Fields) -> dict[str, Any]:
    """The native `finishJobSet` event with the finished jobs. `jobset` must be a full state."""
    return _end_event(jobset, "finishJobSet", [job for job in jobset["jobs"] if "success" in job])


def clean_event(jobset: Fields) -> dict[str, Any]:
    """The native `cleanJobSet` event for a set without recent events. `jobset` must be a full state."""
    return _end_event(jobset, "cleanJobSet", jobset["jobs"])


def _end_event(jobset: Fields, event: str, jobs: Iterable[Fields]) -> dict[str, Any]:
    fields = ("node", "id", "type", "params", "props", "state", "progress", "success", "message")
    return {
        "event": event,
        "node": jobset["node"],
        "id": jobset["id"],
        "props": jobset["props"],
        "jobs": [{field: job[field] for field in fields if field in job} for job in jobs],
    }


def _fold_job_of_set(jobset: _JobSet, native: Fields) -> None:
    jobs, begins_run = jobset["jobs"], native["event"] == "create" and not has_ended(jobset)
    if jobs is None:
        _count_job_of_large_set(jobset, native, begins_run)
        return
    job = next((job for job in jobs if job.get("id") == native["id"]), None)
    if job is not None and begins_run and ("success" in job or job["state"] == "cleaned"):
        job.clear()
        job |= {field: native[field] for field in ("node", "type", "params", "props", "id")} | {"state": "created"}
    if job is None:
        if "type" not in native:
            return  # a redirect of a job that has not been created
        created = {field: native[field] for field in ("node", "type", "params", "props") if field in native}
        job = _assign_to_planned_job(jobs, created)
        job |= {"id": native["id"], "state": "created"}
    match native["event"]:
        case "progress":
            job |= {field: native[field] for field in ("state", "progress") if field in native}
        case "redirect":
            job["node"] = native["redirect"]
        case "finish":
            job |= {"state": "finished", "success": native["success"], "message": native["message"]}
        case "clean":
            job["state"] = "cleaned"


def _count_job_of_large_set(jobset: _JobSet, native: Fields, begins_run: bool) -> None:
    """The list of jobs is too large to be stored, but the ids of ended jobs are needed to count each job once."""
    number, ended, failures = native["id"], jobset["ended"], jobset["failures"]
    if begins_run and number in ended:
        ended.remove(number)
        failures[:] = [other for other in failures if other != number]
        jobset["finished"] -= 1
    elif native["event"] == "finish" and number not in ended:
        ended.append(number)
        failures += [number] if native["success"] == "0" else []
        jobset["finished"] += 1
    jobset["failed"] = len(failures)


def _assign_to_planned_job(jobs: list[_Job], job: _Job) -> _Job:
    """Merge `job` into the planned job that is most similar to it, or append it. Returns the entry in `jobs`."""
    planned_jobs = [planned for planned in jobs if "id" not in planned]
    for fields in (("type", "node", "params"), ("type", "node"), ("type",)):
        for planned in planned_jobs:
            if all(planned.get(name) == job.get(name) for name in fields):
                planned.update(job)
                return planned
    jobs.append(job)
    return job
