"""GET /jobs/{id} and /jobsets/{id}, and concurrent publishers of job events."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chalicelib.domain import timestamps
from tests.conformance.anyjob.anyjob import (
    LOG,
    PARAMS,
    Json,
    create,
    create_set,
    describe,
    describe_sessions,
    finish,
    finish_set,
    finished_job,
    job,
    job_event,
    jobset,
    planned_job,
    post,
    progress,
    publish,
    publish_commit,
)
from tests.http.conftest import build_views
from tests.serving import TIMEOUT_S, Member, Server

THREADS = 8
JOBS = 30
ROUNDS = 4
LARGE = "ä" * 50_000
"""100 KB."""


@pytest.fixture
def small_member(small: Server) -> Member:
    """A member of a new organization on the small server."""
    return small.organization()


def read_twice(member: Member, read: Callable[[Member, int], Json], number: int) -> Json:
    """Read a job or job set before and after the views are built. Both results must be equal."""
    before = read(member, number)
    build_views(member.server)
    assert read(member, number) == before
    return before


def test_job_has_position_to_follow_it_from(member: Member) -> None:
    publish(member, create(1))
    last = publish(member, progress(1), create(2))["eventId"]
    response = member.get("/jobs/1")
    assert (response.status_code, response.headers["content-type"], response.json()["eventId"]) == (
        200,
        "application/json",
        last,
    )
    after = publish(member, finish(1))["events"]
    assert member.get("/events", params={"keys": "/job/1", "after": last}).json()["eventSnapshots"] == after


@pytest.mark.parametrize("collection", ["job", "jobset"])
def test_object_is_found_by_number_collection_and_key(collection: str, member: Member) -> None:
    publish(member, create_set(1, 1), create(1, 1))
    paths = (f"/{collection}s/1", f"/objects/{collection}/1", f"/objects/{collection}/{collection}/1")
    result = [member.get(path).json() for path in paths]
    assert (result[0]["id"], result[1:]) == (1, [result[0]] * 2)


@pytest.mark.parametrize("collection", ["jobs", "jobsets"])
@pytest.mark.parametrize("name", ["2", "01", "1.0", "-1", "abc", "*", "1*", "%2F1", "1%2F", "9" * 400, "1|1", "%00"])
def test_unknown_object_is_not_found(collection: str, name: str, member: Member) -> None:
    publish(member, create_set(1, 1), create(1, 1))
    response = member.get(f"/{collection}/{name}")
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize("path", ["/jobs/1", "/jobsets/1"])
def test_jobs_are_only_for_readers_of_the_organization(path: str, member: Member) -> None:
    publish(member, create_set(1, 1), create(1, 1))
    server, organization = member.server, member.organization
    publisher = server.member(organization, groups=["publishers"])
    stranger = server.member(server.organization().organization)
    outsider = {"X-Organization": organization}
    assert server.client.get(path).status_code == 401
    assert (publisher.get(path).status_code, stranger.get(path).status_code) == (403, 404)
    assert stranger.get(path, headers=outsider).status_code == 403
    assert member.get(path, params={"return": "Event"}).status_code == 400


def test_job_events_are_only_for_publishers(member: Member) -> None:
    reader = member.server.member(member.organization, groups=["readers"])
    assert post(reader, create(1)).status_code == 403
    assert member.read_log()["events"] == []


def test_large_params_logs_and_results_are_complete(small_member: Member) -> None:
    fields = {"params": {"a": LARGE}, "props": {"b": LARGE}}
    publish(small_member, create(1, **fields))
    publish(small_member, progress(1, state=LARGE, data={"text": LARGE}))
    publish(small_member, progress(1, progress=LARGE, log={**LOG, "message": LARGE}))
    publish(small_member, finish(1, data={"text": LARGE}) | {"message": LARGE})
    result = read_twice(small_member, job, 1)
    assert {name: result[name] for name in ("params", "props", "state", "progress", "data")} == {
        **fields, "state": "finished", "progress": LARGE, "data": {"text": LARGE},
    }  # fmt: skip
    assert result["logs"] == [{**LOG, "message": LARGE}]
    assert result["result"] == {"success": "1", "message": LARGE, "data": {"text": LARGE}}


def test_job_with_many_logs_and_redirects_is_complete(small_member: Member) -> None:
    publish(small_member, create(1))
    lines = [{**LOG, "message": f"line {number}", "time": number} for number in range(5_000)]
    for start in range(0, 5_000, 500):
        publish(small_member, *(progress(1, log=line) for line in lines[start : start + 500]))
    publish(small_member, *(job_event("redirect", 1, redirect=f"n{number}") for number in range(200)))
    result = read_twice(small_member, job, 1)
    assert (result["logCount"], result["logs"]) == (5_000, lines)
    assert [redirect["to"] for redirect in result["redirects"]] == [f"n{number}" for number in range(200)]


def test_large_job_set_is_complete(small_member: Member) -> None:
    jobs = [planned_job(text=f"{number:03d}" * 100) for number in range(300)]
    publish(small_member, create_set(7, jobs))
    publish(small_member, *(create(number, 7, params=jobs[number]["params"]) for number in range(300)))
    publish(small_member, *(finish(number, 7) for number in range(299)))
    result = read_twice(small_member, jobset, 7)
    assert (result["total"], result["finished"], len(result["jobs"])) == (300, 299, 300)
    assert result["jobs"][298:] == [
        finished_job(298, params=jobs[298]["params"]),
        {**jobs[299], "id": 299, "state": "created"},
    ]
    last = publish_commit(small_member, finish(299, 7))
    assert describe(last) == ["finish 299", "finishJobSet 7"]
    assert read_twice(small_member, jobset, 7)["jobs"] == last[1]["payload"]["data"]["jobs"]


def test_list_of_large_jobs_is_small(member: Member) -> None:
    publish(member, create(1, params={"a": LARGE}), create(2, params=PARAMS))
    elements = member.get("/objects/job/").json()["elements"]
    assert [(element["id"], element["params"]) for element in elements] == [(1, None), (2, PARAMS)]


def raw(event_type: str, key: str | None, data: Any) -> Json:
    """A core event."""
    return {"type": event_type.split("/"), "key": key, "payload": {"type": "json", "data": data}}


BY_HAND: dict[str, Json] = {
    "a create of nothing": raw("job/create/n1/backup", "/job/5", {}),
    "a create without props": raw("job/create/n1/backup", "/job/5", {"params": {}}),
    "a progress with null for a log": raw("job/progress/n1/backup", "/job/1", {"state": "run", "log": None}),
    "a progress with null for all": raw("job/progress/n1/backup", "/job/1", {"state": None, "log": None}),
    "a set of nothing": raw("jobset/createJobSet/n1", "/jobset/5", {"jobs": []}),
    "a set with a bare job": raw("jobset/createJobSet/n1", "/jobset/5", {"jobs": [{"node": "n1", "type": "a"}]}),
    "a clean of a set": raw("jobset/cleanJobSet/n1", "/jobset/7", {"jobs": [{"node": "n", "type": "t", "state": "s"}]}),
    "no payload": {"type": ["job", "create", "n1", "backup"], "key": "/job/5"},
    "no type at all": {"type": [], "key": "/job/1"},
    "a set that is true": raw("job/create/n1/backup", "/job/5", {"jobset": True}),
    "a set that is a text": raw("job/finish/n1/backup", "/job/1", {"jobset": "7", "success": "1", "message": ""}),
    "its own time": raw("job/create/n1/backup", "/job/5", {"time": 1, "params": {}, "props": {}}),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_malformed_core_event_does_not_break_jobs(name: str, small_member: Member) -> None:
    publish(small_member, create_set(7, 2), create(1, 7), create(2, 7))
    assert small_member.post({"events": [BY_HAND[name]]}).status_code == 201
    publish(small_member, finish(2, 7))
    paths = ("/jobs/1", "/jobs/2", "/jobsets/7", "/objects/job/", "/objects/jobset/")
    assert [small_member.get(path).status_code for path in paths] == [200] * 5
    assert {small_member.get(path).status_code for path in ("/jobs/5", "/jobsets/5")} <= {200, 404}
    read_twice(small_member, job, 2)


def test_job_created_by_core_event_is_a_job(member: Member) -> None:
    member.post({"events": [raw("job/create/n1/backup", "/job/1", {"params": PARAMS, "props": {}, "jobset": 7})]})
    publish(member, create_set(7, [planned_job(**PARAMS)]))
    result = publish_commit(member, progress(1, 7, params=PARAMS, state="run"), finish(1, 7, params=PARAMS))
    assert describe(result) == ["progress 1", "finish 1", "finishJobSet 7"]
    assert result[2]["payload"]["data"]["jobs"] == [finished_job(1, params=PARAMS, state="finished")]
    assert job(member, 1)["params"] == PARAMS


def test_repeated_append_returns_first_response(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7))
    bodies = [{"events": [finish(1, 7), progress(404)]}, {"events": [finish_set(7, 1)]}, {"events": [create(9)]}]
    firsts = [post(member, body, **{"Idempotency-Key": f"k{place}"}) for place, body in enumerate(bodies)]
    publish(member, create(404), create(10))
    again = [post(member, body, **{"Idempotency-Key": f"k{place}"}) for place, body in enumerate(bodies)]
    assert describe(firsts[0].json()["events"]) == ["finish 1"]
    assert [response.json() for response in again[::2]] == [response.json() for response in firsts[::2]]
    assert [response.headers.get("idempotent-replayed") for response in again] == ["true", None, "true"]
    assert (firsts[1].json()["events"], again[1].json()["events"]) == ([], [])
    assert post(member, {"events": [finish(2, 7)]}, **{"Idempotency-Key": "k0"}).status_code == 422


def test_append_condition_applies_to_finish_of_job_set(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7))
    seen = member.publish("a")[0]["eventId"]
    body: Json = {"events": [finish(1, 7)], "condition": {"failIfEventsMatch": {"types": ["a"]}}}
    response = post(member, body)
    assert (response.status_code, response.json()["eventId"]) == (409, seen)
    assert len(member.read_log()["events"]) == 3
    body["condition"]["after"] = seen
    response = post(member, body)
    assert (response.status_code, describe(response.json()["events"])) == (201, ["finish 1"])
    assert describe(member.read_log()["events"][3:]) == ["finish 1", "finishJobSet 7"]


def in_threads(work: Callable[[int], int], numbers: Sequence[int]) -> list[int]:
    """The results of `work`, executed in several threads."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, numbers, timeout=4 * TIMEOUT_S))


def test_concurrent_publishers_finish_job_set_once(member: Member) -> None:
    for number in range(1, ROUNDS + 1):
        jobs = [100 * number + place for place in range(JOBS)]
        publish(member, create_set(number, JOBS), *(create(job_id, number) for job_id in jobs))

        def end(job_id: int, number: int = number) -> int:
            return post(member, finish(job_id, number)).status_code

        assert in_threads(end, jobs) == [201] * JOBS
        *others, last = describe_sessions(member)[-JOBS:]
        assert ([len(commit) for commit in others], last[1:]) == ([1] * (JOBS - 1), [f"finishJobSet {number}"])
        assert sorted(member_job["id"] for member_job in jobset(member, number)["jobs"]) == jobs


def test_progress_does_not_block_finishing_jobs(member: Member) -> None:
    jobs = range(JOBS)
    publish(member, create_set(7, JOBS), *(create(number, 7) for number in jobs))

    def end(number: int) -> int:
        statuses = {post(member, progress(number, 7, progress=str(n))).status_code for n in range(5)}
        return max(statuses | {post(member, finish(number, 7)).status_code})

    assert in_threads(end, jobs) == [201] * JOBS
    assert sum(commit[1:] == ["finishJobSet 7"] for commit in describe_sessions(member)) == 1


def test_job_times_equal_event_times(member: Member) -> None:
    first = publish(member, create(1))["eventId"]
    publish(member, progress(1))
    last = publish(member, finish(1))["eventId"]
    result = job(member, 1)
    assert (result["createdAt"], result["updatedAt"], result["finishedAt"]) == (
        timestamps.iso(first),
        timestamps.iso(last),
        timestamps.iso(last),
    )
    assert result["seconds"] == (last - first) / 1_000_000
