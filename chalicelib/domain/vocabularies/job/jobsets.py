"""Folds the events of a job set, and of its jobs, into the set's state.

The stored state of a large set has no list of jobs (`jobs` is None) but the ids of its ended jobs, to count each once.
The state of a very large set does not have these ids either. Then `finished` counts repeated `finish` events too: it is
an upper limit, and `EndedJobs` has the exact number.

A set is created with a list of planned jobs without ids. Each `create` event that names the set replaces one of them.
A `createJobSet` event of a set that has ended, and a `create` event of a job that has ended, begin a new run.
"""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.vocabularies.job.events import JOB_EVENTS

Fields = Mapping[str, Any]
_JobSet = dict[str, Any]
_Job = dict[str, Any]
_Similarity = tuple[object, ...]
"""The values of the fields in which two jobs have to agree."""

MAX_LISTED_JOBS = 5_000
"""An event that lists more jobs is larger than a commit may be."""


class _JobIndex:
    """The jobs of a set by id, and its planned jobs by similarity, so that an event of a large set takes no longer."""

    def __init__(self, jobs: list[_Job]) -> None:
        self._jobs = jobs
        self.by_id = {job["id"]: job for job in reversed(jobs) if "id" in job}
        self._planned: dict[_Similarity, list[int]] = {}
        """Heaps of places in `_jobs`. A job may have changed since its place was added: check a place before use."""
        for place, job in enumerate(jobs):
            self._add_planned(place, job)

    def add(self, job: _Job) -> _Job:
        """Merge `job` into the planned job that is most similar to it, or append it. Returns the entry of the set."""
        place = next((place for key in _similarities(job) if (place := self._first_planned(key)) is not None), None)
        if place is None:
            entry = job
            self._jobs.append(job)
        else:
            entry = self._jobs[place]
            entry.update(job)
            self._add_planned(place, entry)
        if "id" in entry:
            self.by_id.setdefault(entry["id"], entry)
        return entry

    def _add_planned(self, place: int, job: _Job) -> None:
        for key in _similarities(job) if "id" not in job else ():
            heappush(self._planned.setdefault(key, []), place)

    def _first_planned(self, key: "_Similarity") -> int | None:
        places = self._planned.get(key, [])
        while places and ("id" in (job := self._jobs[places[0]]) or key not in _similarities(job)):
            heappop(places)
        return places[0] if places else None


def _similarities(job: Fields) -> tuple[_Similarity, _Similarity, _Similarity]:
    """From the most to the least similar. Missing params differ from empty ones."""
    kind, node, params = job.get("type"), job.get("node"), job.get("params")
    return (kind, node, None if params is None else frozenset(params.items())), (kind, node), (kind,)


def full_jobset(events: Iterable[tuple[int, Fields]]) -> _JobSet | None:
    """The state of a set from all its events, each with its EventId."""
    jobset, index = None, _JobIndex([])
    for at_us, native in events:
        if jobset is not None and native["event"] in JOB_EVENTS:
            jobset["updatedAt"] = timestamps.iso(at_us)
            _fold_job_of_set(jobset, native, index)
        else:
            jobs = None if jobset is None else jobset["jobs"]
            jobset = fold_jobset(jobset, at_us, native)
            if jobset["jobs"] is not jobs:
                index = _JobIndex(jobset["jobs"])
    if jobset is not None:
        jobset["finished"] = _count_finished(jobset)
    return jobset


def fold_jobset(jobset: _JobSet | None, at_us: int, native: Fields) -> _JobSet:
    """Update `jobset` in place with an event of the set or of one of its jobs."""
    at, name = timestamps.iso(at_us), native["event"]
    jobset_id = native["jobset"] if name in JOB_EVENTS else native["id"]
    if jobset is None or (name == "createJobSet" and has_ended(jobset)):
        jobset = {"id": jobset_id, "node": native["node"], "props": {}, "state": "created", "createdAt": at, "jobs": []}
        jobset["finished"] = 0
    jobset["updatedAt"] = at
    match name:
        case "createJobSet":
            jobset |= {
                "node": native["node"],
                "props": native["props"],
                "total": native.get("total", len(native["jobs"])),
            }
            if jobset["jobs"] is not None:  # None: too large to be stored, then only the counters are updated
                early, jobset["jobs"] = jobset["jobs"], [{**planned, "state": "planned"} for planned in native["jobs"]]
                index = _JobIndex(jobset["jobs"])
                for job in early:
                    index.add(job)
        case "progressJobSet":
            return _fold_progress(jobset, native)  # without counting the jobs again
        case "finishJobSet" | "cleanJobSet":
            jobset |= {"state": "finished" if name == "finishJobSet" else "cleaned", "finishedAt": at}
            if native["jobs"]:  # the list is empty if the jobs did not fit in one event
                jobset["jobs"] = [dict(job) for job in native["jobs"]]
                for substitute in ("ended", "failures", "failed"):
                    jobset.pop(substitute, None)
        case _:
            _fold_job_of_set(jobset, native, None if jobset["jobs"] is None else _JobIndex(jobset["jobs"]))
    if jobset["jobs"] is not None:
        jobset["finished"] = _count_finished(jobset)
    return jobset


def _fold_progress(jobset: _JobSet, native: Fields) -> _JobSet:
    if not has_ended(jobset):
        jobset |= {field: native[field] for field in ("state", "progress", "data") if field in native}
    return jobset


def finished_job_ids(jobset: Fields) -> list[int]:
    return [job["id"] for job in jobset["jobs"] if "success" in job and "id" in job]


def failed_job_ids(jobset: Fields) -> list[int]:
    return [job["id"] for job in jobset["jobs"] if job.get("success") == "0" and "id" in job]


def has_ended(state: Fields) -> bool:
    """Whether the job or set has finished or was cleaned."""
    return "finishedAt" in state


def is_finish_due(jobset: Fields) -> bool:
    """Whether all jobs of the set have finished, but there is no `finishJobSet` event yet.

    Without `has_exact_count` the full state may show that some jobs have not finished.
    """
    return not has_ended(jobset) and 0 < jobset.get("total", 0) <= jobset["finished"]


def has_exact_count(jobset: Fields) -> bool:
    """Whether `finished` is exact."""
    return jobset["jobs"] is not None or "ended" in jobset


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


def _count_finished(jobset: Fields) -> int:
    return sum("success" in job for job in jobset["jobs"])


def _fold_job_of_set(jobset: _JobSet, native: Fields, index: _JobIndex | None) -> None:
    """`index` is None if the list of jobs is too large to be stored."""
    begins_run = native["event"] == "create" and not has_ended(jobset)
    if index is None:
        _count_job_of_large_set(jobset, native, begins_run)
        return
    job = index.by_id.get(native["id"])
    if job is not None and begins_run and ("success" in job or job["state"] == "cleaned"):
        job.clear()
        job |= {field: native[field] for field in ("node", "type", "params", "props", "id")} | {"state": "created"}
    if job is None:
        if "type" not in native:
            return  # a redirect of a job that has not been created
        created = {field: native[field] for field in ("node", "type", "params", "props") if field in native}
        job = index.add({**created, "id": native["id"], "state": "created"})
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
    if "ended" not in jobset:  # too large, too: count each event
        if native["event"] == "finish":
            jobset["finished"] += 1
            jobset["failed"] += native["success"] == "0"
        return
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
