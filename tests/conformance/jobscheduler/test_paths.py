"""JobScheduler's path queries (J-P)."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.serving import ROOT, TIMEOUT_S, Member, Server, run_server

API = "/jobscheduler/master/api"
PATHS = ["/a", "/a/b", "/a/b/c", "/ab", "/x", "/x/a", "/x/Größe/ä b"]
"""At each path there are a job, a job chain with two orders, and files."""

Json = dict[str, Any]

QUERIES = [
    pytest.param("/", PATHS, id="J-P01"),
    pytest.param("/a/b", ["/a/b"], id="J-P02"),
    pytest.param("/a", ["/a"], id="J-P02/not-a-folder"),
    pytest.param("/a/", ["/a/b", "/a/b/c"], id="J-P03"),
    pytest.param("/a/b/", ["/a/b/c"], id="J-P04"),
    pytest.param("/*", ["/a", "/ab", "/x"], id="J-P05"),
    pytest.param("/a/*", ["/a/b"], id="J-P06"),
    pytest.param("/x/Größe/", ["/x/Größe/ä b"], id="J-P06/any-letters"),
    pytest.param("/a/b|/x/", ["/a/b", "/x/a", "/x/Größe/ä b"], id="J-P08"),
    pytest.param("/a/*|/x|/ab", ["/a/b", "/ab", "/x"], id="J-P08/all-kinds"),
    pytest.param("/a/|/a/b|/a/*", ["/a/b", "/a/b/c"], id="J-P08/nothing-twice"),
    pytest.param("/no/", [], id="J-P03/nothing"),
    pytest.param("/no/*", [], id="J-P05/nothing"),
]

KEYS: dict[str, Callable[[str], list[Any]]] = {
    "order": lambda path: [f"{path},1", f"Order:{path},2"],
    "job": lambda path: [path],
    "jobChain": lambda path: [path],
    "task": lambda path: [{"jobPath": path, "taskId": "1"}],
}
"""The keys of the events of the objects at a path."""

MISMATCHED_KEYS = {
    "/odd/1": ["scheduler", "SchedulerEvent", "SchedulerClosed"],
    "Job:/odd/2": ["scheduler", "OrderEvent", "OrderAdded"],
    "odd-3": ["scheduler", "FileBasedEvent", "FileBasedAdded"],
    "/odd:4": ["scheduler", "FileBasedEvent", "FileBasedAdded"],
    "Job:/odd/5": ["scheduler", "FileBasedEvent", "FileBasedEaten"],
    "/odd/6": ["scheduler"],
    "Job:/odd/7": ["a", "b"],
    "/odd/8,1": ["scheduler", "JobEvent", "JobUnstopped"],
}
"""Event types with keys that the vocabulary never gives them."""

COLLECTIONS = {"order": "orders", "job": "jobs", "jobChain": "jobChains"}


@pytest.fixture(scope="module")
def tree(server: Server) -> Member:
    """A member whose log contains objects at all paths."""
    member = server.organization()
    for path in PATHS:
        events = [
            {"TYPE": "OrderAdded", "key": f"{path},1", "nodeId": "100"},
            {"TYPE": "JobStateChanged", "key": path, "state": "pending"},
            {"TYPE": "JobChainStateChanged", "key": path, "state": "running"},
            {"TYPE": "TaskStarted", "key": {"jobPath": path, "taskId": "1"}},
            {"TYPE": "FileBasedAdded", "key": f"Order:{path},2"},
        ]
        answer = member.request("POST", "/events/scheduler", json={"events": events})
        assert answer.status_code == 201, answer.text
    return member


def query_by_get(member: Member, collection: str, path: str, **parameters: Any) -> Json:
    answer = member.get(f"{API}/{collection}{quote(path, safe='/*|,')}", params=parameters)
    assert answer.status_code == 200, answer.text
    result: Json = answer.json()
    return result


def query_by_post(member: Member, collection: str, query: Json, **parameters: Any) -> Json:
    answer = member.request("POST", f"{API}/{collection}", json=query, params=parameters)
    assert answer.status_code == 200, answer.text
    result: Json = answer.json()
    return result


def query_all_ways(member: Member, collection: str, path: str, **parameters: Any) -> Json:
    """Run a query. Asserts that GET, POST with `path` and POST with `paths` return the same."""
    first = query_by_get(member, collection, path, **parameters)
    assert query_by_post(member, collection, {"path": path}, **parameters) == first
    assert query_by_post(member, collection, {"paths": path.split("|")}, **parameters) == first
    return first


def events_of(seq: Json) -> list[Json]:
    """The events of a response, which may be empty."""
    events: list[Json] = seq.get("eventSnapshots", [])
    return events


@pytest.mark.parametrize(("path", "expected"), QUERIES)
@pytest.mark.parametrize("collection", KEYS)
def test_path_selects_events_of_matching_objects(collection: str, path: str, expected: list[str], tree: Member) -> None:
    events = events_of(query_all_ways(tree, collection, path, **{"return": "Event"}))
    assert [event["key"] for event in events] == [key for match in expected for key in KEYS[collection](match)]


@pytest.mark.parametrize(("path", "expected"), QUERIES)
def test_path_selects_orders_of_matching_job_chains(path: str, expected: list[str], tree: Member) -> None:
    orders = query_all_ways(tree, "order", path, **{"return": "OrderOverview"})["orders"]
    assert [order["path"] for order in orders] == sorted(f"{match},{n}" for match in expected for n in (1, 2))


@pytest.mark.parametrize(("path", "expected"), [query for query in QUERIES if query.values[0] not in ("/a/b", "/a")])
@pytest.mark.parametrize("collection", ["job", "jobChain"])
def test_path_selects_overviews_of_matching_objects(
    collection: str, path: str, expected: list[str], tree: Member
) -> None:
    overviews = query_all_ways(tree, collection, path)[COLLECTIONS[collection]]
    assert [overview["path"] for overview in overviews] == sorted(expected)


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("path", ["/a/b", "/a", "/x/Größe/ä b"])
def test_path_of_one_object_returns_that_object(path: str, collection: str, tree: Member) -> None:  # J-P02
    object_path = f"{path},1" if collection == "order" else path
    overview = query_all_ways(tree, collection, object_path)
    assert (overview["TYPE"], overview["path"]) == (f"{collection[0].upper()}{collection[1:]}Overview", object_path)
    (event,) = events_of(query_all_ways(tree, collection, object_path, **{"return": "Event"}))
    assert event["key"] == object_path


@pytest.mark.parametrize("collection", [*COLLECTIONS, "task", "fileBased", "scheduler"])
@pytest.mark.parametrize("parameters", [{}, {"return": "Event"}], ids=["overviews", "events"])
def test_missing_path_selects_everything(collection: str, parameters: dict[str, str], tree: Member) -> None:  # J-P01
    everything = query_by_post(tree, collection, {}, **parameters)
    assert query_by_get(tree, collection, "", **parameters) == everything
    assert query_by_get(tree, collection, "/", **parameters) == everything
    assert query_by_post(tree, collection, {"path": "/"}, **parameters) == everything
    without_body = tree.request("POST", f"{API}/{collection}", params=parameters)
    assert (without_body.status_code, without_body.json()) == (200, everything)


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize(
    ("query", "path"),
    [
        pytest.param({}, "/", id="J-P09/nothing"),
        pytest.param({"path": "/a/b,1"}, "/a/b,1", id="J-P09/object"),
        pytest.param({"path": "/a/"}, "/a/", id="J-P09/tree"),
        pytest.param({"path": "/a/*"}, "/a/*", id="J-P09/folder"),
        pytest.param({"paths": ["/a/b"]}, "/a/b", id="J-P07"),
        pytest.param({"paths": ["/a/b", "/x/"]}, "/a/b|/x/", id="J-P09/several"),
    ],
)
def test_path_as_json_equals_path_in_url(query: Json, path: str, collection: str, tree: Member) -> None:
    parameters = {"return": "Event"}
    assert query_by_post(tree, collection, query, **parameters) == query_by_get(tree, collection, path, **parameters)


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("limit", [1, 3, -2])
def test_folder_events_are_equal_by_get_and_post(  # J-P10
    limit: int, collection: str, tree: Member
) -> None:
    after = events_of(query_by_get(tree, collection, "/x/", **{"return": "Event"}))[0]["eventId"]
    for position in (0, after - 1, after):
        seq = query_all_ways(tree, collection, "/x/", **{"return": "Event", "after": position, "limit": limit})
        ids = [event["eventId"] for event in events_of(seq)]
        assert len(ids) <= abs(limit)
        assert all(event_id > position for event_id in ids)


@pytest.mark.parametrize("path", ["/2024", "/a/2024"])
def test_job_may_have_numeric_name(path: str, member: Member) -> None:
    key = {"jobPath": path, "taskId": "7"}
    member.request("POST", "/events/scheduler", json={"TYPE": "TaskStarted", "key": key})
    (event,) = events_of(query_all_ways(member, "task", path, **{"return": "TaskEvent"}))
    (task,) = query_all_ways(member, "task", path)["tasks"]
    assert (event["key"], task["jobPath"], task["taskId"]) == (key, path, "7")


def test_file_is_found_by_path_and_kind(member: Member) -> None:
    events = [{"TYPE": "FileBasedAdded", "key": key} for key in ("Job:/a/b", "JobChain:/a/b")]
    member.request("POST", "/events/scheduler", json={"events": events})
    files = query_all_ways(member, "fileBased", "/a/b")["fileBaseds"]
    assert [overview["path"] for overview in files] == ["Job:/a/b", "JobChain:/a/b"]
    assert query_all_ways(member, "fileBased", "/a/b:Job")["path"] == "Job:/a/b"
    (event,) = events_of(query_all_ways(member, "fileBased", "/a/b:Job", **{"return": "Event"}))
    assert event["key"] == "Job:/a/b"


FOLDERS = ["Folder:/", "Folder:/a", "Folder:/a/b", "Folder:/a/b/c", "Folder:/ab", "Job:/a", "Job:/a/b"]
FILES_IN_FOLDERS = {
    "/": FOLDERS,
    "/a/": ["Folder:/a", "Folder:/a/b", "Folder:/a/b/c", "Job:/a/b"],
    "/a/b/": ["Folder:/a/b", "Folder:/a/b/c"],
    "/a/*": ["Folder:/a/b", "Job:/a/b"],
    "/*": ["Folder:/a", "Folder:/ab", "Job:/a"],
    "/:Folder": ["Folder:/"],
    "/a": ["Folder:/a", "Job:/a"],
    "/no/": [],
    "/a/b/|/ab/": ["Folder:/a/b", "Folder:/a/b/c", "Folder:/ab"],
}


@pytest.mark.parametrize("has_views", [False, True], ids=["log", "views"])
def test_folder_is_in_its_own_tree(has_views: bool, member: Member) -> None:
    events = [{"TYPE": "FileBasedAdded", "key": key} for key in FOLDERS]
    member.request("POST", "/events/scheduler", json={"events": events})
    if has_views:
        build_views(member.server)
    for path, expected in FILES_IN_FOLDERS.items():
        found = events_of(query_all_ways(member, "fileBased", path, **{"return": "Event"}))
        assert [event["key"] for event in found] == expected
        snapshot = query_all_ways(member, "fileBased", path)
        files = snapshot.get("fileBaseds", [snapshot])  # the path of one file returns that file
        assert sorted(overview["path"] for overview in files) == expected


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """A member with views, whose log has 200 commits after two orders, two tasks and mismatched keys."""
    with run_server(tmp_path_factory.mktemp("long")) as running:
        member = running.organization()
        fill(member)
        build_views(running)
        yield member


def fill(member: Member) -> None:
    """Publish the events that the tests look for, then 200 commits of other events."""
    member.post({"events": [{"type": type_, "key": key} for key, type_ in MISMATCHED_KEYS.items()]})
    keys: list[Json] = [
        {"TYPE": "OrderSuspended", "key": "/a/chain,1"},
        {"TYPE": "OrderSuspended", "key": "/a/chain,2"},
        {"TYPE": "TaskStarted", "key": {"jobPath": "/a/job", "taskId": "1"}},
        {"TYPE": "TaskStarted", "key": {"jobPath": "/a/2024", "taskId": "1"}},
    ]
    member.request("POST", "/events/scheduler", json={"events": keys})
    for number in range(200):
        member.request("POST", "/events/scheduler", json={"TYPE": "OrderSuspended", "key": f"/b/chain,{number}"})


def build_views(server: Server) -> None:
    """Run `make rebuild`, so that the views contain all events."""
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(server.data_dir)}
    command = [sys.executable, "-m", "infra.server.commands.rebuild"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=TIMEOUT_S)


@pytest.mark.parametrize(
    ("collection", "path", "keys"),
    [
        ("order", "/a/chain", ["/a/chain,1", "/a/chain,2"]),
        ("order", "/a/chain,2", ["/a/chain,2"]),
        ("order", "/a/", ["/a/chain,1", "/a/chain,2"]),
        ("order", "/a/*", ["/a/chain,1", "/a/chain,2"]),
        ("order", "/no/", []),
        ("task", "/a/job", [{"jobPath": "/a/job", "taskId": "1"}]),
        ("task", "/a/job:1", [{"jobPath": "/a/job", "taskId": "1"}]),
        ("task", "/a/2024", [{"jobPath": "/a/2024", "taskId": "1"}]),
        ("task", "/a/2024:1", [{"jobPath": "/a/2024", "taskId": "1"}]),
    ],
)
def test_old_events_are_found_by_path(collection: str, path: str, keys: list[Any], long_log: Member) -> None:
    events = events_of(query_all_ways(long_log, collection, path, **{"return": "Event", "after": 0}))
    assert [event["key"] for event in events] == keys


@pytest.mark.parametrize("key", MISMATCHED_KEYS)
def test_old_events_are_found_by_key_for_any_type(key: str, long_log: Member) -> None:
    (event,) = events_of(long_log.get("/events", params={"keys": key, "after": 0}).json())
    assert (event["key"], event["type"]) == (key, MISMATCHED_KEYS[key])


@pytest.mark.parametrize("key", MISMATCHED_KEYS)
def test_condition_matches_old_events_of_any_type(key: str, long_log: Member) -> None:
    condition = {"failIfEventsMatch": {"keys": [key]}, "after": 0}
    answer = long_log.post({"events": [{"type": ["never", "written"]}], "condition": condition})
    assert answer.status_code == 409, answer.text
