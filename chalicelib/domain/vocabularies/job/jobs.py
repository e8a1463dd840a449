"""What the events of a job fold into. What is None was too large to be kept here, and stays so."""

from collections.abc import Mapping
from typing import Any

from chalicelib.domain import timestamps

Fields = Mapping[str, Any]
_Job = dict[str, Any]


def folded_job(job: _Job | None, at_us: int, own: Fields) -> _Job | None:
    """The job after an event; it exists once it is created."""
    name = own["event"]
    if job is None:
        return _created(at_us, own) if name == "create" else None
    job["updatedAt"] = timestamps.iso(at_us)
    match name:
        case "progress":
            job |= {field: own[field] for field in ("state", "progress", "data") if field in own}
            if "log" in own:
                _log(job, own)
        case "redirect":
            if job["redirects"] is not None:
                job["redirects"].append({"from": job["node"], "to": own["redirect"], "at": job["updatedAt"]})
            job["node"] = own["redirect"]
        case "finish":
            result = {field: own[field] for field in ("success", "message", "data") if field in own}
            job.pop("success", None)
            job |= {"state": "finished", "result": result, **_end(job, at_us)}
        case "clean":
            job |= {"state": "cleaned", **_end(job, at_us)}
    return job


def _created(at_us: int, own: Fields) -> _Job:
    at = timestamps.iso(at_us)
    jobset = {"jobset": own["jobset"]} if "jobset" in own else {}
    return {
        "id": own["id"],
        "type": own["type"],
        "node": own["node"],
        **jobset,
        "params": own["params"],
        "props": own["props"],
        "state": "created",
        "createdAt": at,
        "updatedAt": at,
        "redirects": [],
        "logCount": 0,
        "logs": [],
    }


def _log(job: _Job, own: Fields) -> None:
    job["logCount"] += 1
    if job["logs"] is not None:
        data = {"data": own["data"]} if "data" in own else {}
        job["logs"].append({**own["log"], **data})


def _end(job: _Job, at_us: int) -> Fields:
    seconds = (at_us - timestamps.parse(job["createdAt"])) / 1_000_000
    return {"finishedAt": job["updatedAt"], "seconds": seconds}
