"""Folds the events of a job into its state. A field that is None was too large to be stored, and stays None."""

from collections.abc import Mapping
from typing import Any

from chalicelib.domain import timestamps

Fields = Mapping[str, Any]
_Job = dict[str, Any]


def fold_job(job: _Job | None, at_us: int, native: Fields) -> _Job | None:
    """Update `job` in place. Returns None until the job has been created, and a new job when a new run begins."""
    name = native["event"]
    if name == "create" and (job is None or "finishedAt" in job):
        return _new_job(at_us, native)
    if job is None:
        return None
    job["updatedAt"] = timestamps.iso(at_us)
    match name:
        case "progress":
            if "finishedAt" not in job:  # Late progress does not reopen the run. Its log lines are kept.
                job |= {field: native[field] for field in ("state", "progress", "data") if field in native}
            if "log" in native:
                _append_log(job, native)
        case "redirect":
            if job["redirects"] is not None:
                job["redirects"].append({"from": job["node"], "to": native["redirect"], "at": job["updatedAt"]})
            job["node"] = native["redirect"]
        case "finish":
            result = {field: native[field] for field in ("success", "message", "data") if field in native}
            job.pop("success", None)
            job |= {"state": "finished", "result": result, **_end_fields(job, at_us)}
        case "clean":
            job |= {"state": "cleaned", **_end_fields(job, at_us)}
    return job


def _new_job(at_us: int, native: Fields) -> _Job:
    at = timestamps.iso(at_us)
    jobset = {"jobset": native["jobset"]} if "jobset" in native else {}
    return {
        "id": native["id"],
        "type": native["type"],
        "node": native["node"],
        **jobset,
        "params": native["params"],
        "props": native["props"],
        "state": "created",
        "createdAt": at,
        "updatedAt": at,
        "redirects": [],
        "logCount": 0,
        "logs": [],
    }


def _append_log(job: _Job, native: Fields) -> None:
    job["logCount"] += 1
    if job["logs"] is not None:
        data = {"data": native["data"]} if "data" in native else {}
        job["logs"].append({**native["log"], **data})


def _end_fields(job: _Job, at_us: int) -> Fields:
    seconds = (at_us - timestamps.parse(job["createdAt"])) / 1_000_000
    return {"finishedAt": job["updatedAt"], "seconds": seconds}
