"""A job as its events make it: state, progress, logs, result, times; and jobs that nobody has created."""

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
    finish,
    job,
    of_job,
    post,
    progress,
    publish,
    said,
    sessions,
)
from tests.serving import Member, serving

NO_JOB = "there is no job {}"


def times(*events: Json) -> list[str]:
    """When each event happened, to the microsecond, as jobs tell it."""
    return [f"{event['timestamp'][:-7]}{event['eventId'] % 1_000_000:06d}Z" for event in events]


def test_a_job_tells_all_that_happened_to_it(member: Member) -> None:
    own = [EVENTS[name] for name in ("create", "progress", "redirect", "finish")]
    created, went_on, redirected, ended = (publish(member, one)["events"][0] for one in own)
    at = times(created, went_on, redirected, ended)
    assert job(member, 117) == {
        "id": 117,
        "type": "backup",
        "node": "n2",
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
        "seconds": (ended["eventId"] - created["eventId"]) / 1_000_000,
    }


@pytest.mark.parametrize(
    ("given", "found"),
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
def test_progress_changes_what_it_tells_and_no_more(given: Json, found: Json, member: Member) -> None:
    publish(member, create(1))
    before = job(member, 1)
    event = publish(member, progress(1, **given))["events"][0]
    assert event["payload"]["data"] == {"params": {}, "props": {}, **given}
    assert job(member, 1) == {**before, **found, "updatedAt": times(event)[0]}


@pytest.mark.parametrize("own", [progress(404), finish(404)], ids=lambda own: f"A-21 {own['event']}")
def test_what_is_told_of_an_unknown_job_is_ignored_and_said_to_be(own: Json, member: Member) -> None:
    (before,) = publish(member, create(1))["events"]
    answer = post(member, own)
    assert (answer.status_code, answer.json()) == (
        200,
        {"events": [], "eventId": before["eventId"], "ignored": [{"place": 0, "reason": NO_JOB.format(404)}]},
    )
    assert (member.stored()["events"], member.get("/jobs/404").status_code) == ([before], 404)


def test_a_21_of_a_batch_only_what_is_told_of_unknown_jobs_is_ignored(member: Member) -> None:
    publish(member, create(1))
    found = publish(
        member, progress(404), progress(1), finish(405), create(2), progress(2), progress(3), create(3), finish(3)
    )
    assert said(found["events"]) == ["progress 1", "create 2", "progress 2", "create 3", "finish 3"]
    assert found["ignored"] == [{"place": n, "reason": NO_JOB.format(id_)} for n, id_ in ((0, 404), (2, 405), (5, 3))]
    assert sessions(member) == [["create 1"], said(found["events"])]


@pytest.mark.parametrize("name", ["redirect", "clean"], ids=lambda name: f"A-21 {name}")
def test_an_event_without_a_create_makes_no_job(name: str, member: Member) -> None:
    post(member, of_job(name, 404, **({"redirect": "n2"} if name == "redirect" else {})))
    assert member.get("/jobs/404").status_code == 404
    assert post(member, progress(404)).json()["ignored"] == [{"place": 0, "reason": NO_JOB.format(404)}]


def test_a_21_a_job_of_another_organization_is_unknown(member: Member) -> None:
    publish(member, create(1))
    stranger = member.server.organization()
    assert post(stranger, progress(1)).json()["ignored"] == [{"place": 0, "reason": NO_JOB.format(1)}]


def test_a_21_a_job_is_known_again_after_the_server_was_started_anew(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        member = server.organization()
        publish(member, create(1), create(2))
    with serving(tmp_path) as server:
        again = server.member(member.organization)
        found = publish(again, progress(1), progress(404), finish(2))
        assert (said(found["events"]), [one["place"] for one in found["ignored"]]) == (["progress 1", "finish 2"], [1])
        assert job(again, 2)["state"] == "finished"


def test_a_21_more_jobs_than_one_query_can_name_are_known_again(tmp_path: Path) -> None:
    numbers = range(1, 251)
    with serving(tmp_path) as server:
        member = server.organization()
        publish(member, *map(create, numbers))
    with serving(tmp_path) as server:
        again = server.member(member.organization)
        found = publish(again, *map(finish, [*numbers, 404]))
        assert said(found["events"]) == [f"finish {number}" for number in numbers]
        assert found["ignored"] == [{"place": 250, "reason": NO_JOB.format(404)}]


def test_a_job_is_created_once_and_keeps_what_it_was_created_with(member: Member) -> None:
    publish(member, create(1, params={"a": "b"}), progress(1))
    publish(member, create(1, params={"c": "d"}, node="n9"))
    found = job(member, 1)
    assert (found["params"], found["node"], found["state"]) == ({"a": "b"}, "n1", "run")


def test_redirects_are_told_in_order_and_the_last_says_where_the_job_is(member: Member) -> None:
    publish(member, create(1), *(of_job("redirect", 1, redirect=f"n{n}") for n in (2, 3, 1)))
    found = job(member, 1)
    steps = [(one["from"], one["to"]) for one in found["redirects"]]
    assert (found["node"], steps) == ("n1", [("n1", "n2"), ("n2", "n3"), ("n3", "n1")])


@pytest.mark.parametrize("success", ["0", "1"], ids=lambda success: f"A-28 {success}")
def test_success_is_told_as_the_text_that_it_is(success: str, member: Member) -> None:
    publish(member, create(1), finish(1, success=success))
    found = job(member, 1)
    assert (found["state"], found["result"]) == ("finished", {"success": success, "message": "job 1 ended"})


def test_jobs_with_ids_that_begin_alike_are_told_apart(member: Member) -> None:
    publish(member, *(create(number, params={"n": str(number)}) for number in (0, 1, 11, 117, 2**53 - 1)))
    assert [job(member, number)["params"]["n"] for number in (1, 11, 117, 2**53 - 1, 0)] == [
        "1", "11", "117", str(2**53 - 1), "0",
    ]  # fmt: skip
