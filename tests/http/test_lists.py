"""GET /objects/{collection}?brief=yes: lists; and ?at=: one object as it was."""

from typing import Any

import pytest

from chalicelib.domain import vocabularies
from tests.conformance.anyjob.anyjob import Json, create, create_set, finish, progress, publish
from tests.serving import Member, new_name


def listed(member: Member, collection: str = "job", **query: Any) -> dict[str, Any]:
    answer = member.get(f"/objects/{collection}", params={"brief": "yes", **query})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def paths(found: dict[str, Any]) -> list[str]:
    return [one["path"] for one in found["elements"]]


def published(member: Member, own: Json) -> int:
    """The EventId of an event of a job, once it is in the log."""
    return int(publish(member, own)["events"][0]["eventId"])


def test_a_list_shows_objects_in_brief_the_latest_change_first(member: Member) -> None:
    publish(member, create(1), create(2, node="n2"), create(3))
    publish(member, finish(1, success="0"))
    publish(member, progress(3, state="copy", progress="1/4"))
    found = listed(member)
    assert (paths(found), found["counts"]) == (["/3", "/1", "/2"], {"copy": 1, "created": 1, "finished": 1})
    (last,) = member.get("/events", params={"limit": -1}).json()["eventSnapshots"]
    assert (found["eventId"], found["moreFollows"]) == (last["eventId"], False)
    created = found["elements"][0].pop("createdAt")
    assert created < last["timestamp"]
    assert found["elements"][0] == {
        "path": "/3",
        "key": "/job/3",
        "state": "copy",
        "result": None,
        "label": "backup on n1",
        "updatedAt": last["timestamp"],
        "progress": 0.25,
        "parent": None,
    }


def test_search_narrows_what_is_counted_and_state_does_not(member: Member) -> None:
    publish(member, *(create(n, node=f"n{n % 2}") for n in range(1, 11)))
    publish(member, finish(1), finish(2), finish(3))
    assert listed(member, search="ON N1")["counts"] == {"created": 3, "finished": 2}
    some = listed(member, search="on n1", state="finished")
    assert (paths(some), some["counts"]) == (["/3", "/1"], {"created": 3, "finished": 2})
    assert listed(member, search="nothing")["elements"] == []


def test_a_list_is_cut_at_its_limit_and_says_so(member: Member) -> None:
    publish(member, *(create(n) for n in range(1, 6)))
    cut = listed(member, limit=2)
    assert (paths(cut), cut["moreFollows"], cut["counts"]) == (["/5", "/4"], True, {"created": 5})
    assert listed(member, limit=5)["moreFollows"] is False


def test_every_path_of_a_list_leads_to_its_object_and_every_key_to_its_events(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7))
    start = {"event": "start", "job": "j", "command": "ls", "run_timeout": 9, "node_count": 1, "user": "anna"}
    member.ask("POST", "/events/push", json=start)
    scheduled = [
        {"TYPE": "OrderAdded", "key": "/a/chain,1", "nodeId": "A"},
        {"TYPE": "TaskStarted", "key": {"jobPath": "/a/job", "taskId": "9"}},
        {"TYPE": "JobChainStateChanged", "key": "/a/chain", "state": "active"},
        {"TYPE": "JobStateChanged", "key": "/a/job", "state": "running"},
        {"TYPE": "FileBasedActivated", "key": "Job:/a/job"},
        {"TYPE": "SchedulerInitiated"},
    ]
    member.ask("POST", "/events/scheduler", json={"events": scheduled})
    for collection in vocabularies.collections():
        (one,) = listed(member, collection)["elements"]
        assert member.get(f"/objects/{collection}{one['path']}").status_code == 200, one
        if collection != "scheduler":
            assert member.get("/events", params={"keys": one["key"]}).json()["TYPE"] == "NonEmpty"


def test_without_brief_everything_is_whole(member: Member) -> None:
    publish(member, create(1))
    assert member.get("/objects/job", params={"brief": "no"}).json() == member.get("/objects/job").json()
    assert "logs" in member.get("/objects/job").json()["elements"][0]


def test_an_object_is_shown_as_it_was_after_each_of_its_events(member: Member) -> None:
    publish(member, create_set(7, 1))
    first = published(member, create(1, 7))
    second = published(member, progress(1, 7, state="copy"))
    publish(member, create(2))
    third = published(member, finish(1, 7))
    states = {}
    for at in (first, first + 1, second, third, 2**53 - 1):
        found = member.get("/objects/job/1", params={"at": at}).json()
        states[at] = (found["eventId"], found["state"])
    assert states == {
        first: (first, "created"),
        first + 1: (first, "created"),
        second: (second, "copy"),
        third: (third, "finished"),
        2**53 - 1: (third, "finished"),
    }
    assert member.get("/objects/job/1", params={"at": third}).json() == {
        **member.get("/objects/job/1").json(),
        "eventId": third,
    }


@pytest.mark.parametrize("at", [0, 1])
def test_what_was_not_there_yet_is_not_found(member: Member, at: int) -> None:
    publish(member, create(1))
    answer = member.get("/objects/job/1", params={"at": at})
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        f"there was nothing at /1 when {at} had been written",
    )


def test_a_job_of_jobscheduler_has_a_past_among_the_jobs_too(member: Member) -> None:
    event = {"TYPE": "JobStateChanged", "key": "/a/job", "state": "running"}
    member.ask("POST", "/events/scheduler", json=event)
    found = member.get("/objects/job/a/job", params={"at": 2**53 - 1}).json()
    assert (found["path"], found["state"]) == ("/a/job", "running")


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("job?limit=5", "limit is for lists: ask with brief=yes"),
        ("job?search=a", "search is for lists: ask with brief=yes"),
        ("job?brief=no&state=a", "state is for lists: ask with brief=yes"),
        ("job/1?brief=yes&at=5", "at is for one object, brief for lists: give one of them"),
        ("job?at=5", "at is for one object: name it in the path"),
        ("order/a/?at=5", "at is for one object: name it in the path"),
        ("job?brief=true", "brief: Input should be 'yes' or 'no'"),
        ("job?brief=yes&limit=0", "limit: Input should be greater than or equal to 1"),
        ("job?brief=yes&limit=5001", "limit: Input should be less than or equal to 5000"),
        ("job?brief=yes&brief=yes", "parameter 'brief' may be given once, not 2 times"),
        ("job?brief=yes&more=1", "more: unknown field"),
        ("job/1?at=-1", "at: Input should be greater than or equal to 0"),
        (f"job/1?at={2**53}", f"at: Input should be less than {2**53}"),
    ],
)
def test_what_has_no_meaning_is_refused(member: Member, path: str, detail: str) -> None:
    answer = member.get(f"/objects/{path}")
    assert (answer.status_code, answer.json()["detail"]) == (400, detail)


@pytest.mark.parametrize("query", ["brief=yes", "at=5"])
def test_lists_and_the_past_are_for_readers_of_the_organization(member: Member, query: str) -> None:
    publish(member, create(1))
    path = f"/objects/job/1?{query}"
    assert member.server.client.get(path).status_code == 401
    assert member.server.member(member.organization, groups=["publishers"]).get(path).status_code == 403
    assert member.get(path, headers={"X-Organization": "local"}).status_code == 403
    assert member.server.member(new_name()).get(path).status_code == 404
    other = member.server.organization()
    assert other.get("/objects/job?brief=yes").json()["elements"] == []
