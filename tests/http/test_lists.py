"""GET /objects/{collection}: lists with `brief=yes`, and one object in the past with `at`."""

from typing import Any

import pytest

from chalicelib.domain import vocabularies
from tests.conformance.anyjob.anyjob import Json, create, create_set, finish, progress, publish
from tests.serving import Member, new_organization_name


def list_objects(member: Member, collection: str = "job", **query: Any) -> dict[str, Any]:
    response = member.get(f"/objects/{collection}", params={"brief": "yes", **query})
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page


def paths(page: dict[str, Any]) -> list[str]:
    return [element["path"] for element in page["elements"]]


def publish_job_event(member: Member, event: Json) -> int:
    """Publish a job event and return its EventId."""
    return int(publish(member, event)["events"][0]["eventId"])


def test_list_has_summaries_newest_change_first(member: Member) -> None:
    publish(member, create(1), create(2, node="n2"), create(3))
    publish(member, finish(1, success="0"))
    publish(member, progress(3, state="copy", progress="1/4"))
    page = list_objects(member)
    assert (paths(page), page["counts"]) == (["/3", "/1", "/2"], {"copy": 1, "created": 1, "finished": 1})
    (last,) = member.get("/events", params={"limit": -1}).json()["eventSnapshots"]
    assert (page["eventId"], page["moreFollows"]) == (last["eventId"], False)
    created = page["elements"][0].pop("createdAt")
    assert created < last["timestamp"]
    assert page["elements"][0] == {
        "path": "/3",
        "key": "/job/3",
        "state": "copy",
        "result": None,
        "label": "backup on n1",
        "updatedAt": last["timestamp"],
        "progress": 0.25,
        "parent": None,
    }


def test_search_limits_counts_but_state_does_not(member: Member) -> None:
    publish(member, *(create(n, node=f"n{n % 2}") for n in range(1, 11)))
    publish(member, finish(1), finish(2), finish(3))
    assert list_objects(member, search="ON N1")["counts"] == {"created": 3, "finished": 2}
    some = list_objects(member, search="on n1", state="finished")
    assert (paths(some), some["counts"]) == (["/3", "/1"], {"created": 3, "finished": 2})
    assert list_objects(member, search="nothing")["elements"] == []


def test_list_beyond_limit_has_more_follows(member: Member) -> None:
    publish(member, *(create(n) for n in range(1, 6)))
    cut = list_objects(member, limit=2)
    assert (paths(cut), cut["moreFollows"], cut["counts"]) == (["/5", "/4"], True, {"created": 5})
    assert list_objects(member, limit=5)["moreFollows"] is False


def test_list_selects_and_counts_results(member: Member) -> None:
    publish(member, create(1), create(2), create(3), finish(1), finish(2, success="0"))
    failed = list_objects(member, result="failure")
    assert (paths(failed), failed["results"]) == (["/2"], {"failure": 1, "success": 1})
    assert failed["counts"] == {"created": 1, "finished": 2}
    assert list_objects(member, result="success", state="created")["elements"] == []
    answer = member.get("/objects/job", params={"brief": "yes", "result": "red"})
    assert (answer.status_code, "result" in answer.json()["detail"]) == (400, True)


def test_list_in_pages_has_one_event_id(member: Member) -> None:
    publish(member, *(create(n) for n in range(1, 6)))
    first = list_objects(member, limit=2)
    publish(member, finish(4), finish(1), create(6))
    pages = [first]
    while pages[-1]["cursor"] is not None:
        pages.append(list_objects(member, limit=2, cursor=pages[-1]["cursor"]))
    assert [paths(page) for page in pages] == [["/5", "/4"], ["/3", "/2"], ["/1"]]
    assert {element["state"] for page in pages for element in page["elements"]} == {"created"}
    assert {page["eventId"] for page in pages} == {first["eventId"]}
    assert [page["moreFollows"] for page in pages] == [True, True, False]
    assert [page["counts"] for page in pages] == [{"created": 5}, None, None]


def test_list_filters_combine(member: Member) -> None:
    publish(member, create(1, props={"author": "anna"}), create(2, type="restore"), create(3, node="n2"))
    publish(member, {**finish(3, node="n2"), "message": "disk full on /var"})
    (last,) = member.get("/events", params={"limit": -1}).json()["eventSnapshots"]
    assert paths(list_objects(member, author="anna")) == ["/1"]
    assert paths(list_objects(member, type="restore")) == ["/2"]
    assert paths(list_objects(member, type="restore", node="n2")) == []
    assert paths(list_objects(member, q="FULL disk")) == ["/3"]
    assert paths(list_objects(member, q="full of")) == []
    assert paths(list_objects(member, since=last["timestamp"])) == ["/3"]
    assert paths(list_objects(member, until=last["timestamp"])) == ["/2", "/1"]


def test_list_cursor_of_another_list_is_refused(member: Member) -> None:
    publish(member, create(1), create(2))
    cursor = list_objects(member, limit=1)["cursor"]
    other = {"brief": "yes", "cursor": cursor, "state": "created"}
    response = member.get("/objects/job", params=other)
    assert response.status_code == 400
    assert response.json()["detail"].startswith("cursor: it belongs to another list; use it with the organization")


def test_list_paths_and_keys_lead_to_objects(member: Member) -> None:
    publish(member, create_set(7, 1), create(1, 7))
    start = {"event": "start", "job": "j", "command": "ls", "run_timeout": 9, "node_count": 1, "user": "anna"}
    member.request("POST", "/events/push", json=start)
    scheduled = [
        {"TYPE": "OrderAdded", "key": "/a/chain,1", "nodeId": "A"},
        {"TYPE": "TaskStarted", "key": {"jobPath": "/a/job", "taskId": "9"}},
        {"TYPE": "JobChainStateChanged", "key": "/a/chain", "state": "active"},
        {"TYPE": "JobStateChanged", "key": "/a/job", "state": "running"},
        {"TYPE": "FileBasedActivated", "key": "Job:/a/job"},
        {"TYPE": "SchedulerInitiated"},
    ]
    member.request("POST", "/events/scheduler", json={"events": scheduled})
    for collection in vocabularies.collections():
        (element,) = list_objects(member, collection)["elements"]
        assert member.get(f"/objects/{collection}{element['path']}").status_code == 200, element
        if collection not in ("scheduler", "jobType"):  # whose events have different keys
            assert member.get("/events", params={"keys": element["key"]}).json()["TYPE"] == "NonEmpty"


def test_objects_without_brief_are_complete(member: Member) -> None:
    publish(member, create(1))
    assert member.get("/objects/job", params={"brief": "no"}).json() == member.get("/objects/job").json()
    assert "logs" in member.get("/objects/job").json()["elements"][0]


def test_object_at_each_event_is_its_past_state(member: Member) -> None:
    publish(member, create_set(7, 1))
    first = publish_job_event(member, create(1, 7))
    second = publish_job_event(member, progress(1, 7, state="copy"))
    publish(member, create(2))
    third = publish_job_event(member, finish(1, 7))
    states = {}
    for at in (first, first + 1, second, third, 2**53 - 1):
        page = member.get("/objects/job/1", params={"at": at}).json()
        states[at] = (page["eventId"], page["state"])
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
def test_object_before_its_creation_is_not_found(member: Member, at: int) -> None:
    publish(member, create(1))
    response = member.get("/objects/job/1", params={"at": at})
    assert (response.status_code, response.json()["detail"]) == (
        404,
        f"/objects/job/1 did not exist as of event {at}",
    )


def test_scheduler_job_has_past_in_job_collection(member: Member) -> None:
    event = {"TYPE": "JobStateChanged", "key": "/a/job", "state": "running"}
    member.request("POST", "/events/scheduler", json=event)
    page = member.get("/objects/job/a/job", params={"at": 2**53 - 1}).json()
    assert (page["path"], page["state"]) == ("/a/job", "running")


def test_snapshot_in_pages_has_one_event_id(member: Member) -> None:
    publish(member, *(create(n) for n in range(1, 6)))
    whole = member.get("/objects/job").json()
    assert whole.keys() == {"elements", "eventId"}
    first = member.get("/objects/job", params={"limit": 2}).json()
    publish(member, finish(4), create(6))
    pages = [first]
    while pages[-1]["cursor"] is not None:
        pages.append(member.get("/objects/job", params={"limit": 2, "cursor": pages[-1]["cursor"]}).json())
    assert [len(page["elements"]) for page in pages] == [2, 2, 1]
    assert [element for page in pages for element in page["elements"]] == whole["elements"]
    assert {page["eventId"] for page in pages} == {whole["eventId"]}


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ("organization", "job"),
        ("collection", "order"),
        ("collection", "jobset?limit=1"),
        ("path", "job/a/"),
        ("path", "job/1"),
        ("path", "job/1%7C2"),
    ],
)
def test_cursor_of_another_query_is_refused(member: Member, part: str, path: str) -> None:
    publish(member, create(1), create(2))
    cursor = member.get("/objects/job", params={"limit": 1}).json()["cursor"]
    reader = member.server.organization() if part == "organization" else member
    separator = "&" if "?" in path else "?"
    response = reader.get(f"/objects/{path}{separator}cursor={cursor}")
    assert (response.status_code, response.json()["detail"]) == (
        400,
        f"cursor: it belongs to another {part}; use it with the organization, collection, path and filters of "
        "the previous page, or start again without cursor",
    )
    assert len(cursor) < 100


def test_job_collection_in_pages_has_scheduler_jobs(member: Member) -> None:
    publish(member, create(1))
    events = [{"TYPE": "JobStateChanged", "key": f"/a/{n}", "state": "running"} for n in range(2)]
    member.request("POST", "/events/scheduler", json={"events": events})
    first = member.get("/objects/job", params={"limit": 2}).json()
    second = member.get("/objects/job", params={"cursor": first["cursor"]}).json()
    elements = first["elements"] + second["elements"]
    assert [element.get("id", element.get("path")) for element in elements] == [1, "/a/0", "/a/1"]
    assert second["cursor"] is None


def test_overviews_in_pages_follow_post_body(member: Member) -> None:
    events = [{"TYPE": "OrderAdded", "key": f"/{folder}/chain,1", "nodeId": "A"} for folder in "abc"]
    member.request("POST", "/events/scheduler", json={"events": events})
    route, body = "/jobscheduler/master/api/order", {"paths": ["/a/", "/c/"]}
    first = member.request("POST", f"{route}?limit=1", json=body).json()
    second = member.request("POST", f"{route}?limit=1&cursor={first['cursor']}", json=body).json()
    assert [order["path"] for order in first["orders"] + second["orders"]] == ["/a/chain,1", "/c/chain,1"]
    assert second["cursor"] is None


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("limit=-1", "limit must be positive: overviews are ordered by path"),
        ("return=OrderEvent&cursor=abc", "cursor continues a list of overviews; events continue with after"),
    ],
)
def test_invalid_pages_of_overviews_are_refused(member: Member, query: str, detail: str) -> None:
    response = member.get(f"/jobscheduler/master/api/order?{query}")
    assert (response.status_code, response.json()["detail"]) == (400, detail)


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("job?limit=0", "limit: Input should be greater than or equal to 1"),
        ("job?cursor=abc", "cursor: use the cursor of the previous page unchanged"),
        ("job?cursor=%C3%A4", "cursor: use the cursor of the previous page unchanged"),
        ("job?brief=yes&cursor=abc", "cursor: use the cursor of the previous page unchanged"),
        ("job?q=a", "q requires brief=yes"),
        ("job/1?at=5&limit=5", "at and limit exclude each other: at returns one object"),
        ("job?search=a", "search requires brief=yes"),
        ("job?brief=no&state=a", "state requires brief=yes"),
        ("job/1?brief=yes&at=5", "at and brief=yes exclude each other: at returns one object, brief=yes a list"),
        ("job?at=5", "at requires the path of one object"),
        ("order/a/?at=5", "at requires the path of one object"),
        ("job?brief=true", "brief: Input should be 'yes' or 'no'"),
        ("job?brief=yes&limit=0", "limit: Input should be greater than or equal to 1"),
        ("job?brief=yes&limit=5001", "limit: Input should be less than or equal to 5000"),
        ("job?brief=yes&brief=yes", "parameter 'brief' must not be repeated; it was given 2 times"),
        ("job?brief=yes&more=1", "more: unknown field"),
        ("job/1?at=-1", "at: Input should be greater than or equal to 0"),
        (f"job/1?at={2**53}", f"at: Input should be less than {2**53}"),
    ],
)
def test_invalid_list_parameters_are_refused(member: Member, path: str, detail: str) -> None:
    response = member.get(f"/objects/{path}")
    assert (response.status_code, response.json()["detail"]) == (400, detail)


@pytest.mark.parametrize("query", ["brief=yes", "at=5"])
def test_lists_and_past_are_only_for_readers(member: Member, query: str) -> None:
    publish(member, create(1))
    path = f"/objects/job/1?{query}"
    assert member.server.client.get(path).status_code == 401
    assert member.server.member(member.organization, groups=["publishers"]).get(path).status_code == 403
    assert member.get(path, headers={"X-Organization": "local"}).status_code == 403
    assert member.server.member(new_organization_name()).get(path).status_code == 404
    other = member.server.organization()
    assert other.get("/objects/job?brief=yes").json()["elements"] == []
