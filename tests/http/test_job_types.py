"""Jobs without ids, GET /job-types and GET /job-types/{type}."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from chalicelib.domain.vocabularies.job.duration_histogram import MIN_DURATION_S
from tests.conformance.anyjob.anyjob import Json, create, finish, job, job_event, post, progress, publish, without
from tests.http.conftest import build_views
from tests.serving import Member

THREADS = 8


def new_job(**more: object) -> Json:
    """The `create` event of a job without an id."""
    return without(create(0, **more), "id")


def job_type(member: Member, name: str = "backup") -> Json:
    response = member.get(f"/job-types/{quote(name, safe='')}")
    assert response.status_code == 200, response.text
    return without(response.json(), "eventId")


def job_types(member: Member, **query: object) -> list[str]:
    response = member.get("/job-types", params=query)
    assert response.status_code == 200, response.text
    return [one["type"] for one in response.json()["jobTypes"]]


def both(member: Member, read: Callable[[], object]) -> object:
    """The result of `read` before and after the views are built, which must be the same."""
    before = read()
    build_views(member.server)
    assert read() == before
    return before


def test_job_without_id_gets_the_next_number(member: Member) -> None:
    publish(member, create(40))
    response = publish(member, new_job(), finish(40), new_job(type="restore"))
    assert response["ids"] == [41, 42]
    assert [event["key"] for event in response["events"]] == ["/job/41", "/job/40", "/job/42"]
    assert (job(member, 41)["type"], job(member, 42)["type"]) == ("backup", "restore")
    assert publish(member, new_job())["ids"] == [43]
    assert "ids" not in publish(member, finish(43))


def test_job_of_single_event_without_id_gets_number(member: Member) -> None:
    response = post(member, {"event": "create", "node": "n1", "type": "backup", "id": None})
    assert (response.status_code, response.json()["ids"]) == (201, [1])


@pytest.mark.parametrize("name", ["progress", "finish", "clean", "redirect"])
def test_other_event_without_id_is_refused(member: Member, name: str) -> None:
    more = {"redirect": {"redirect": "n2"}, "finish": {"success": "1", "message": ""}, "progress": {"state": "s"}}
    response = post(member, without(job_event(name, 1, **more.get(name, {})), "id"))
    assert (response.status_code, response.json()["detail"]) == (400, f"{name}.id: missing")


def test_repeated_request_gets_the_same_numbers(member: Member) -> None:
    body = {"events": [finish(9), new_job(), new_job()]}
    first = post(member, body, **{"Idempotency-Key": "a"})
    publish(member, create(70))
    second = post(member, body, **{"Idempotency-Key": "a"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.headers["idempotent-replayed"] == "true"
    assert second.json() == first.json()
    assert first.json()["ids"] == [1, 2]


def test_minimal_response_has_the_numbers(member: Member) -> None:
    response = post(member, {"events": [new_job()]}, Prefer="return=minimal").json()
    assert (response["events"], response["ids"]) == ([], [1])


def test_concurrent_requests_get_distinct_numbers(member: Member) -> None:
    def create_jobs(_: int) -> list[int]:
        return [number for _ in range(10) for number in publish(member, new_job(), new_job())["ids"]]

    with ThreadPoolExecutor(THREADS) as pool:
        numbers = [number for part in pool.map(create_jobs, range(THREADS), timeout=60) for number in part]
    assert sorted(numbers) == list(range(1, THREADS * 20 + 1))
    assert job_type(member)["open"] == THREADS * 20


def test_job_has_run_outcome_and_error(member: Member) -> None:
    publish(member, create(1, props={"author": "anna"}), finish(1, success="0"))
    publish(member, create(1, props={"author": "ben"}), job_event("clean", 1))
    publish(member, create(2))

    def read() -> list[Json]:
        names = ("run", "outcome", "error", "author")
        return [{name: job(member, n)[name] for name in names if name in job(member, n)} for n in (1, 2)]

    assert both(member, read) == [
        {"run": 2, "outcome": "timeout", "error": "timed out", "author": "ben"},
        {"run": 1},
    ]
    assert job(member, 1)["durationS"] == job(member, 1)["seconds"]
    lists = [
        member.get("/objects/job", params={"brief": "yes", "result": name}).json() for name in ("timeout", "failure")
    ]
    assert [[one["path"] for one in page["elements"]] for page in lists] == [["/1"], []]
    assert lists[0]["results"] == {"timeout": 1}


def test_job_type_has_runs_and_statistics(member: Member) -> None:
    publish(member, create(1), finish(1))
    publish(member, create(2), {**finish(2, success="0"), "message": "disk full\non /srv"})
    publish(member, create(3), job_event("clean", 3))
    publish(member, create(4, props={"author": "anna"}), create(5, type="restore"), progress(4))

    def read() -> Json:
        return job_type(member)

    both(member, read)
    one = read()
    assert (one["type"], one["open"], [run["id"] for run in one["openRuns"]]) == ("backup", 1, [4])
    assert one["openRuns"][0]["author"] == "anna"
    assert [(run["id"], run["outcome"], run.get("error")) for run in one["runs"]] == [
        (3, "timeout", "timed out"),
        (2, "failure", "disk full"),
        (1, "success", None),
    ]
    assert (one["consecutiveFailures"], one["lastFailure"]["id"], one["lastSuccess"]["id"]) == (2, 3, 1)
    assert (one["successRate"], one["outcomes"]) == (pytest.approx(1 / 3), {"success": 1, "failure": 1, "timeout": 1})
    assert one["p50"] == one["p99"] == pytest.approx(MIN_DURATION_S, rel=0.05)


def test_job_type_without_ended_run_has_no_numbers(member: Member) -> None:
    publish(member, create(1))
    one = job_type(member)
    assert (one["lastRun"], one["successRate"], one["p50"], one["runs"]) == (None, None, None, [])


def test_job_type_has_position_to_follow_it_from(member: Member) -> None:
    last = publish(member, create(1))["eventId"]
    assert member.get("/job-types/backup").json()["eventId"] == last
    assert member.get("/job-types").json()["eventId"] == last


@pytest.mark.parametrize("name", ["a b", "ä|b", "100%", "a.b", "{x}", "*", "%2F", "..."])
def test_job_type_with_special_name_is_found(member: Member, name: str) -> None:
    response = post(member, create(1, type=name))
    if "*" in name:
        assert (response.status_code, member.get("/job-types/*").status_code) == (400, 404)
        return
    assert response.status_code == 201
    assert (job_type(member, name)["type"], job_types(member)) == (name, [name])


@pytest.mark.parametrize("name", ["restore", "%2F", "backup%2F", "%00", "x" * 2_000, "Backup"])
def test_unknown_job_type_is_not_found(member: Member, name: str) -> None:
    publish(member, create(1))
    assert member.get(f"/job-types/{name}").status_code == 404


def test_job_types_are_filtered_and_ordered(member: Member) -> None:
    publish(member, create(1, type="c"), create(2, type="a"), create(3, type="b"), create(4, type="a"))
    publish(member, finish(2, type="a"), finish(3, success="0", type="b"), job_event("clean", 4, type="a"))
    assert both(member, lambda: job_types(member)) == ["a", "b", "c"]
    assert both(member, lambda: job_types(member, state="running")) == ["c"]
    assert both(member, lambda: job_types(member, state="idle")) == ["a", "b"]
    assert both(member, lambda: job_types(member, result="failure")) == ["b"]
    assert both(member, lambda: job_types(member, result="timeout")) == ["a"]
    assert both(member, lambda: job_types(member, search="B")) == ["b"]
    assert both(member, lambda: job_types(member, search="b", state="running")) == []


def test_job_types_come_in_pages_of_one_position(member: Member) -> None:
    names = [f"type-{n}" for n in range(7)]
    publish(member, *(create(n, type=name) for n, name in enumerate(names)))
    build_views(member.server)
    pages = [member.get("/job-types", params={"limit": 3, "state": "running"}).json()]
    while (cursor := pages[-1]["cursor"]) is not None:
        publish(member, *(finish(n, type=name) for n, name in enumerate(names)))
        query = {"limit": 3, "state": "running", "cursor": cursor}
        pages.append(member.get("/job-types", params=query).json())
    assert [[one["type"] for one in page["jobTypes"]] for page in pages] == [names[:3], names[3:6], names[6:]]
    assert {page["eventId"] for page in pages} == {pages[0]["eventId"]}
    other = member.get("/job-types", params={"state": "idle", "cursor": pages[0]["cursor"]})
    assert (other.status_code, "filters" in other.json()["detail"]) == (400, True)


@pytest.mark.parametrize("query", ["state=open", "result=ok", "limit=0", "limit=1001", "cursor=x", "brief=yes"])
def test_invalid_query_of_job_types_is_refused(member: Member, query: str) -> None:
    assert member.get(f"/job-types?{query}").status_code == 400


@pytest.mark.parametrize("path", ["/job-types", "/job-types/backup"])
def test_job_types_are_only_for_readers(member: Member, path: str) -> None:
    publish(member, create(1))
    publisher = member.server.member(member.organization, groups=["publishers"])
    stranger = member.server.member(member.server.organization().organization)
    assert member.server.client.get(path).status_code == 401
    assert publisher.get(path).status_code == 403
    assert stranger.get(path, headers={"X-Organization": member.organization}).status_code == 403


def test_job_type_is_an_object(member: Member) -> None:
    publish(member, create(1), finish(1))
    state = member.get("/objects/jobType/backup").json()
    assert (state["type"], state["runs"], [day["success"] for day in state["days"]]) == (
        "backup",
        job_type(member)["runs"],
        [1],
    )


def test_job_type_has_next_expected_start(member: Member) -> None:
    publish(member, create(1), finish(1), create(2, type="restore"))
    assert job_type(member)["nextExpectedAt"] is None
    for name, every in (("daily", "P1D"), ("hourly", "1h")):
        body = {"type": "backup", "every": every}
        assert member.request("PUT", f"/expectations/{name}", json=body).status_code == 201
    expected = member.get("/expectations/hourly").json()["nextExpectedAt"]
    listed = member.get("/job-types").json()["jobTypes"]
    assert [one["nextExpectedAt"] for one in listed] == [expected, None]
    assert job_type(member)["nextExpectedAt"] == expected
    paused: Json = {"type": "backup", "every": "1h", "paused": True}
    assert member.request("PUT", "/expectations/hourly", json=paused).status_code == 200
    assert job_type(member)["nextExpectedAt"] == member.get("/expectations/daily").json()["nextExpectedAt"]
