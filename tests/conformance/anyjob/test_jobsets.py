"""Sets of jobs: the finish that completes one brings the set's own with it, in the same commit, and only once."""

import pytest

from tests.conformance.anyjob.anyjob import (
    DATA,
    PARAMS,
    PROPS,
    Json,
    create,
    create_set,
    ended,
    finish,
    finish_set,
    jobset,
    of_job,
    planned,
    post,
    progress,
    publish,
    said,
    sessions,
    without,
)
from tests.serving import Member

MANY = 300


def finishes(member: Member) -> list[Json]:
    """The finishes of sets in the log."""
    found: list[Json] = (
        member.get("/events", params={"types": "jobset/finishJobSet/*"}).json().get("eventSnapshots", [])
    )
    return found


def test_a_23_a_set_with_an_unfinished_job_goes_on(member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7))
    publish(member, finish(1, 7, success="0"))
    found = jobset(member, 7)
    assert (found["state"], found["total"], found["finished"], finishes(member)) == ("created", 2, 1, [])
    assert found["jobs"] == [ended(1, success="0"), {**planned(), "id": 2, "state": "created"}]
    assert "finishedAt" not in found


def test_a_23_the_last_finish_brings_the_finish_of_the_set_in_its_commit(member: Member) -> None:
    jobs = [planned("backup", "n1", disk="sda"), planned("restore", "n2")]
    publish(member, create_set(7, jobs, node="global", props=PROPS))
    publish(member, create(1, 7, params={"disk": "sda"}, props=PROPS), create(2, 7, type="restore", node="n2"))
    publish(member, progress(1, 7, progress="9/9"), finish(2, 7, type="restore", node="n2", success="0"))
    last = publish(member, finish(1, 7, params={"disk": "sda"}, data=DATA))
    assert sessions(member)[-1] == said(last["events"]) == ["finish 1", "finishJobSet 7"]
    event = last["events"][1]
    assert (event["type"], event["key"]) == (["jobset", "finishJobSet", "global"], "/jobset/7")
    assert event["payload"]["data"] == {
        "props": PROPS,
        "jobs": [
            ended(1, params={"disk": "sda"}, props=PROPS, progress="9/9"),
            ended(2, type="restore", node="n2", success="0"),
        ],
    }
    found = jobset(member, 7)
    assert (found["state"], found["finished"], found["jobs"]) == ("finished", 2, event["payload"]["data"]["jobs"])


def test_a_set_tells_all_that_happened_to_it(member: Member) -> None:
    created = publish(member, create_set(7, [planned(disk="sda"), planned("other")], props=PROPS))["events"][0]
    publish(member, create(1, 7, params={"disk": "sda"}), of_job("redirect", 1, 7, redirect="n2"))
    own = {"event": "progressJobSet", "node": "n1", "id": 7, "state": "half", "progress": "1/2", "data": DATA}
    last = publish(member, progress(1, 7, state="run", progress="5%"), own)["events"][1]
    assert jobset(member, 7) == {
        "id": 7,
        "node": "n1",
        "props": PROPS,
        "state": "half",
        "progress": "1/2",
        "data": DATA,
        "createdAt": created["timestamp"],
        "updatedAt": f"{last['timestamp'][:-7]}{last['eventId'] % 1_000_000:06d}Z",
        "total": 2,
        "finished": 0,
        "jobs": [
            {**planned(node="n2", disk="sda"), "id": 1, "state": "run", "progress": "5%"},
            {**planned("other"), "state": "planned"},
        ],
    }


def test_a_batch_may_create_and_finish_a_whole_set(member: Member) -> None:
    found = publish(member, create_set(7, 2), create(1, 7), create(2, 7), finish(2, 7), finish(1, 7))
    assert said(found["events"])[-3:] == ["finish 2", "finish 1", "finishJobSet 7"]
    assert found["events"][-1]["payload"]["data"]["jobs"] == [ended(1), ended(2)]


def test_two_sets_may_be_finished_by_one_request(member: Member) -> None:
    publish(member, create_set(7, 2), create_set(8, 1), create_set(9, 2))
    publish(member, *(create(number, jobset) for number, jobset in ((1, 7), (2, 7), (3, 8), (4, 9), (5, 9))))
    found = publish(member, finish(4, 9), finish(3, 8), finish(2, 7), finish(1, 7))
    assert said(found["events"])[4:] == ["finishJobSet 7", "finishJobSet 8"]
    assert [[one["id"] for one in event["payload"]["data"]["jobs"]] for event in found["events"][4:]] == [[1, 2], [3]]
    assert [jobset(member, number)["state"] for number in (7, 8, 9)] == ["finished", "finished", "created"]


def test_a_set_of_many_jobs_finishes_with_all_of_them(member: Member) -> None:
    jobs = [planned(disk=f"disk {number}" * 10) for number in range(MANY)]
    publish(member, create_set(7, jobs, props=PROPS))
    publish(member, *(create(number, 7, params=jobs[number]["params"]) for number in range(MANY)))
    for first in range(0, MANY, 100):
        assert (jobset(member, 7)["finished"], finishes(member)) == (first, [])
        found = publish(member, *(finish(number, 7) for number in range(first, first + 100)))
    whole = [ended(number, params=jobs[number]["params"]) for number in range(MANY)]
    assert said(found["events"])[-2:] == ["finish 299", "finishJobSet 7"]
    assert found["events"][-1]["payload"]["data"] == {"props": PROPS, "jobs": whole}
    assert (jobset(member, 7)["jobs"], jobset(member, 7)["finished"]) == (whole, MANY)


def test_a_request_of_as_many_events_as_allowed_may_finish_a_set(member: Member) -> None:
    publish(member, create_set(7, 1000))
    publish(member, *(create(number, 7) for number in range(1000)))
    answer = post(member, {"events": [finish(number, 7) for number in range(1000)]})
    assert (answer.status_code, len(answer.json()["events"])) == (201, 1001)
    assert jobset(member, 7)["state"] == "finished"


def test_no_finish_of_a_job_is_refused_because_its_set_has_become_large(member: Member) -> None:
    """What the set's own finish would have to list is larger than a request may be."""
    jobs = [planned(text=f"{number:02d}" * 3_000) for number in range(50)]
    publish(member, create_set(7, jobs))
    for number in range(50):
        publish(member, create(number, 7, params=jobs[number]["params"]))
    message = "because " * 125
    for number in range(50):
        answer = post(member, finish(number, 7, params=jobs[number]["params"]) | {"message": message})
        assert answer.status_code == 201, answer.text
    found = jobset(member, 7)
    assert ([job["params"] for job in found["jobs"]], found["finished"]) == ([job["params"] for job in jobs], 50)


def test_a_finish_sent_twice_counts_once(member: Member) -> None:
    publish(member, create_set(7, 3), *(create(number, 7) for number in (1, 2, 3)))
    publish(member, finish(1, 7), finish(1, 7))
    publish(member, finish(1, 7, success="0"))
    assert (jobset(member, 7)["finished"], finishes(member)) == (1, [])
    publish(member, finish(2, 7))
    assert said(publish(member, finish(3, 7))["events"]) == ["finish 3", "finishJobSet 7"]


@pytest.mark.parametrize("own", [finish(2, 7), finish(1, 7, success="0"), finish(9, 7)], ids=lambda own: str(own["id"]))
def test_a_finished_set_is_not_finished_again(own: Json, member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7), create(9, 7), finish(1, 7), finish(2, 7))
    assert len(finishes(member)) == 1
    assert said(publish(member, own)["events"]) == [f"finish {own['id']}"]
    assert (len(finishes(member)), jobset(member, 7)["state"]) == (1, "finished")


def test_what_the_publisher_says_before_the_last_finish_holds(member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7), finish(1, 7))
    early = publish(member, finish_set(7, 1))["events"]
    assert said(publish(member, finish(2, 7))["events"]) == ["finish 2"]
    assert finishes(member) == early


def test_what_the_publisher_says_with_the_last_finish_holds(member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7), finish(1, 7))
    own = finish_set(7, 1, 2, props={"by": "publisher"})
    found = publish(member, own, finish(2, 7))
    assert (said(found["events"]), "ignored" in found) == (["finishJobSet 7", "finish 2"], False)
    assert [event["payload"]["data"] for event in finishes(member)] == [without(own, "event", "node", "id")]


def test_what_the_publisher_says_after_the_last_finish_is_ignored(member: Member) -> None:
    last = publish(member, create_set(7, 1), create(1, 7), finish(1, 7))["events"][-1]
    answer = post(member, finish_set(7, 1))
    assert (answer.status_code, answer.json()["events"]) == (200, [])
    assert answer.json()["ignored"] == [{"place": 0, "reason": "set 7 is over"}]
    assert finishes(member) == [last]


def test_what_is_ignored_is_named_by_its_place_in_the_request(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7), finish(1, 7), create_set(8, 1), create(2, 8))
    found = publish(member, progress(404), create(5), finish_set(7, 1), finish_set(8, 2), finish(405), finish_set(8, 2))
    assert said(found["events"]) == ["create 5", "finishJobSet 8"]
    assert sorted(one["place"] for one in found["ignored"]) == [0, 2, 4, 5]


def test_sets_with_ids_that_begin_alike_are_told_apart(member: Member) -> None:
    publish(member, *(create_set(number, 1) for number in (7, 70, 77)), create(1, 7), create(2, 70), create(3, 77))
    assert said(publish(member, finish(1, 7))["events"]) == ["finish 1", "finishJobSet 7"]
    assert [jobset(member, number)["state"] for number in (7, 70, 77)] == ["finished", "created", "created"]


def test_a_job_that_the_set_did_not_plan_does_not_keep_it_from_finishing(member: Member) -> None:
    publish(member, create_set(7, [planned("a"), planned("b")]), create(1, 7, type="a"), create(2, 7, type="c"))
    found = publish(member, finish(1, 7, type="a"), finish(2, 7, type="c"))
    assert said(found["events"])[2:] == ["finishJobSet 7"]
    assert [one["id"] for one in found["events"][2]["payload"]["data"]["jobs"]] == [1, 2]


@pytest.mark.parametrize(
    "stranger",
    [
        of_job("redirect", 9, 7, redirect="n2"),
        of_job("clean", 9, 7),
        create(9, 7, type="other"),
        of_job("redirect", 9, 7, redirect="n2", type="other"),
    ],
    ids=lambda own: f"{own['event']} {own.get('type', '')}",
)
def test_a_stranger_in_a_set_does_not_keep_its_jobs_from_finishing(stranger: Json, member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7), stranger)
    publish(member, finish(1, 7))
    found = publish(member, finish(2, 7))
    assert said(found["events"]) == ["finish 2", "finishJobSet 7"]
    assert found["events"][1]["payload"]["data"]["jobs"] == [ended(1), ended(2)]


def test_jobs_may_be_created_before_their_set(member: Member) -> None:
    publish(member, create(1, 7, params=PARAMS), create(2, 7), finish(1, 7))
    publish(member, create_set(7, [planned(), {**planned(), "params": PARAMS}]))
    found = publish(member, finish(2, 7))
    assert said(found["events"]) == ["finish 2", "finishJobSet 7"]
    assert found["events"][1]["payload"]["data"]["jobs"] == [ended(2), ended(1, params=PARAMS)]


def test_many_jobs_may_be_created_and_finished_before_their_set(member: Member) -> None:
    publish(member, *(create(number, 7) for number in range(100)), *(finish(number, 7) for number in range(60)))
    publish(member, create_set(7, 100))
    assert jobset(member, 7)["finished"] == 60
    found = publish(member, *(finish(number, 7) for number in range(60, 100)))
    assert said(found["events"])[40:] == ["finishJobSet 7"]
    assert [one["id"] for one in found["events"][40]["payload"]["data"]["jobs"]] == [*range(100)]


def test_a_set_without_jobs_and_one_that_was_never_created_stay_open(member: Member) -> None:
    publish(member, create_set(7, 0), create(1, 7), create(2, 8))
    assert said(publish(member, finish(1, 7), finish(2, 8))["events"]) == ["finish 1", "finish 2"]


def test_a_cleaned_set_is_not_finished(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7), {**finish_set(7, 1), "event": "cleanJobSet"})
    assert said(publish(member, finish(1, 7))["events"]) == ["finish 1"]
    assert jobset(member, 7)["state"] == "cleaned"
