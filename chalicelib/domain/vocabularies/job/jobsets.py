"""What the events of a set of jobs, and of its jobs, fold into.

A set is created with its jobs, which have no ids yet; each `create` that names the set takes the place of one of them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.vocabularies.job.events import OF_JOB

Fields = Mapping[str, Any]
_Set = dict[str, Any]


def folded_jobset(jobset: _Set | None, at_us: int, own: Fields) -> _Set:
    """The set after an event of its own or of one of its jobs."""
    at, name = timestamps.iso(at_us), own["event"]
    number = own["jobset"] if name in OF_JOB else own["id"]
    if jobset is None:
        jobset = {"id": number, "node": own["node"], "props": {}, "state": "created", "createdAt": at, "jobs": []}
    jobset["updatedAt"] = at
    match name:
        case "createJobSet":
            jobset |= {"node": own["node"], "props": own["props"], "total": len(own["jobs"])}
            if jobset["jobs"] is not None:  # else those that came early are not known here, and must be counted
                early, jobset["jobs"] = jobset["jobs"], [{**planned, "state": "planned"} for planned in own["jobs"]]
                for job in early:
                    _take_place(jobset["jobs"], job)
        case "progressJobSet":
            jobset |= {field: own[field] for field in ("state", "progress", "data") if field in own}
        case "finishJobSet" | "cleanJobSet":
            jobset |= {"state": "finished" if name == "finishJobSet" else "cleaned", "finishedAt": at}
            if own["jobs"]:  # none are listed where all of them are too large for one event
                jobset["jobs"] = [dict(job) for job in own["jobs"]]
                for remembered in ("ended", "failed"):
                    jobset.pop(remembered, None)
        case _:
            _fold_job(jobset, own)
    if jobset["jobs"] is not None:
        jobset["finished"] = sum("success" in job for job in jobset["jobs"])
    return jobset


def ended_of(jobset: Fields) -> list[int]:
    """Which of its jobs have finished."""
    return [job["id"] for job in jobset["jobs"] if "success" in job and "id" in job]


def failed_of(jobset: Fields) -> int:
    """How many of its jobs have finished badly."""
    return sum(job.get("success") == "0" for job in jobset["jobs"])


def is_over(jobset: Fields) -> bool:
    """Tell whether the set was finished or cleaned."""
    return "finishedAt" in jobset


def is_complete(jobset: Fields) -> bool:
    """Tell whether all jobs of the set have finished, though nobody has said so yet."""
    return not is_over(jobset) and 0 < jobset.get("total", 0) <= jobset["finished"]


def finish_of(jobset: Fields) -> dict[str, Any]:
    """The event that says so, with the jobs that have finished; `jobset` is whole."""
    return _end_of(jobset, "finishJobSet", [job for job in jobset["jobs"] if "success" in job])


def clean_of(jobset: Fields) -> dict[str, Any]:
    """The event that says that the set was silent for too long; `jobset` is whole."""
    return _end_of(jobset, "cleanJobSet", jobset["jobs"])


def _end_of(jobset: Fields, event: str, listed: Iterable[Fields]) -> dict[str, Any]:
    fields = ("node", "id", "type", "params", "props", "state", "progress", "success", "message")
    jobs = [{field: job[field] for field in fields if field in job} for job in listed]
    return {
        "event": event,
        "node": jobset["node"],
        "id": jobset["id"],
        "props": jobset["props"],
        "jobs": jobs,
    }


def _fold_job(jobset: _Set, own: Fields) -> None:
    jobs = jobset["jobs"]
    if jobs is None:
        # The jobs themselves are too many to be kept here, but which of them ended must be known.
        if own["event"] == "finish" and own["id"] not in jobset["ended"]:
            jobset["ended"].append(own["id"])
            jobset["finished"] += 1
            jobset["failed"] += own["success"] == "0"
        return
    job = next((job for job in jobs if job.get("id") == own["id"]), None)
    if job is None:
        if "type" not in own:
            return  # a redirect of a job that nobody has created
        job = _take_place(jobs, {field: own[field] for field in ("node", "type", "params", "props") if field in own})
        job |= {"id": own["id"], "state": "created"}
    match own["event"]:
        case "progress":
            job |= {field: own[field] for field in ("state", "progress") if field in own}
        case "redirect":
            job["node"] = own["redirect"]
        case "finish":
            job |= {"state": "finished", "success": own["success"], "message": own["message"]}
        case "clean":
            job["state"] = "cleaned"


def _take_place(jobs: list[_Set], job: _Set) -> _Set:
    """The place of a job that was planned like this one, or a new one."""
    free = [place for place in jobs if "id" not in place]
    likenesses = (("type", "node", "params"), ("type", "node"), ("type",))
    found = next((place for fields in likenesses if (place := _like(free, job, fields))), None)
    if found is None:
        jobs.append(job)
        return job
    found |= job
    return found


def _like(places: Iterable[_Set], job: Fields, fields: tuple[str, ...]) -> _Set | None:
    return next((place for place in places if all(place.get(name) == job.get(name) for name in fields)), None)
