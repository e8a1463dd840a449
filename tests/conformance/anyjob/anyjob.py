"""AnyJob's events for tests, and functions to publish them and to read jobs and job sets."""

from collections.abc import Iterable
from typing import Any

import httpx

from tests.serving import Member

Json = dict[str, Any]

PARAMS = {"disk": "sda", "grüße": "日本"}
PROPS = {"author": "anna", "observer": "mail"}
LOG = {"time": 1478257650, "message": "copied\n100 files", "level": 2, "tag": "copy"}
DATA = {"text": "as\tit was"}
PLANNED_JOB = {"node": "n1", "type": "backup", "params": PARAMS, "props": PROPS}
FINISHED_JOB = {**PLANNED_JOB, "id": 117, "state": "finished", "progress": "9/9", "success": "1", "message": "done"}

JOB = {"node": "n1", "id": 117, "jobset": 7, "type": "backup", "params": PARAMS, "props": PROPS}
JOBSET = {"node": "n1", "id": 7, "props": PROPS}
EVENTS: dict[str, Json] = {
    "create": {"event": "create", **JOB},
    "progress": {"event": "progress", **JOB, "state": "run", "progress": "1/9", "log": LOG, "data": DATA},
    "redirect": {"event": "redirect", "node": "n1", "id": 117, "jobset": 7, "redirect": "n2"},
    "finish": {"event": "finish", **JOB, "success": "1", "message": "done", "data": DATA},
    "clean": {"event": "clean", **JOB},
    "createJobSet": {"event": "createJobSet", **JOBSET, "jobs": [PLANNED_JOB, PLANNED_JOB]},
    "progressJobSet": {"event": "progressJobSet", **JOBSET, "state": "run", "progress": "1/2", "data": DATA},
    "finishJobSet": {"event": "finishJobSet", **JOBSET, "jobs": [FINISHED_JOB]},
    "cleanJobSet": {
        "event": "cleanJobSet",
        **JOBSET,
        "jobs": [FINISHED_JOB, {**PLANNED_JOB, "id": 118, "state": "run"}],
    },
}
"""Each of the nine events with all its fields except the time."""


def without(event: Json, *names: str) -> Json:
    return {name: value for name, value in event.items() if name not in names}


def job_event(name: str, number: int, jobset: int | None = None, /, **more: object) -> Json:
    """An event of a job with default fields."""
    event: Json = {"event": name, "node": "n1", "id": number}
    if jobset is not None:
        event["jobset"] = jobset
    if name != "redirect":
        event |= {"type": "backup", "params": {}, "props": {}}
    return event | more


def create(number: int, jobset: int | None = None, /, **more: object) -> Json:
    return job_event("create", number, jobset, **more)


def progress(number: int, jobset: int | None = None, /, **more: object) -> Json:
    return job_event("progress", number, jobset, **(more or {"state": "run"}))


def finish(number: int, jobset: int | None = None, /, success: str = "1", **more: object) -> Json:
    return job_event("finish", number, jobset, success=success, message=f"job {number} ended", **more)


def planned_job(job_type: str = "backup", node: str = "n1", **params: str) -> Json:
    """A job in a `createJobSet` event."""
    return {"node": node, "type": job_type, "params": params, "props": {}}


def create_set(number: int, jobs: int | list[Json], /, **more: object) -> Json:
    listed = [planned_job()] * jobs if isinstance(jobs, int) else jobs
    return {"event": "createJobSet", "node": "n1", "id": number, "props": {}, "jobs": listed, **more}


def finish_set(number: int, *jobs: int, **more: object) -> Json:
    return {
        "event": "finishJobSet",
        "node": "n1",
        "id": number,
        "props": {},
        "jobs": [*map(finished_job, jobs)],
        **more,
    }


def finished_job(number: int, **more: object) -> Json:
    """A job in a `finishJobSet` event."""
    return {
        **planned_job(),
        "id": number,
        "state": "finished",
        "success": "1",
        "message": f"job {number} ended",
        **more,
    }


def post(member: Member, body: object, **headers: str) -> httpx.Response:
    """POST /events/job with this JSON."""
    return member.request("POST", "/events/job", json=body, headers=headers)


def publish(member: Member, *events: Json) -> Json:
    """Publish events in one request, at least one of which is written. Returns the response body."""
    answer = post(member, {"events": events})
    assert answer.status_code == 201, answer.text
    body: Json = answer.json()
    return body


def publish_commit(member: Member, *events: Json) -> list[Json]:
    """Publish events in one request. Returns all events of the commit, including those that follow from them."""
    first = publish(member, *events)["events"][0]["eventId"]
    return [*member.get("/events", params={"after": first - 1}).json()["eventSnapshots"]]


def job(member: Member, number: int) -> Json:
    """The job's resource without its eventId."""
    return _get(member, f"/jobs/{number}")


def jobset(member: Member, number: int) -> Json:
    """The set's resource without its eventId."""
    return _get(member, f"/jobsets/{number}")


def describe(events: Iterable[Json]) -> list[str]:
    """Core events in short form: `finish 117`."""
    return [f"{event['type'][1]} {event['key'].rpartition('/')[2]}" for event in events]


def describe_sessions(member: Member) -> list[list[str]]:
    """The events of each commit of the log in short form."""
    by_session: dict[int, list[Json]] = {}
    for event in member.read_log()["events"]:
        by_session.setdefault(event["id"]["session"], []).append(event)
    return [describe(events) for events in by_session.values()]


def _get(member: Member, path: str) -> Json:
    answer = member.get(path)
    assert answer.status_code == 200, answer.text
    return without(answer.json(), "eventId")
