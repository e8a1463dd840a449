"""Jobs: their resources, and events of unknown jobs."""

from pathlib import Path

import pytest

from tests.conformance.anyjob.anyjob import (
    DATA,
    EVENTS,
    LOG,
    PARAMS,
    PROPS,
    Json,
    create,
    describe,
    describe_sessions,
    finish,
    job,
    job_event,
    post,
    progress,
    publish,
)
from tests.serving import Member, run_server

NO_JOB = "there is no job {}"


def times(*events: Json) -> list[str]:
    """The times of events as job resources state them."""
    return [f"{event['timestamp'][:-7]}{event['eventId'] % 1_000_000:06d}Z" for event in events]


def test_job_has_all_fields_of_its_events(member: Member) -> None:
    native = [EVENTS[name] for name in ("create", "progress", "redirect", "finish")]
    created, progressed, redirected, ended = (publish(member, event)["events"][0] for event in native)
    at = times(created, progressed, redirected, ended)
    seconds = (ended["eventId"] - created["eventId"]) / 1_000_000
    assert job(member, 117) == {
        "id": 117,
        "run": 1,
        "type": "backup",
        "node": "n2",
        "author": "anna",
        "jobset": 7,
        "params": PARAMS,
        "props": PROPS,
        "state": "finished",
        "createdAt": at[0],
        "updatedAt": at[3],
        "redirects": [{"from": "n1", "to": "n2", "at": at[2]}],
        "logCount": 1,
        "logs": [{**LOG, "data": DATA}],
        "progress": "1/9",
        "data": DATA,
        "result": {"success": "1", "message": "done", "data": DATA},
        "finishedAt": at[3],
        "seconds": seconds,
        "durationS": seconds,
        "outcome": "success",
    }


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({"state": "run"}, {"state": "run"}),
        ({"progress": "5%"}, {"progress": "5%", "state": "created"}),
        ({"log": LOG}, {"state": "created", "logCount": 1, "logs": [LOG]}),
        ({"log": LOG, "data": DATA}, {"data": DATA, "logCount": 1, "logs": [{**LOG, "data": DATA}]}),
        ({"state": "run", "data": DATA}, {"state": "run", "data": DATA}),
        (
            {"state": "run", "progress": "1", "log": LOG, "data": DATA},
            {"state": "run", "progress": "1", "logCount": 1, "logs": [{**LOG, "data": DATA}], "data": DATA},
        ),
        ({"state": "", "progress": ""}, {"state": "", "progress": ""}),
        ({"state": "finished"}, {"state": "finished"}),
    ],
    ids=lambda fields: f"A-20 {'+'.join(fields)}",
)
def test_progress_changes_only_its_fields(fields: Json, changes: Json, member: Member) -> None:
    publish(member, create(1))
    before = job(member, 1)
    event = publish(member, progress(1, **fields))["events"][0]
    assert event["payload"]["data"] == {"params": {}, "props": {}, **fields}
    assert job(member, 1) == {**before, **changes, "updatedAt": times(event)[0]}


@pytest.mark.parametrize("native", [progress(404), finish(404)], ids=lambda native: f"A-21 {native['event']}")
def test_event_of_unknown_job_is_reported_as_ignored(native: Json, member: Member) -> None:
    (before,) = publish(member, create(1))["events"]
    answer = post(member, native)
    assert (answer.status_code, answer.json()) == (
        200,
        {"events": [], "eventId": before["eventId"], "ignored": [{"place": 0, "reason": NO_JOB.format(404)}]},
    )
    assert (member.read_log()["events"], member.get("/jobs/404").status_code) == ([before], 404)


def test_a_21_batch_ignores_only_events_of_unknown_jobs(member: Member) -> None:
    publish(member, create(1))
    response = publish(
        member, progress(404), progress(1), finish(405), create(2), progress(2), progress(3), create(3), finish(3)
    )
    assert describe(response["events"]) == ["progress 1", "create 2", "progress 2", "create 3", "finish 3"]
    assert response["ignored"] == [
        {"place": n, "reason": NO_JOB.format(id_)} for n, id_ in ((0, 404), (2, 405), (5, 3))
    ]
    assert describe_sessions(member) == [["create 1"], describe(response["events"])]


@pytest.mark.parametrize("name", ["redirect", "clean"], ids=lambda name: f"A-21 {name}")
def test_redirect_or_clean_does_not_create_a_job(name: str, member: Member) -> None:
    post(member, job_event(name, 404, **({"redirect": "n2"} if name == "redirect" else {})))
    assert member.get("/jobs/404").status_code == 404
    assert post(member, progress(404)).json()["ignored"] == [{"place": 0, "reason": NO_JOB.format(404)}]


def test_a_21_job_of_another_organization_is_unknown(member: Member) -> None:
    publish(member, create(1))
    other = member.server.organization()
    assert post(other, progress(1)).json()["ignored"] == [{"place": 0, "reason": NO_JOB.format(1)}]


def test_a_21_job_is_known_after_server_restart(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        member = server.organization()
        publish(member, create(1), create(2))
    with run_server(tmp_path) as server:
        restarted = server.member(member.organization)
        response = publish(restarted, progress(1), progress(404), finish(2))
        assert (describe(response["events"]), [entry["place"] for entry in response["ignored"]]) == (
            ["progress 1", "finish 2"],
            [1],
        )
        assert job(restarted, 2)["state"] == "finished"


def test_a_21_many_jobs_are_known_after_server_restart(tmp_path: Path) -> None:
    numbers = range(1, 251)
    with run_server(tmp_path) as server:
        member = server.organization()
        publish(member, *map(create, numbers))
    with run_server(tmp_path) as server:
        restarted = server.member(member.organization)
        response = publish(restarted, *map(finish, [*numbers, 404]))
        assert describe(response["events"]) == [f"finish {number}" for number in numbers]
        assert response["ignored"] == [{"place": 250, "reason": NO_JOB.format(404)}]


def test_second_create_does_not_change_the_job(member: Member) -> None:
    publish(member, create(1, params={"a": "b"}), progress(1))
    publish(member, create(1, params={"c": "d"}, node="n9"))
    state = job(member, 1)
    assert (state["params"], state["node"], state["state"]) == ({"a": "b"}, "n1", "run")


def test_create_after_end_begins_a_new_run(member: Member) -> None:
    first = [
        create(1, 7, params={"a": "b"}, props=PROPS),
        progress(1, 7, state="run", progress="9/9", log=LOG, data=DATA),
        job_event("redirect", 1, 7, redirect="n2"),
        finish(1, 7, success="0", data=DATA),
    ]
    second = [create(1, type="restore", node="n3", params={"c": "d"}), progress(1, type="restore", log=LOG)]
    states = []
    for native in (*first, *second, finish(1, type="restore"), create(1)):
        (event,) = publish(member, native)["events"]
        states.append((event, job(member, 1)))
    created, progressed, ended, _ = (event for event, _ in states[4:])
    at = times(created, progressed, ended)
    seconds = (ended["eventId"] - created["eventId"]) / 1_000_000
    assert states[6][1] == {
        "id": 1,
        "run": 2,
        "type": "restore",
        "node": "n3",
        "params": {"c": "d"},
        "props": {},
        "state": "finished",
        "createdAt": at[0],
        "updatedAt": at[2],
        "redirects": [],
        "logCount": 1,
        "logs": [LOG],
        "result": {"success": "1", "message": "job 1 ended"},
        "finishedAt": at[2],
        "seconds": seconds,
        "durationS": seconds,
        "outcome": "success",
    }
    for event, state in states:
        past = member.get("/objects/job/1", params={"at": event["eventId"]}).json()
        assert past == {"eventId": event["eventId"], **state}
    (summary,) = member.get("/objects/job", params={"brief": "yes"}).json()["elements"]
    assert (summary["state"], summary["result"], summary["parent"], summary["createdAt"]) == (
        "created", None, None, states[7][1]["createdAt"],
    )  # fmt: skip


def test_redirects_are_listed_in_order_and_last_sets_node(member: Member) -> None:
    publish(member, create(1), *(job_event("redirect", 1, redirect=f"n{n}") for n in (2, 3, 1)))
    state = job(member, 1)
    steps = [(redirect["from"], redirect["to"]) for redirect in state["redirects"]]
    assert (state["node"], steps) == ("n1", [("n1", "n2"), ("n2", "n3"), ("n3", "n1")])


@pytest.mark.parametrize("success", ["0", "1"], ids=lambda success: f"A-28 {success}")
def test_success_is_returned_as_text(success: str, member: Member) -> None:
    publish(member, create(1), finish(1, success=success))
    state = job(member, 1)
    assert (state["state"], state["result"]) == ("finished", {"success": success, "message": "job 1 ended"})


def test_jobs_with_common_id_prefix_are_distinct(member: Member) -> None:
    publish(member, *(create(number, params={"n": str(number)}) for number in (0, 1, 11, 117, 2**53 - 1)))
    assert [job(member, number)["params"]["n"] for number in (1, 11, 117, 2**53 - 1, 0)] == [
        "1", "11", "117", str(2**53 - 1), "0",
    ]  # fmt: skip
