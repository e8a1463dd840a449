"""Jobs and sets of jobs for tests: their events as publishers send them, and what the server tells of them."""

from collections.abc import Iterable
from typing import Any

import httpx

from tests.serving import Member

Json = dict[str, Any]

PARAMS = {"disk": "sda", "grüße": "日本"}
PROPS = {"author": "anna", "observer": "mail"}
LOG = {"time": 1478257650, "message": "copied\n100 files", "level": 2, "tag": "copy"}
DATA = {"text": "as\tit was"}
PLANNED = {"node": "n1", "type": "backup", "params": PARAMS, "props": PROPS}
ENDED = {**PLANNED, "id": 117, "state": "finished", "progress": "9/9", "success": "1", "message": "done"}

JOB = {"node": "n1", "id": 117, "jobset": 7, "type": "backup", "params": PARAMS, "props": PROPS}
JOBSET = {"node": "n1", "id": 7, "props": PROPS}
EVENTS: dict[str, Json] = {
    "create": {"event": "create", **JOB},
    "progress": {"event": "progress", **JOB, "state": "run", "progress": "1/9", "log": LOG, "data": DATA},
    "redirect": {"event": "redirect", "node": "n1", "id": 117, "jobset": 7, "redirect": "n2"},
    "finish": {"event": "finish", **JOB, "success": "1", "message": "done", "data": DATA},
    "clean": {"event": "clean", **JOB},
    "createJobSet": {"event": "createJobSet", **JOBSET, "jobs": [PLANNED, PLANNED]},
    "progressJobSet": {"event": "progressJobSet", **JOBSET, "state": "run", "progress": "1/2", "data": DATA},
    "finishJobSet": {"event": "finishJobSet", **JOBSET, "jobs": [ENDED]},
    "cleanJobSet": {"event": "cleanJobSet", **JOBSET, "jobs": [ENDED, {**PLANNED, "id": 118, "state": "run"}]},
}
"""Each of the nine, with all fields that it can have but the time."""


def without(event: Json, *names: str) -> Json:
    """The event without some of its fields."""
    return {name: value for name, value in event.items() if name not in names}


def of_job(name: str, number: int, jobset: int | None = None, /, **more: object) -> Json:
    """An event of a job, in few words."""
    event: Json = {"event": name, "node": "n1", "id": number}
    if jobset is not None:
        event["jobset"] = jobset
    if name != "redirect":
        event |= {"type": "backup", "params": {}, "props": {}}
    return event | more


def create(number: int, jobset: int | None = None, /, **more: object) -> Json:
    """A job is created."""
    return of_job("create", number, jobset, **more)


def progress(number: int, jobset: int | None = None, /, **more: object) -> Json:
    """A job goes on."""
    return of_job("progress", number, jobset, **(more or {"state": "run"}))


def finish(number: int, jobset: int | None = None, /, success: str = "1", **more: object) -> Json:
    """A job ends."""
    return of_job("finish", number, jobset, success=success, message=f"job {number} ended", **more)


def planned(job_type: str = "backup", node: str = "n1", **params: str) -> Json:
    """A job of a set that is being created."""
    return {"node": node, "type": job_type, "params": params, "props": {}}


def create_set(number: int, jobs: int | list[Json], /, **more: object) -> Json:
    """A set of jobs is created."""
    listed = [planned()] * jobs if isinstance(jobs, int) else jobs
    return {"event": "createJobSet", "node": "n1", "id": number, "props": {}, "jobs": listed, **more}


def finish_set(number: int, *jobs: int, **more: object) -> Json:
    """A set is said to be finished by its publisher."""
    return {"event": "finishJobSet", "node": "n1", "id": number, "props": {}, "jobs": [*map(ended, jobs)], **more}


def ended(number: int, **more: object) -> Json:
    """A job as the finish of its set lists it."""
    return {**planned(), "id": number, "state": "finished", "success": "1", "message": f"job {number} ended", **more}


def post(member: Member, body: object, **headers: str) -> httpx.Response:
    """POST /events/job with this JSON."""
    return member.ask("POST", "/events/job", json=body, headers=headers)


def publish(member: Member, *events: Json) -> Json:
    """Publish these events in one request, of which something is written; the answer."""
    answer = post(member, {"events": events})
    assert answer.status_code == 201, answer.text
    found: Json = answer.json()
    return found


def job(member: Member, number: int) -> Json:
    """The job as the server tells it, without its place in the log."""
    return _told(member, f"/jobs/{number}")


def jobset(member: Member, number: int) -> Json:
    """The set as the server tells it, without its place in the log."""
    return _told(member, f"/jobsets/{number}")


def said(events: Iterable[Json]) -> list[str]:
    """What core events say, in short: `finish 117`."""
    return [f"{event['type'][1]} {event['key'].rpartition('/')[2]}" for event in events]


def sessions(member: Member) -> list[list[str]]:
    """What each commit of the log says, in short."""
    found: dict[int, list[Json]] = {}
    for event in member.stored()["events"]:
        found.setdefault(event["id"]["session"], []).append(event)
    return [said(events) for events in found.values()]


def _told(member: Member, path: str) -> Json:
    answer = member.get(path)
    assert answer.status_code == 200, answer.text
    return without(answer.json(), "eventId")
