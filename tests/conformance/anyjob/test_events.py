"""AnyJob's nine events: their fields, their times, and the rejection of invalid events."""

import time

import httpx
import pytest

from chalicelib.domain import timestamps
from chalicelib.domain.vocabularies.job import events
from tests.conformance.anyjob.anyjob import (
    DATA,
    EVENTS,
    FINISHED_JOB,
    JOB,
    LOG,
    PLANNED_JOB,
    Json,
    job,
    post,
    publish,
    without,
)
from tests.serving import Member

JOB_EVENTS = ("create", "progress", "redirect", "finish", "clean")
INVALID_SUBTYPES = ("", "a/b", "/", "a?", "?", "*", "a*")
INVALID_TEXTS: tuple[object, ...] = ({"a": 1}, {"a": None}, {"a": {}}, ["a"], "a", None)
INVALID_JOBS: tuple[object, ...] = (None, {}, "x", [1], [{}])
INVALID_SUCCESS = ("", "2", "true", "yes", 1, 0, True, None)


def core_type(event: Json) -> list[str]:
    """The core type of an event."""
    root = "job" if event["event"] in JOB_EVENTS else "jobset"
    more = [event["type"]] if "type" in event and event["event"] != "redirect" else []
    return [root, event["event"], event["node"], *more]


def problem_detail(answer: httpx.Response) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), answer.text
    detail: str = answer.json()["detail"]
    return detail


@pytest.mark.parametrize("name", EVENTS, ids=lambda name: f"A-02 {name}")
def test_event_is_stored_with_exactly_its_fields(name: str, member: Member) -> None:
    if name in ("progress", "finish"):
        publish(member, EVENTS["create"])
    native = EVENTS[name]
    event = publish(member, native)["events"][0]
    hidden = ("event", "node", "id", *(() if name == "redirect" else ("type",)))
    stored = without(event, "id", "eventId", "position", "timestamp")
    assert stored == {
        "type": core_type(native),
        "key": f"/{core_type(native)[0]}/{native['id']}",
        "sourceTimestamp": None,
        "payload": {"type": "json", "data": without(native, *hidden)},
        "tags": [],
    }
    found = member.get("/events", params={"keys": event["key"], "types": "/".join(core_type(native))}).json()
    assert found["eventSnapshots"] == [event]


@pytest.mark.parametrize("name", EVENTS, ids=lambda name: f"A-02 {name}")
def test_event_time_of_publisher_becomes_source_timestamp(name: str, member: Member) -> None:
    if name in ("progress", "finish"):
        publish(member, EVENTS["create"])
    before = time.time_ns() // 1000
    event = publish(member, {**EVENTS[name], "time": 1478257656})["events"][0]
    assert before - 1000 <= timestamps.parse(event["timestamp"]) <= time.time_ns() // 1000
    assert event["sourceTimestamp"] == "2016-11-04T11:07:36.000000Z"
    assert "time" not in event["payload"]["data"]


def test_a_02_job_has_server_times(member: Member) -> None:
    created = publish(member, {**EVENTS["create"], "time": 1})["events"][0]
    ended = publish(member, {**EVENTS["finish"], "time": 2})["events"][0]
    found = job(member, 117)
    assert (found["createdAt"], found["finishedAt"]) == (created["timestamp"], ended["timestamp"])
    assert found["seconds"] == (ended["eventId"] - created["eventId"]) / 1_000_000


def test_a_20_log_line_without_time_gets_event_time(member: Member) -> None:
    publish(member, EVENTS["create"])
    line = {"message": "hello"}
    event = publish(member, {"event": "progress", **JOB, "log": line})["events"][0]
    (logged,) = job(member, 117)["logs"]
    assert logged == {"time": event["eventId"] // 1_000_000, "message": "hello", "level": 0, "tag": ""}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"type": "backup"},
        {"params": {"a": "b"}, "props": {}},
        {"type": "backup", "params": {}, "props": {"c": "d"}},
    ],
    ids=lambda more: f"A-25 {'+'.join(more) or 'as documented'}",
)
def test_redirect_accepts_type_params_and_props(more: Json, member: Member) -> None:
    publish(member, EVENTS["create"])
    event = publish(member, {**EVENTS["redirect"], **more})["events"][0]
    assert event["type"] == ["job", "redirect", "n1"]
    assert event["payload"]["data"] == {"jobset": 7, "redirect": "n2", **more}
    assert job(member, 117)["node"] == "n2"


@pytest.mark.parametrize("given", ["state", "progress", "log"], ids=lambda name: f"A-29 {name}")
def test_progress_with_state_progress_or_log_is_valid(given: str, member: Member) -> None:
    publish(member, EVENTS["create"])
    native = {"event": "progress", **JOB, given: EVENTS["progress"][given]}
    assert publish(member, native)["events"][0]["payload"]["data"] == without(native, "event", "node", "id", "type")


@pytest.mark.parametrize("given", ["state", "progress"], ids=lambda name: f"A-29 {name}")
def test_progress_job_set_with_state_or_progress_is_valid(given: str, member: Member) -> None:
    native = without(EVENTS["progressJobSet"], "data", "progress" if given == "state" else "state")
    assert publish(member, native)["events"][0]["payload"]["data"] == without(native, "event", "node", "id")


REQUIRED = {
    "create": ("node", "type"),
    "progress": ("node", "id", "type"),
    "redirect": ("node", "id", "redirect"),
    "finish": ("node", "id", "type", "success", "message"),
    "clean": ("node", "id", "type"),
    "createJobSet": ("node", "id", "jobs"),
    "progressJobSet": ("node", "id"),
    "finishJobSet": ("node", "id", "jobs"),
    "cleanJobSet": ("node", "id", "jobs"),
}
FOREIGN = {
    "create": ("state", "success", "message", "log", "data", "redirect", "jobs"),
    "progress": ("success", "message", "redirect", "jobs"),
    "redirect": ("state", "success", "message", "data"),
    "finish": ("state", "progress", "log", "redirect"),
    "clean": ("state", "success", "message", "data"),
    "createJobSet": ("type", "params", "jobset", "state", "total"),
    "progressJobSet": ("log", "jobs", "type", "params", "jobset"),
    "finishJobSet": ("state", "success", "message", "type", "jobset"),
    "cleanJobSet": ("state", "success", "message", "type", "jobset"),
}
VALUES = {"log": LOG, "data": DATA, "jobs": [PLANNED_JOB], "params": {}, "jobset": 7, "total": 1}
A = EVENTS
INVALID: dict[str, object] = {
    **{f"{name} without {field}": without(A[name], field) for name, fields in REQUIRED.items() for field in fields},
    **{f"{name} with {field}": {**A[name], field: VALUES.get(field, "x")}
       for name, fields in FOREIGN.items() for field in (*fields, "eventId", "timestamp", "unknown")},
    **{f"{name} at node {node!r}": {**native, "node": node} for name, native in A.items() for node in INVALID_SUBTYPES},
    **{f"{name} of type {text!r}": {**A[name], "type": text}
       for name in ("create", "progress", "redirect", "finish", "clean") for text in INVALID_SUBTYPES},
    **{f"redirect to {node!r}": {**A["redirect"], "redirect": node} for node in INVALID_SUBTYPES},
    **{f"planned at {node!r}": {**A["createJobSet"], "jobs": [{**PLANNED_JOB, "node": node}]}
       for node in INVALID_SUBTYPES},
    **{f"planned of type {text!r}": {**A["createJobSet"], "jobs": [{**PLANNED_JOB, "type": text}]}
       for text in INVALID_SUBTYPES},
    **{f"A-28 success {value!r}": {**A["finish"], "success": value} for value in INVALID_SUCCESS},
    **{f"A-28 success {value!r} in a set": {**A["finishJobSet"], "jobs": [{**FINISHED_JOB, "success": value}]}
       for value in INVALID_SUCCESS},
    **{f"{name} with id {value!r}": {**native, "id": value}
       for name, native in A.items() for value in (-1, 1.5, 2**53, True, "x", [7])},
    **{f"{name} with id None": {**native, "id": None} for name, native in A.items() if name != "create"},
    **{f"jobset {value!r}": {**A["create"], "jobset": value} for value in (-1, 1.5, 2**53, True, "x")},
    **{f"time {value!r}": {**A["create"], "time": value} for value in (-1, 1.5, 2**53 - 1, "noon", True, "2016-11-04")},
    **{f"{field} {value!r}": {**A["create"], field: value}
       for field in ("params", "props") for value in INVALID_TEXTS},
    **{f"log {log!r}": {**A["progress"], "log": log}
       for log in ("text", [LOG], {**LOG, "more": "x"}, without(LOG, "message"), {**LOG, "level": "high"},
                   {**LOG, "level": True}, {**LOG, "time": "noon"}, {**LOG, "tag": 1}, {**LOG, "message": 1})},
    **{f"data {data!r}": {**A["finish"], "data": data} for data in ("text", {}, {"text": 1}, {**DATA, "more": 1})},
    **{f"{name} with jobs {jobs!r}": {**A[name], "jobs": jobs}
       for name in ("createJobSet", "finishJobSet", "cleanJobSet") for jobs in INVALID_JOBS},
    **{f"finishJobSet whose job has no {field}": {**A["finishJobSet"], "jobs": [without(FINISHED_JOB, field)]}
       for field in ("id", "node", "type", "state", "success", "message")},
    "A-29 progress without state, progress and log": without(A["progress"], "state", "progress", "log"),
    "A-29 progress with only null": {"event": "progress", **JOB, "state": None, "progress": None, "log": None},
    "A-29 progressJobSet without state and progress": without(A["progressJobSet"], "state", "progress"),
    "a set created with a job that has an id": {**A["createJobSet"], "jobs": [{**PLANNED_JOB, "id": 1}]},
    "an unknown event": {**A["create"], "event": "cancel"},
    "a name in other case": {**A["create"], "event": "Create"},
    "no event": without(A["create"], "event"),
    "a core event": {"type": ["job", "create", "n1", "backup"], "key": "/job/117"},
    "nothing": {},
    "null": None,
    "a list": [A["create"]],
    "a text": "create",
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_event_is_rejected_and_nothing_is_written(name: str, member: Member) -> None:
    problem_detail(post(member, INVALID[name]))
    problem_detail(post(member, {"events": [EVENTS["create"], INVALID[name], EVENTS["finish"]]}))
    assert member.read_log()["events"] == []
    assert member.get("/jobs/117").status_code == 404


def test_invalid_event_error_names_field_and_rule(member: Member) -> None:
    body = {"events": [EVENTS["create"], {**EVENTS["finish"], "file": "x"}]}
    assert problem_detail(post(member, body)) == "events.1.finish.file: unknown field"
    assert problem_detail(post(member, {**EVENTS["create"], "time": 253_402_300_800})).startswith("create.time: ")


@pytest.mark.parametrize("more", [{"more": 1}, {"condition": {"types": ["a"]}}], ids=str)
def test_request_with_unknown_fields_is_rejected(more: Json, member: Member) -> None:
    problem_detail(post(member, {"events": [EVENTS["create"]], **more}))
    assert member.read_log()["events"] == []


def test_events_are_selectable_by_event_node_and_type(member: Member) -> None:
    others = [{**EVENTS["create"], "id": 118, "node": "n2"}, {**EVENTS["create"], "id": 119, "type": "restore"}]
    publish(member, *others, *EVENTS.values())
    names = ("job/create/*", "job/?/n2/*", "job/?/?/restore", "job/*", "jobset/?/n1", "job/redirect/n1")
    counts = [len(member.get("/events", params={"types": name}).json()["eventSnapshots"]) for name in names]
    assert counts == [3, 1, 1, 7, 4, 1]


def test_tables_cover_every_event() -> None:
    assert [*events.EVENT_NAMES] == [*EVENTS] == [*REQUIRED] == [*FOREIGN]
