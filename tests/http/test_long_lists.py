"""Lists that are too long for one response are continued, or refused with advice."""

import pytest

from tests.conformance.anyjob.anyjob import Json, create, create_set, progress, publish
from tests.http import scheduler_client
from tests.http.scheduler_client import API
from tests.http.test_reports import publish_ready
from tests.serving import Member

LINE = "x" * 50_000


def pages(member: Member, path: str, parts: str, limit: int | None) -> list[list[Json]]:
    """The parts of an object, page by page."""
    found: list[list[Json]] = []
    after: int | None = 0
    while after is not None:
        parameters = {"after": after, **({} if limit is None else {"limit": limit})}
        body = member.get(path, params=parameters).json()
        found.append(body[parts])
        after = body.get("next")
    return found


def test_jobs_of_set_are_continued_after_limit(member: Member) -> None:
    publish(member, create_set(7, 2), *(create(number, 7) for number in range(5)))
    found = pages(member, "/jobsets/7", "jobs", 2)
    assert [[job["id"] for job in page] for page in found] == [[0, 1], [2, 3], [4]]
    assert "next" not in member.get("/jobsets/7").json()
    assert member.get("/jobsets/7", params={"after": 99}).json()["jobs"] == []


def test_logs_of_job_are_continued_after_page_size(member: Member) -> None:
    publish(member, create(1))
    for _ in range(20):
        publish(member, *(progress(1, log={"message": LINE}) for _ in range(6)))
    found = pages(member, "/jobs/1", "logs", None)
    assert (len(found), sum(map(len, found))) == (2, 120)


@pytest.mark.parametrize(
    "path", ["/jobs/1", "/jobsets/1", "/reports", "/observers", "/health", "/system", "/objects/job"]
)
def test_limit_beyond_maximum_is_refused(member: Member, path: str) -> None:
    answer = member.get(path, params={"limit": 10_001})
    assert (answer.status_code, "limit" in answer.json()["detail"]) == (400, True)


def test_reports_are_continued_before_last_report(member: Member) -> None:
    events = [publish_ready(member)["eventId"] for _ in range(5)][::-1]
    found, before = [], None
    while page := member.get("/reports", params={"limit": 2, **({"before": before} if before else {})}).json()[
        "reports"
    ]:
        found.append([report["eventId"] for report in page])
        before = found[-1][-1]
    assert found == [events[:2], events[2:4], events[4:]]


def test_observers_say_whether_more_follow(member: Member) -> None:
    for name in ("b", "a", "c"):
        body = {"scope": "global", "channel": "app", "config": {"to": "anna"}}
        assert member.request("PUT", f"/observers/{name}", json=body).status_code == 201
    first = member.get("/observers", params={"limit": 2}).json()
    assert ([one["name"] for one in first["observers"]], first["moreFollows"]) == (["a", "b"], True)
    last = member.get("/observers", params={"limit": 2, "after": "b"}).json()
    assert ([one["name"] for one in last["observers"]], last["moreFollows"]) == (["c"], False)
    assert member.get("/observers").json()["moreFollows"] is False


@pytest.mark.parametrize("path", ["/events", f"{API}/event"], ids=["core feed", "JobScheduler"])
def test_newest_first_reads_of_large_events_are_continued(member: Member, path: str) -> None:
    """A page has fewer events than the limit, because they are large."""
    line = {"TYPE": "Logged", "level": "info", "message": LINE}
    for _ in range(30):
        scheduler_client.publish(member, *[line] * 4)
    parameters: Json = {"limit": -100, **({} if path == "/events" else {"return": "Logged"})}
    found: list[int] = []
    while (body := member.get(path, params=parameters).json())["TYPE"] == "NonEmpty":
        found += [event["eventId"] for event in body["eventSnapshots"]]
        parameters["before"] = found[-1]
    assert (len(found), found) == (120, sorted(set(found), reverse=True))
