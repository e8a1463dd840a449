"""Job sets: the last finish of a job adds the set's finish to the same commit, exactly once."""

import pytest

from tests.conformance.anyjob.anyjob import (
    DATA,
    PARAMS,
    PROPS,
    Json,
    create,
    create_set,
    describe,
    describe_sessions,
    finish,
    finish_set,
    finished_job,
    job_event,
    jobset,
    planned_job,
    post,
    progress,
    publish,
    publish_commit,
    without,
)
from tests.serving import Member

MANY = 300


def finish_events(member: Member) -> list[Json]:
    """The `finishJobSet` events in the log."""
    events: list[Json] = (
        member.get("/events", params={"types": "jobset/finishJobSet/*"}).json().get("eventSnapshots", [])
    )
    return events


def test_a_23_set_with_unfinished_job_stays_open(member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7))
    publish(member, finish(1, 7, success="0"))
    state = jobset(member, 7)
    assert (state["state"], state["total"], state["finished"], finish_events(member)) == ("created", 2, 1, [])
    assert state["jobs"] == [finished_job(1, success="0"), {**planned_job(), "id": 2, "state": "created"}]
    assert "finishedAt" not in state


def test_a_23_last_finish_adds_set_finish_to_its_commit(member: Member) -> None:
    jobs = [planned_job("backup", "n1", disk="sda"), planned_job("restore", "n2")]
    publish(member, create_set(7, jobs, node="global", props=PROPS))
    publish(member, create(1, 7, params={"disk": "sda"}, props=PROPS), create(2, 7, type="restore", node="n2"))
    publish(member, progress(1, 7, progress="9/9"), finish(2, 7, type="restore", node="n2", success="0"))
    last = publish_commit(member, finish(1, 7, params={"disk": "sda"}, data=DATA))
    assert describe_sessions(member)[-1] == describe(last) == ["finish 1", "finishJobSet 7"]
    event = last[1]
    assert (event["type"], event["key"]) == (["jobset", "finishJobSet", "global"], "/jobset/7")
    assert event["payload"]["data"] == {
        "props": PROPS,
        "jobs": [
            finished_job(1, params={"disk": "sda"}, props=PROPS, progress="9/9"),
            finished_job(2, type="restore", node="n2", success="0"),
        ],
    }
    state = jobset(member, 7)
    assert (state["state"], state["finished"], state["jobs"]) == ("finished", 2, event["payload"]["data"]["jobs"])


def test_set_has_all_fields_of_its_events(member: Member) -> None:
    created = publish(member, create_set(7, [planned_job(disk="sda"), planned_job("other")], props=PROPS))["events"][0]
    publish(member, create(1, 7, params={"disk": "sda"}), job_event("redirect", 1, 7, redirect="n2"))
    native = {"event": "progressJobSet", "node": "n1", "id": 7, "state": "half", "progress": "1/2", "data": DATA}
    last = publish(member, progress(1, 7, state="run", progress="5%"), native)["events"][1]
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
            {**planned_job(node="n2", disk="sda"), "id": 1, "state": "run", "progress": "5%"},
            {**planned_job("other"), "state": "planned"},
        ],
    }


def test_batch_can_create_and_finish_a_set(member: Member) -> None:
    commit = publish_commit(member, create_set(7, 2), create(1, 7), create(2, 7), finish(2, 7), finish(1, 7))
    assert describe(commit)[-3:] == ["finish 2", "finish 1", "finishJobSet 7"]
    assert commit[-1]["payload"]["data"]["jobs"] == [finished_job(1), finished_job(2)]


def test_request_can_finish_two_sets(member: Member) -> None:
    publish(member, create_set(7, 2), create_set(8, 1), create_set(9, 2))
    publish(member, *(create(number, jobset) for number, jobset in ((1, 7), (2, 7), (3, 8), (4, 9), (5, 9))))
    commit = publish_commit(member, finish(4, 9), finish(3, 8), finish(2, 7), finish(1, 7))
    assert describe(commit)[4:] == ["finishJobSet 7", "finishJobSet 8"]
    assert [[job["id"] for job in event["payload"]["data"]["jobs"]] for event in commit[4:]] == [[1, 2], [3]]
    assert [jobset(member, number)["state"] for number in (7, 8, 9)] == ["finished", "finished", "created"]


def test_large_set_finish_lists_all_jobs(member: Member) -> None:
    jobs = [planned_job(disk=f"disk {number}" * 10) for number in range(MANY)]
    publish(member, create_set(7, jobs, props=PROPS))
    publish(member, *(create(number, 7, params=jobs[number]["params"]) for number in range(MANY)))
    for first in range(0, MANY, 100):
        assert (jobset(member, 7)["finished"], finish_events(member)) == (first, [])
        commit = publish_commit(member, *(finish(number, 7) for number in range(first, first + 100)))
    expected = [finished_job(number, params=jobs[number]["params"]) for number in range(MANY)]
    assert describe(commit)[-2:] == ["finish 299", "finishJobSet 7"]
    assert commit[-1]["payload"]["data"] == {"props": PROPS, "jobs": expected}
    assert (jobset(member, 7)["jobs"], jobset(member, 7)["finished"]) == (expected, MANY)


def test_request_with_max_events_can_finish_a_set(member: Member) -> None:
    publish(member, create_set(7, 1000))
    publish(member, *(create(number, 7) for number in range(1000)))
    answer = post(member, {"events": [finish(number, 7) for number in range(1000)]})
    assert (answer.status_code, len(answer.json()["events"])) == (201, 1000)
    assert jobset(member, 7)["state"] == "finished"


def test_finish_is_accepted_when_set_exceeds_request_limit(member: Member) -> None:
    """The list of jobs in the set's finish would be larger than a request may be."""
    jobs = [planned_job(text=f"{number:02d}" * 3_000) for number in range(50)]
    publish(member, create_set(7, jobs))
    for number in range(50):
        publish(member, create(number, 7, params=jobs[number]["params"]))
    message = "because " * 125
    for number in range(50):
        answer = post(member, finish(number, 7, params=jobs[number]["params"]) | {"message": message})
        assert answer.status_code == 201, answer.text
    state = jobset(member, 7)
    assert ([job["params"] for job in state["jobs"]], state["finished"]) == ([job["params"] for job in jobs], 50)


def test_finish_sent_twice_counts_once(member: Member) -> None:
    publish(member, create_set(7, 3), *(create(number, 7) for number in (1, 2, 3)))
    publish(member, finish(1, 7), finish(1, 7))
    publish(member, finish(1, 7, success="0"))
    assert (jobset(member, 7)["finished"], finish_events(member)) == (1, [])
    publish(member, finish(2, 7))
    assert describe(publish_commit(member, finish(3, 7))) == ["finish 3", "finishJobSet 7"]


@pytest.mark.parametrize(
    "native", [finish(2, 7), finish(1, 7, success="0"), finish(9, 7)], ids=lambda native: str(native["id"])
)
def test_finished_set_is_not_finished_again(native: Json, member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7), create(9, 7), finish(1, 7), finish(2, 7))
    assert len(finish_events(member)) == 1
    assert describe(publish_commit(member, native)) == [f"finish {native['id']}"]
    assert (len(finish_events(member)), jobset(member, 7)["state"]) == (1, "finished")


def test_set_finish_before_last_job_is_kept(member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7), finish(1, 7))
    early = publish(member, finish_set(7, 1))["events"]
    assert describe(publish_commit(member, finish(2, 7))) == ["finish 2"]
    assert finish_events(member) == early


def test_set_finish_together_with_last_job_is_kept(member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7), finish(1, 7))
    native = finish_set(7, 1, 2, props={"by": "publisher"})
    response = publish(member, native, finish(2, 7))
    assert (describe(response["events"]), "ignored" in response) == (["finishJobSet 7", "finish 2"], False)
    assert [event["payload"]["data"] for event in finish_events(member)] == [without(native, "event", "node", "id")]


def test_set_finish_after_last_job_is_ignored(member: Member) -> None:
    last = publish_commit(member, create_set(7, 1), create(1, 7), finish(1, 7))[-1]
    answer = post(member, finish_set(7, 1))
    assert (answer.status_code, answer.json()["events"]) == (200, [])
    assert answer.json()["ignored"] == [{"place": 0, "reason": "job set 7 has already ended"}]
    assert finish_events(member) == [last]


def test_ignored_events_are_named_by_index_in_request(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7), finish(1, 7), create_set(8, 1), create(2, 8))
    response = publish(
        member, progress(404), create(5), finish_set(7, 1), finish_set(8, 2), finish(405), finish_set(8, 2)
    )
    assert describe(response["events"]) == ["create 5", "finishJobSet 8"]
    assert sorted(entry["place"] for entry in response["ignored"]) == [0, 2, 4, 5]


@pytest.mark.parametrize("prefer", ["return=representation", "return=minimal"])
def test_added_set_finish_is_not_in_response(prefer: str, member: Member) -> None:
    """The response has the publisher's events in their order. Replays are equal, with all indexes."""
    publish(member, create_set(7, 1), create_set(8, 1), create(1, 7), create(2, 8))
    body = {"events": [progress(404), finish(1, 7), finish_set(9), finish_set(9), finish(2, 8), finish(405), create(3)]}
    headers = {"Idempotency-Key": "k", "Prefer": prefer}
    first = post(member, body, **headers)
    assert first.status_code == 201, first.text
    commit = member.get("/events", params={"limit": -6}).json()["eventSnapshots"][::-1]
    own = ["finish 1", "finishJobSet 9", "finish 2", "create 3"]
    assert describe(commit) == [*own, "finishJobSet 7", "finishJobSet 8"]
    assert first.json()["events"] == ([] if "minimal" in prefer else commit[:4])
    assert first.json()["eventId"] == commit[3]["eventId"]
    assert [entry["place"] for entry in first.json()["ignored"]] == [0, 3, 5]
    publish(member, create(404), create(405), create_set(9, 1))
    again = post(member, body, **headers)
    assert (again.status_code, again.headers["idempotent-replayed"], again.json()) == (200, "true", first.json())
    after = member.get("/events", params={"after": first.json()["eventId"], "limit": 2}).json()["eventSnapshots"]
    assert describe(after) == ["finishJobSet 7", "finishJobSet 8"]


def test_sets_with_common_id_prefix_are_distinct(member: Member) -> None:
    publish(member, *(create_set(number, 1) for number in (7, 70, 77)), create(1, 7), create(2, 70), create(3, 77))
    assert describe(publish_commit(member, finish(1, 7))) == ["finish 1", "finishJobSet 7"]
    assert [jobset(member, number)["state"] for number in (7, 70, 77)] == ["finished", "created", "created"]


def test_unplanned_job_does_not_block_set_finish(member: Member) -> None:
    publish(member, create_set(7, [planned_job("a"), planned_job("b")]), create(1, 7, type="a"), create(2, 7, type="c"))
    commit = publish_commit(member, finish(1, 7, type="a"), finish(2, 7, type="c"))
    assert describe(commit)[2:] == ["finishJobSet 7"]
    assert [job["id"] for job in commit[2]["payload"]["data"]["jobs"]] == [1, 2]


@pytest.mark.parametrize(
    "unrelated",
    [
        job_event("redirect", 9, 7, redirect="n2"),
        job_event("clean", 9, 7),
        create(9, 7, type="other"),
        job_event("redirect", 9, 7, redirect="n2", type="other"),
    ],
    ids=lambda native: f"{native['event']} {native.get('type', '')}",
)
def test_unrelated_event_does_not_block_set_finish(unrelated: Json, member: Member) -> None:
    publish(member, create_set(7, 2), create(1, 7), create(2, 7), unrelated)
    publish(member, finish(1, 7))
    commit = publish_commit(member, finish(2, 7))
    assert describe(commit) == ["finish 2", "finishJobSet 7"]
    assert commit[1]["payload"]["data"]["jobs"] == [finished_job(1), finished_job(2)]


def test_jobs_created_before_their_set_are_merged(member: Member) -> None:
    publish(member, create(1, 7, params=PARAMS), create(2, 7), finish(1, 7))
    publish(member, create_set(7, [planned_job(), {**planned_job(), "params": PARAMS}]))
    commit = publish_commit(member, finish(2, 7))
    assert describe(commit) == ["finish 2", "finishJobSet 7"]
    assert commit[1]["payload"]["data"]["jobs"] == [finished_job(2), finished_job(1, params=PARAMS)]


def test_many_jobs_finished_before_their_set_are_counted(member: Member) -> None:
    publish(member, *(create(number, 7) for number in range(100)), *(finish(number, 7) for number in range(60)))
    publish(member, create_set(7, 100))
    assert jobset(member, 7)["finished"] == 60
    commit = publish_commit(member, *(finish(number, 7) for number in range(60, 100)))
    assert describe(commit)[40:] == ["finishJobSet 7"]
    assert [job["id"] for job in commit[40]["payload"]["data"]["jobs"]] == [*range(100)]


def test_set_without_planned_jobs_stays_open(member: Member) -> None:
    publish(member, create_set(7, 0), create(1, 7), create(2, 8))
    assert describe(publish_commit(member, finish(1, 7), finish(2, 8))) == ["finish 1", "finish 2"]


def test_set_created_again_after_end_begins_a_new_run(member: Member) -> None:
    publish(member, create_set(7, 1, props=PROPS), create(1, 7), finish(1, 7, success="0"))
    created = publish(member, create_set(7, 2, node="n2"))["events"][0]
    publish(member, create(1, 7), create(2, 7), finish(2, 7))
    state = jobset(member, 7)
    assert (state["node"], state["props"], state["total"], state["finished"]) == ("n2", {}, 2, 1)
    assert (state["state"], state["createdAt"], "finishedAt" in state) == ("created", created["timestamp"], False)
    publish(member, finish(1, 7))
    assert describe_sessions(member)[-1] == ["finish 1", "finishJobSet 7"]
    assert [job["success"] for job in finish_events(member)[-1]["payload"]["data"]["jobs"]] == ["1", "1"]


def test_cleaned_set_is_not_finished(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7), {**finish_set(7, 1), "event": "cleanJobSet"})
    assert describe(publish_commit(member, finish(1, 7))) == ["finish 1"]
    assert jobset(member, 7)["state"] == "cleaned"
