"""JobScheduler's path queries (J-P)."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.serving import PATIENCE_S, ROOT, Member, Server, serving

API = "/jobscheduler/master/api"
PATHS = ["/a", "/a/b", "/a/b/c", "/ab", "/x", "/x/a", "/x/Größe/ä b"]
"""Where there are a job, a job chain with two orders, and files of these."""

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

ODD = {
    "/odd/1": ["scheduler", "SchedulerEvent", "SchedulerClosed"],
    "Job:/odd/2": ["scheduler", "OrderEvent", "OrderAdded"],
    "odd-3": ["scheduler", "FileBasedEvent", "FileBasedAdded"],
    "/odd:4": ["scheduler", "FileBasedEvent", "FileBasedAdded"],
    "Job:/odd/5": ["scheduler", "FileBasedEvent", "FileBasedEaten"],
    "/odd/6": ["scheduler"],
    "Job:/odd/7": ["a", "b"],
    "/odd/8,1": ["scheduler", "JobEvent", "JobUnstopped"],
}
"""Keys with types of events that are never published with such keys, except by somebody else."""

COLLECTIONS = {"order": "orders", "job": "jobs", "jobChain": "jobChains"}


@pytest.fixture(scope="module")
def tree(server: Server) -> Member:
    """Somebody in whose log are objects at all the paths."""
    member = server.organization()
    for path in PATHS:
        events = [
            {"TYPE": "OrderAdded", "key": f"{path},1", "nodeId": "100"},
            {"TYPE": "JobStateChanged", "key": path, "state": "pending"},
            {"TYPE": "JobChainStateChanged", "key": path, "state": "running"},
            {"TYPE": "TaskStarted", "key": {"jobPath": path, "taskId": "1"}},
            {"TYPE": "FileBasedAdded", "key": f"Order:{path},2"},
        ]
        answer = member.ask("POST", "/events/scheduler", json={"events": events})
        assert answer.status_code == 201, answer.text
    return member


def got(member: Member, collection: str, path: str, **parameters: Any) -> Json:
    """The answer to a query by GET."""
    answer = member.get(f"{API}/{collection}{quote(path, safe='/*|,')}", params=parameters)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def posted(member: Member, collection: str, query: Json, **parameters: Any) -> Json:
    """The answer to a query by POST."""
    answer = member.ask("POST", f"{API}/{collection}", json=query, params=parameters)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def every_way(member: Member, collection: str, path: str, **parameters: Any) -> Json:
    """The answer, after a check that all ways to ask give the same."""
    first = got(member, collection, path, **parameters)
    assert posted(member, collection, {"path": path}, **parameters) == first
    assert posted(member, collection, {"paths": path.split("|")}, **parameters) == first
    return first


def events_of(seq: Json) -> list[Json]:
    """The events of an answer, which may be empty."""
    found: list[Json] = seq.get("eventSnapshots", [])
    return found


@pytest.mark.parametrize(("path", "expected"), QUERIES)
@pytest.mark.parametrize("collection", KEYS)
def test_the_events_of_the_objects_that_a_path_means(
    collection: str, path: str, expected: list[str], tree: Member
) -> None:
    found = events_of(every_way(tree, collection, path, **{"return": "Event"}))
    assert [event["key"] for event in found] == [key for place in expected for key in KEYS[collection](place)]


@pytest.mark.parametrize(("path", "expected"), QUERIES)
def test_an_overview_has_the_orders_of_the_job_chains_that_a_path_means(
    path: str, expected: list[str], tree: Member
) -> None:
    found = every_way(tree, "order", path, **{"return": "OrderOverview"})["orders"]
    assert [order["path"] for order in found] == sorted(f"{place},{n}" for place in expected for n in (1, 2))


@pytest.mark.parametrize(("path", "expected"), [query for query in QUERIES if query.values[0] not in ("/a/b", "/a")])
@pytest.mark.parametrize("collection", ["job", "jobChain"])
def test_an_overview_has_the_objects_that_a_path_means(
    collection: str, path: str, expected: list[str], tree: Member
) -> None:
    found = every_way(tree, collection, path)[COLLECTIONS[collection]]
    assert [overview["path"] for overview in found] == sorted(expected)


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("path", ["/a/b", "/a", "/x/Größe/ä b"])
def test_the_path_of_one_object_gives_that_object(path: str, collection: str, tree: Member) -> None:  # J-P02
    own = f"{path},1" if collection == "order" else path
    found = every_way(tree, collection, own)
    assert (found["TYPE"], found["path"]) == (f"{collection[0].upper()}{collection[1:]}Overview", own)
    (event,) = events_of(every_way(tree, collection, own, **{"return": "Event"}))
    assert event["key"] == own


@pytest.mark.parametrize("collection", [*COLLECTIONS, "task", "fileBased", "scheduler"])
@pytest.mark.parametrize("parameters", [{}, {"return": "Event"}], ids=["overviews", "events"])
def test_no_path_means_everything(collection: str, parameters: dict[str, str], tree: Member) -> None:  # J-P01
    everything = posted(tree, collection, {}, **parameters)
    assert got(tree, collection, "", **parameters) == everything
    assert got(tree, collection, "/", **parameters) == everything
    assert posted(tree, collection, {"path": "/"}, **parameters) == everything
    without_body = tree.ask("POST", f"{API}/{collection}", params=parameters)
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
def test_a_query_has_the_same_meaning_as_json(query: Json, path: str, collection: str, tree: Member) -> None:
    parameters = {"return": "Event"}
    assert posted(tree, collection, query, **parameters) == got(tree, collection, path, **parameters)


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("limit", [1, 3, -2])
def test_events_of_a_folder_after_a_position_are_the_same_with_get_and_post(  # J-P10
    limit: int, collection: str, tree: Member
) -> None:
    after = events_of(got(tree, collection, "/x/", **{"return": "Event"}))[0]["eventId"]
    for position in (0, after - 1, after):
        seq = every_way(tree, collection, "/x/", **{"return": "Event", "after": position, "limit": limit})
        ids = [event["eventId"] for event in events_of(seq)]
        assert len(ids) <= abs(limit)
        assert all(event_id > position for event_id in ids)


@pytest.mark.parametrize("path", ["/2024", "/a/2024"])
def test_a_job_may_be_called_by_a_number(path: str, member: Member) -> None:
    key = {"jobPath": path, "taskId": "7"}
    member.ask("POST", "/events/scheduler", json={"TYPE": "TaskStarted", "key": key})
    (event,) = events_of(every_way(member, "task", path, **{"return": "TaskEvent"}))
    (task,) = every_way(member, "task", path)["tasks"]
    assert (event["key"], task["jobPath"], task["taskId"]) == (key, path, "7")


def test_the_file_of_an_object_is_found_by_its_path_and_kind(member: Member) -> None:
    events = [{"TYPE": "FileBasedAdded", "key": key} for key in ("Job:/a/b", "JobChain:/a/b")]
    member.ask("POST", "/events/scheduler", json={"events": events})
    at_the_path = every_way(member, "fileBased", "/a/b")["fileBaseds"]
    assert [overview["path"] for overview in at_the_path] == ["Job:/a/b", "JobChain:/a/b"]
    assert every_way(member, "fileBased", "/a/b:Job")["path"] == "Job:/a/b"
    (event,) = events_of(every_way(member, "fileBased", "/a/b:Job", **{"return": "Event"}))
    assert event["key"] == "Job:/a/b"


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """Somebody whose log goes on for 200 commits after two orders, two tasks and odd events; its views are built."""
    with serving(tmp_path_factory.mktemp("long")) as running:
        member = running.organization()
        fill(member)
        build_views(running)
        yield member


def fill(member: Member) -> None:
    """Write what is sought, and then 200 commits of other things."""
    member.post({"events": [{"type": type_, "key": key} for key, type_ in ODD.items()]})
    keys: list[Json] = [
        {"TYPE": "OrderSuspended", "key": "/a/chain,1"},
        {"TYPE": "OrderSuspended", "key": "/a/chain,2"},
        {"TYPE": "TaskStarted", "key": {"jobPath": "/a/job", "taskId": "1"}},
        {"TYPE": "TaskStarted", "key": {"jobPath": "/a/2024", "taskId": "1"}},
    ]
    member.ask("POST", "/events/scheduler", json={"events": keys})
    for number in range(200):
        member.ask("POST", "/events/scheduler", json={"TYPE": "OrderSuspended", "key": f"/b/chain,{number}"})


def build_views(server: Server) -> None:
    """`make rebuild`: all that was written is in the views."""
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(server.data_dir)}
    command = [sys.executable, "-m", "infra.server.commands.rebuild"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=PATIENCE_S)


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
def test_what_is_far_back_in_the_log_is_found_by_its_path_too(
    collection: str, path: str, keys: list[Any], long_log: Member
) -> None:
    found = events_of(every_way(long_log, collection, path, **{"return": "Event", "after": 0}))
    assert [event["key"] for event in found] == keys


@pytest.mark.parametrize("key", ODD)
def test_what_is_far_back_in_the_log_is_found_by_its_key_whatever_its_type(key: str, long_log: Member) -> None:
    (event,) = events_of(long_log.get("/events", params={"keys": key, "after": 0}).json())
    assert (event["key"], event["type"]) == (key, ODD[key])


@pytest.mark.parametrize("key", ODD)
def test_a_condition_sees_what_is_far_back_in_the_log_whatever_its_type(key: str, long_log: Member) -> None:
    condition = {"failIfEventsMatch": {"keys": [key]}, "after": 0}
    answer = long_log.post({"events": [{"type": ["never", "written"]}], "condition": condition})
    assert answer.status_code == 409, answer.text
