"""GET /jobs/{id} and /jobsets/{id}: all that jobs and sets have to tell; and what many publishers do at once."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
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
    ended,
    finish,
    finish_set,
    job,
    jobset,
    of_job,
    planned,
    post,
    progress,
    publish,
    said,
    sessions,
)
from tests.serving import PATIENCE_S, ROOT, Member, Server, serving

THREADS = 8
JOBS = 30
ROUNDS = 4
LARGE = "ä" * 50_000
"""100 KB."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with few organizations, whose views are built quickly."""
    with serving(tmp_path_factory.mktemp("small")) as running:
        yield running


@pytest.fixture
def resident(small: Server) -> Member:
    """Somebody with an organization there."""
    return small.organization()


def rebuild(server: Server) -> None:
    """`make rebuild`: all that was written is in the views."""
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(server.data_dir)}
    command = [sys.executable, "-m", "infra.server.commands.rebuild"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=4 * PATIENCE_S)


def both(member: Member, read: Callable[[Member, int], Json], number: int) -> Json:
    """A job or set, which is the same before and after all is in the views."""
    before = read(member, number)
    rebuild(member.server)
    assert read(member, number) == before
    return before


def test_a_job_is_told_with_the_position_to_follow_it_from(member: Member) -> None:
    publish(member, create(1))
    last = publish(member, progress(1), create(2))["eventId"]
    answer = member.get("/jobs/1")
    assert (answer.status_code, answer.headers["content-type"], answer.json()["eventId"]) == (
        200,
        "application/json",
        last,
    )
    after = publish(member, finish(1))["events"]
    assert member.get("/events", params={"keys": "/job/1", "after": last}).json()["eventSnapshots"] == after


@pytest.mark.parametrize("collection", ["job", "jobset"])
def test_an_object_goes_by_its_short_name_its_collection_and_its_key(collection: str, member: Member) -> None:
    publish(member, create_set(1, 1), create(1, 1))
    paths = (f"/{collection}s/1", f"/objects/{collection}/1", f"/objects/{collection}/{collection}/1")
    found = [member.get(path).json() for path in paths]
    assert (found[0]["id"], found[1:]) == (1, [found[0]] * 2)


@pytest.mark.parametrize("collection", ["jobs", "jobsets"])
@pytest.mark.parametrize("name", ["2", "01", "1.0", "-1", "abc", "*", "1*", "%2F1", "1%2F", "9" * 400, "1|1", "%00"])
def test_what_nobody_created_is_not_found(collection: str, name: str, member: Member) -> None:
    publish(member, create_set(1, 1), create(1, 1))
    answer = member.get(f"/{collection}/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize("path", ["/jobs/1", "/jobsets/1"])
def test_only_readers_of_the_organization_are_told(path: str, member: Member) -> None:
    publish(member, create_set(1, 1), create(1, 1))
    server, organization = member.server, member.organization
    publisher = server.member(organization, groups=["publishers"])
    stranger = server.member(server.organization().organization)
    outsider = {"X-Organization": organization}
    assert server.client.get(path).status_code == 401
    assert (publisher.get(path).status_code, stranger.get(path).status_code) == (403, 404)
    assert stranger.get(path, headers=outsider).status_code == 403
    assert member.get(path, params={"return": "Event"}).status_code == 400


def test_only_publishers_publish_jobs(member: Member) -> None:
    reader = member.server.member(member.organization, groups=["readers"])
    assert post(reader, create(1)).status_code == 403
    assert member.stored()["events"] == []


def test_large_params_logs_and_results_are_told_whole(resident: Member) -> None:
    given = {"params": {"a": LARGE}, "props": {"b": LARGE}}
    publish(resident, create(1, **given))
    publish(resident, progress(1, state=LARGE, data={"text": LARGE}))
    publish(resident, progress(1, progress=LARGE, log={**LOG, "message": LARGE}))
    publish(resident, finish(1, data={"text": LARGE}) | {"message": LARGE})
    found = both(resident, job, 1)
    assert {name: found[name] for name in ("params", "props", "state", "progress", "data")} == {
        **given, "state": "finished", "progress": LARGE, "data": {"text": LARGE},
    }  # fmt: skip
    assert found["logs"] == [{**LOG, "message": LARGE}]
    assert found["result"] == {"success": "1", "message": LARGE, "data": {"text": LARGE}}


def test_a_job_with_very_many_logs_and_redirects_tells_them_all(resident: Member) -> None:
    publish(resident, create(1))
    lines = [{**LOG, "message": f"line {number}", "time": number} for number in range(5_000)]
    for start in range(0, 5_000, 500):
        publish(resident, *(progress(1, log=line) for line in lines[start : start + 500]))
    publish(resident, *(of_job("redirect", 1, redirect=f"n{number}") for number in range(200)))
    found = both(resident, job, 1)
    assert (found["logCount"], found["logs"]) == (5_000, lines)
    assert [one["to"] for one in found["redirects"]] == [f"n{number}" for number in range(200)]


def test_a_large_set_is_told_whole(resident: Member) -> None:
    jobs = [planned(text=f"{number:03d}" * 100) for number in range(300)]
    publish(resident, create_set(7, jobs))
    publish(resident, *(create(number, 7, params=jobs[number]["params"]) for number in range(300)))
    publish(resident, *(finish(number, 7) for number in range(299)))
    found = both(resident, jobset, 7)
    assert (found["total"], found["finished"], len(found["jobs"])) == (300, 299, 300)
    assert found["jobs"][298:] == [
        ended(298, params=jobs[298]["params"]),
        {**jobs[299], "id": 299, "state": "created"},
    ]
    last = publish(resident, finish(299, 7))
    assert said(last["events"]) == ["finish 299", "finishJobSet 7"]
    assert both(resident, jobset, 7)["jobs"] == last["events"][1]["payload"]["data"]["jobs"]


def test_the_list_of_all_jobs_is_small_whatever_they_have_to_tell(member: Member) -> None:
    publish(member, create(1, params={"a": LARGE}), create(2, params=PARAMS))
    elements = member.get("/objects/job/").json()["elements"]
    assert [(one["id"], one["params"]) for one in elements] == [(1, None), (2, PARAMS)]


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
    "a time of its own": raw("job/create/n1/backup", "/job/5", {"time": 1, "params": {}, "props": {}}),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_no_core_event_stops_anybody_from_reading_and_writing_jobs(name: str, resident: Member) -> None:
    publish(resident, create_set(7, 2), create(1, 7), create(2, 7))
    assert resident.post({"events": [BY_HAND[name]]}).status_code == 201
    publish(resident, finish(2, 7))
    paths = ("/jobs/1", "/jobs/2", "/jobsets/7", "/objects/job/", "/objects/jobset/")
    assert [resident.get(path).status_code for path in paths] == [200] * 5
    assert {resident.get(path).status_code for path in ("/jobs/5", "/jobsets/5")} <= {200, 404}
    both(resident, job, 2)


def test_jobs_created_by_core_events_are_jobs_like_others(member: Member) -> None:
    member.post({"events": [raw("job/create/n1/backup", "/job/1", {"params": PARAMS, "props": {}, "jobset": 7})]})
    publish(member, create_set(7, [planned(**PARAMS)]))
    found = publish(member, progress(1, 7, params=PARAMS, state="run"), finish(1, 7, params=PARAMS))
    assert said(found["events"]) == ["progress 1", "finish 1", "finishJobSet 7"]
    assert found["events"][2]["payload"]["data"]["jobs"] == [ended(1, params=PARAMS, state="finished")]
    assert job(member, 1)["params"] == PARAMS


def test_a_repeat_gets_the_first_answer_with_the_finish_of_the_set(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7))
    bodies = [{"events": [finish(1, 7), progress(404)]}, {"events": [finish_set(7, 1)]}, {"events": [create(9)]}]
    firsts = [post(member, body, **{"Idempotency-Key": f"k{place}"}) for place, body in enumerate(bodies)]
    publish(member, create(404), create(10))
    again = [post(member, body, **{"Idempotency-Key": f"k{place}"}) for place, body in enumerate(bodies)]
    assert said(firsts[0].json()["events"]) == ["finish 1", "finishJobSet 7"]
    assert [answer.json() for answer in again[::2]] == [answer.json() for answer in firsts[::2]]
    assert [answer.headers.get("idempotent-replayed") for answer in again] == ["true", None, "true"]
    assert (firsts[1].json()["events"], again[1].json()["events"]) == ([], [])
    assert post(member, {"events": [finish(2, 7)]}, **{"Idempotency-Key": "k0"}).status_code == 422


def test_the_condition_of_the_publisher_holds_where_a_set_would_finish(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7))
    seen = member.publish("a")[0]["eventId"]
    body: Json = {"events": [finish(1, 7)], "condition": {"failIfEventsMatch": {"types": ["a"]}}}
    answer = post(member, body)
    assert (answer.status_code, answer.json()["eventId"]) == (409, seen)
    assert len(member.stored()["events"]) == 3
    body["condition"]["after"] = seen
    answer = post(member, body)
    assert (answer.status_code, said(answer.json()["events"])) == (201, ["finish 1", "finishJobSet 7"])


def in_threads(work: Callable[[int], int], numbers: Sequence[int]) -> list[int]:
    """What each of these comes to, done by several at once."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, numbers, timeout=4 * PATIENCE_S))


def test_of_many_publishers_at_once_exactly_one_brings_the_finish_of_the_set(member: Member) -> None:
    for number in range(1, ROUNDS + 1):
        jobs = [100 * number + place for place in range(JOBS)]
        publish(member, create_set(number, JOBS), *(create(one, number) for one in jobs))

        def end(one: int, number: int = number) -> int:
            return post(member, finish(one, number)).status_code

        assert in_threads(end, jobs) == [201] * JOBS
        *others, last = sessions(member)[-JOBS:]
        assert ([len(commit) for commit in others], last[1:]) == ([1] * (JOBS - 1), [f"finishJobSet {number}"])
        assert sorted(one["id"] for one in jobset(member, number)["jobs"]) == jobs


def test_progress_of_many_jobs_does_not_hinder_those_that_finish(member: Member) -> None:
    jobs = range(JOBS)
    publish(member, create_set(7, JOBS), *(create(number, 7) for number in jobs))

    def end(number: int) -> int:
        statuses = {post(member, progress(number, 7, progress=str(n))).status_code for n in range(5)}
        return max(statuses | {post(member, finish(number, 7)).status_code})

    assert in_threads(end, jobs) == [201] * JOBS
    assert sum(commit[1:] == ["finishJobSet 7"] for commit in sessions(member)) == 1


def test_the_times_of_a_job_are_those_of_its_events(member: Member) -> None:
    first = publish(member, create(1))["eventId"]
    publish(member, progress(1))
    last = publish(member, finish(1))["eventId"]
    found = job(member, 1)
    assert (found["createdAt"], found["updatedAt"], found["finishedAt"]) == (
        timestamps.iso(first),
        timestamps.iso(last),
        timestamps.iso(last),
    )
    assert found["seconds"] == (last - first) / 1_000_000
