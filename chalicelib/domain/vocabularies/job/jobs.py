"""Folds the events of a job into its state. A field that is None was too large to be stored, and stays None."""

from collections.abc import Mapping
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.objects.summary import truncate

MAX_ERROR_LENGTH = 1_000
"""Longer messages are truncated in `error`. `result` has the whole message."""
TIMED_OUT = "timed out"

Fields = Mapping[str, Any]
_Job = dict[str, Any]


def fold_job(job: _Job | None, at_us: int, native: Fields) -> _Job | None:
    """Update `job` in place. Returns None until the job has been created, and a new job when a new run begins."""
    name = native["event"]
    if name == "create" and (job is None or "finishedAt" in job):
        return _new_job(at_us, native, 1 if job is None else job["run"] + 1)
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
            job |= {"state": "finished", "result": result}
            _end_run(job, at_us, native)
        case "clean":
            job["state"] = "cleaned"
            _end_run(job, at_us, native)
    return job


def outcome(native: Fields) -> str:
    """How a `finish` or `clean` event ends a run: success, failure or timeout."""
    if native["event"] == "clean":
        return "timeout"
    return "success" if native["success"] == "1" else "failure"


def error_message(native: Fields) -> str | None:
    """Why the run did not succeed. None if it did."""
    match outcome(native):
        case "success":
            return None
        case "timeout":
            return TIMED_OUT
        case _:
            return truncate(native["message"], MAX_ERROR_LENGTH)


def author(native: Fields) -> str | None:
    """The author that the event's properties name."""
    name = native["props"].get("author")
    return None if name is None else truncate(name)


def _new_job(at_us: int, native: Fields, run: int) -> _Job:
    at = timestamps.iso(at_us)
    jobset = {"jobset": native["jobset"]} if "jobset" in native else {}
    by = author(native)
    return {
        "id": native["id"],
        "run": run,
        "type": native["type"],
        "node": native["node"],
        **({} if by is None else {"author": by}),
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


def _end_run(job: _Job, at_us: int, native: Fields) -> None:
    """If a run ends repeatedly, the last end counts."""
    seconds = (at_us - timestamps.parse(job["createdAt"])) / 1_000_000
    job |= {"finishedAt": job["updatedAt"], "seconds": seconds, "durationS": seconds, "outcome": outcome(native)}
    error = error_message(native)
    if error is None:
        job.pop("error", None)
    else:
        job["error"] = error
