"""Snapshots of the objects that JobScheduler's events are about."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.http.conftest import build_views
from tests.http.scheduler_client import (
    ADDED,
    API,
    ENDED,
    FILE,
    MOVED,
    REMOVED,
    RESUMED,
    STARTED,
    STEP,
    SUSPENDED,
    TASK,
    Json,
    publish,
    query,
)
from tests.serving import TIMEOUT_S, Member, Server

LISTS = {
    "order": "orders",
    "jobChain": "jobChains",
    "job": "jobs",
    "task": "tasks",
    "fileBased": "fileBaseds",
    "scheduler": "schedulers",
}


@dataclass
class Case:
    """Events of an object and the resulting overview. `@0` is the time of the first event."""

    collection: str
    path: str
    events: list[Json]
    overview: Json


def order(*events: Json, **members: Any) -> Case:
    overview = {"TYPE": "OrderOverview", "path": "/a/chain,1", "jobChainPath": "/a/chain", "orderSourceType": "AdHoc"}
    defaults = {"orderProcessingState": {"TYPE": "NotPlanned"}, "obstacles": []}
    keyed = [{"key": "/a/chain,1", **event} for event in events]
    return Case("order", "/a/chain,1", keyed, overview | defaults | members)


def state(name: str, **members: str) -> Json:
    return {"TYPE": name, **members}


def case(collection: str, path: str, key: Any, /, *events: Json, **members: Any) -> Case:
    overview = {"TYPE": f"{collection[0].upper()}{collection[1:]}Overview", **members}
    return Case(collection, path, [{**event, **({} if key is None else {"key": key})} for event in events], overview)


CASES = {
    "an order added": order(ADDED, nodeId="100"),
    "an order started": order(STARTED, orderProcessingState=state("WaitingForResource"), startedAt="@0"),
    "an order in a task": order({"TYPE": "OrderWaitingInTask"}, orderProcessingState=state("WaitingInTask")),
    "an order in a step": order(
        ADDED, STEP, nodeId="200", orderProcessingState=state("InTaskProcess", taskId="7", since="@1")
    ),
    "an order after a step": order(STEP, ENDED, nodeId="200", orderProcessingState=state("WaitingForResource")),
    "an order moved": order(ADDED, MOVED, nodeId="300"),
    "an order set back": order(
        {"TYPE": "OrderSetBack", "nodeId": "100"}, nodeId="100", orderProcessingState=state("Setback")
    ),
    "an order suspended": order(ADDED, SUSPENDED, nodeId="100", obstacles=[{"TYPE": "Suspended"}]),
    "an order resumed": order(ADDED, SUSPENDED, RESUMED, nodeId="100"),
    "an order finished": order(
        STARTED, {"TYPE": "OrderFinished", "nodeId": "END"}, nodeId="END", startedAt="@0", finishedAt="@1"
    ),
    "an order added again": order(STARTED, REMOVED, ADDED, nodeId="100"),
    "an order of a file": order(FILE, orderSourceType="Permanent", fileBasedState="loaded"),
    "an order of an active file": order(
        FILE, {**FILE, "TYPE": "FileBasedActivated"}, orderSourceType="Permanent", fileBasedState="active"
    ),
    "a job chain": case(
        "jobChain",
        "/a/chain",
        "/a/chain",
        {"TYPE": "JobChainStateChanged", "state": "initialized"},
        {"TYPE": "JobChainStateChanged", "state": "running"},
        path="/a/chain",
        state="running",
    ),
    "a job chain's nodes": case(
        "jobChain",
        "/a/chain",
        "/a/chain",
        {"TYPE": "JobChainNodeActionChanged", "nodeId": "100", "action": "stop"},
        {"TYPE": "JobChainNodeActionChanged", "nodeId": "200", "action": "next_state"},
        {"TYPE": "JobChainNodeActionChanged", "nodeId": "100", "action": "process"},
        path="/a/chain",
        nodes={"100": "process", "200": "next_state"},
    ),
    "a job chain's file": case(
        "jobChain", "/a", "JobChain:/a", {"TYPE": "FileBasedReplaced"}, path="/a", fileBasedState="loaded"
    ),
    "a job stopped": case(
        "job", "/a", "/a", {"TYPE": "JobStateChanged", "state": "stopped"}, path="/a", state="stopped"
    ),
    "a job unstopped": case("job", "/a", "/a", {"TYPE": "JobUnstopped"}, path="/a", state="pending"),
    "a job with tasks": case("job", "/a", "/a", {"TYPE": "JobTaskQueueChanged"}, path="/a", taskQueueChangedAt="@0"),
    "a task": case(
        "task", "/a/job:7", TASK, {"TYPE": "TaskStarted"}, taskId="7", jobPath="/a/job", state="running", startedAt="@0"
    ),
    "a task ended": case(
        "task",
        "/a/job:7",
        TASK,
        {"TYPE": "TaskStarted"},
        {"TYPE": "TaskEnded", "returnCode": 3},
        taskId="7",
        jobPath="/a/job",
        state="ended",
        startedAt="@0",
        endedAt="@1",
        returnCode=3,
    ),
    "a task closed": case(
        "task", "/a/job:7", TASK, {"TYPE": "TaskClosed"}, taskId="7", jobPath="/a/job", state="closed"
    ),
    "a file": case(
        "fileBased", "/a/b:Lock", "Lock:/a/b", {"TYPE": "FileBasedAdded"}, path="Lock:/a/b", fileBasedState="loaded"
    ),
    "a scheduler": case(
        "scheduler",
        "/scheduler",
        None,
        {"TYPE": "SchedulerInitiated"},
        {"TYPE": "SchedulerStateChanged", "state": "running"},
        state="running",
        startedAt="@0",
    ),
    "a scheduler closed": case("scheduler", "/scheduler", None, {"TYPE": "SchedulerClosed"}, state="stopped"),
}


def with_times(value: Any, events: list[Json]) -> Any:
    """`value` with placeholders such as `@0` replaced by the times of events."""
    match value:
        case dict():
            return {name: with_times(member, events) for name, member in value.items()}
        case str() if value.startswith("@"):
            return events[int(value[1:])]["timestamp"]
        case _:
            return value


@pytest.mark.parametrize("name", CASES)
def test_overview_reflects_all_events(name: str, member: Member) -> None:
    case = CASES[name]
    events = [core_event for event in case.events for core_event in publish(member, event)]
    (unrelated,) = member.publish("unrelated")
    overview = with_times(case.overview, events)
    of_type = {"return": case.overview["TYPE"]}
    single = {"eventId": unrelated["eventId"], **overview}
    several = {"eventId": unrelated["eventId"], LISTS[case.collection]: [overview]}
    assert query(member, f"/objects/{case.collection}{case.path}") == single
    assert query(member, f"/objects/{case.collection}") == {"eventId": unrelated["eventId"], "elements": [overview]}
    assert query(member, f"{API}/{case.collection}{case.path}") == single
    assert query(member, f"{API}/{case.collection}{case.path}", **of_type) == single
    assert query(member, f"{API}/{case.collection}", **of_type) == several
    assert query(member, f"{API}/{case.collection}") == several


@pytest.mark.parametrize("collection", LISTS)
def test_list_of_empty_collection_is_empty(collection: str, member: Member) -> None:
    assert query(member, f"{API}/{collection}") == {LISTS[collection]: [], "eventId": 0}
    assert query(member, f"/objects/{collection}/no/") == {"elements": [], "eventId": 0}


@pytest.mark.parametrize("base", ["/objects", API])
@pytest.mark.parametrize(
    ("collection", "path"),
    [
        ("order", "/a/chain,2"),
        ("order", "/a/chain,"),
        ("order", "/chain,1"),
        ("jobChain", "/a"),
        ("jobChain", "/a/chain/b"),
        ("job", "/a/chain"),
        ("task", "/a/job:8"),
        ("task", "/job:7"),
        ("fileBased", "/a/b:Job"),
        ("scheduler", "/other"),
    ],
)
def test_unknown_object_is_not_found(collection: str, path: str, base: str, member: Member) -> None:
    publish(member, {"key": "/a/chain,1", **ADDED}, {"TYPE": "JobChainStateChanged", "key": "/a/chain", "state": "x"})
    publish(member, {"TYPE": "TaskStarted", "key": TASK}, {"TYPE": "FileBasedAdded", "key": "Lock:/a/b"})
    response = member.get(f"{base}/{collection}{path}")
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")
    kind = "schedulerJob" if collection == "job" else collection
    assert response.json()["detail"] == f"there is nothing at /objects/{kind}{path}"


@pytest.mark.parametrize("last", [REMOVED, {"TYPE": "FileBasedRemoved", "key": "Order:/a/chain,1"}])
def test_removed_object_is_not_found(last: Json, member: Member) -> None:
    publish(member, {"key": "/a/chain,1", **ADDED}, {"key": "/a/chain,2", **ADDED}, {"key": "/a/chain,1", **last})
    assert member.get("/objects/order/a/chain,1").status_code == 404
    assert [order["path"] for order in query(member, "/objects/order")["elements"]] == ["/a/chain,2"]


def test_objects_are_sorted_by_path(member: Member) -> None:
    keys = ["/b,1", "/a/c,2", "/a/c,10", "/ä,1", "/A,1", "/a/b/c,1"]
    publish(member, *({"key": key, **ADDED} for key in keys))
    assert [order["path"] for order in query(member, f"{API}/order")["orders"]] == sorted(keys)


def test_snapshot_is_the_same_with_and_without_views(small: Server) -> None:
    member = small.organization()
    for case in CASES.values():
        publish(member, *case.events)
    fresh = [query(member, f"/objects/{collection}") for collection in LISTS]
    build_views(small)
    assert [query(member, f"/objects/{collection}") for collection in LISTS] == fresh
    *_, last = publish(member, {"TYPE": "FileBasedActivated", "key": "Job:/a"}, {"key": "/a/chain,1", **REMOVED})
    later = [query(member, f"/objects/{collection}") for collection in LISTS]
    assert [snapshot["eventId"] for snapshot in later] == [last["eventId"]] * len(LISTS)
    pairs = zip(LISTS, fresh, later, strict=True)
    changed = [collection for collection, before, after in pairs if before["elements"] != after["elements"]]
    assert changed == ["order", "job", "fileBased"]


def test_snapshot_and_later_events_are_complete(member: Member) -> None:
    keys = ["/a/chain,1", "/a/chain,2", "/b/chain,1"]

    def write() -> list[Json]:
        moves = ({"TYPE": "OrderAdded", "nodeId": str(n), "key": keys[n % 3]} for n in range(60))
        return [event for move in moves for event in publish(member, move)]

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        snapshots = [query(member, f"{API}/order")]
        while not writing.done():
            snapshots.append(query(member, f"{API}/order"))
        history = writing.result(TIMEOUT_S)
    assert len(snapshots) > 2
    for snapshot in snapshots[:: len(snapshots) // 20 + 1]:
        nodes = {
            event["key"]: event["payload"]["data"]["nodeId"] for event in history if not _is_after(event, snapshot)
        }
        assert {order["path"]: order["nodeId"] for order in snapshot["orders"]} == nodes
        rest = query(member, f"{API}/order", **{"return": "Event", "after": snapshot["eventId"]})
        ids = [event["eventId"] for event in rest.get("eventSnapshots", [])]
        assert ids == [event["eventId"] for event in history if _is_after(event, snapshot)]


def test_object_outlives_its_events(short_retention: Server) -> None:
    member = short_retention.organization()
    publish(member, {"key": "/a/chain,1", **ADDED}, {"key": "/a/chain,1", **SUSPENDED})
    publish(member, *[{"TYPE": "JobUnstopped", "key": "/a"}] * 3)
    overview = query(member, "/objects/order/a/chain,1")
    assert (overview["nodeId"], overview["obstacles"]) == ("100", [{"TYPE": "Suspended"}])
    assert query(member, f"{API}/order", **{"return": "Event"})["TYPE"] == "Empty"


KNOWN: list[Json] = [
    {"key": "/a/chain,1", **STEP},
    {"TYPE": "JobStateChanged", "key": "/a", "state": "stopped"},
    {"TYPE": "FileBasedActivated", "key": "Job:/a"},
    {"TYPE": "JobChainNodeActionChanged", "key": "/a/chain", "nodeId": "100", "action": "stop"},
    {"TYPE": "TaskStarted", "key": TASK},
    {"TYPE": "SchedulerStateChanged", "state": "running"},
]


@pytest.mark.parametrize(
    ("type_", "key", "payload"),
    [
        pytest.param("OrderEvent/OrderEaten", "/a/chain,1", {"nodeId": "500"}, id="an unknown event of an order"),
        pytest.param("OrderEvent/OrderEaten", "/a/chain,9", {}, id="an unknown event of an unknown order"),
        pytest.param("OrderEvent", "/a/chain,9", {}, id="no event of an order"),
        pytest.param("OrderEvent/OrderAdded/Twice", "/a/chain,9", {"nodeId": "500"}, id="a subtype of an event"),
        pytest.param("OrderEvent/OrderAdded", "/a/chain,9", "nodeId", id="an order with text for fields"),
        pytest.param("OrderEvent/OrderAdded", "/a/chain,9", [], id="an order with a list for fields"),
        pytest.param("OrderEvent/OrderStepStarted", "/a/chain,1", {"nodeId": "500"}, id="a step without a task"),
        pytest.param("JobEvent/OrderRemoved", "/a", {}, id="an order's event of a job"),
        pytest.param("JobEvent/JobEaten", "/a", {}, id="an unknown event of a job"),
        pytest.param("JobEvent/JobStateChanged", "/a", {}, id="a job's state without a state"),
        pytest.param("JobChainEvent/JobChainEaten", "/a/chain", {}, id="an unknown event of a job chain"),
        pytest.param("JobChainEvent/JobChainNodeActionChanged", "/a/chain", {"nodeId": []}, id="a node that is a list"),
        pytest.param("TaskEvent/TaskEaten", "/a/job:7", {}, id="an unknown event of a task"),
        pytest.param("TaskEvent/TaskEnded", "/a/job:7", {}, id="an end without a return code"),
        pytest.param("FileBasedEvent/FileBasedEaten", "Job:/a", {}, id="an unknown event of a file"),
        pytest.param("SchedulerEvent/SchedulerEaten", None, {}, id="an unknown event of the scheduler"),
        pytest.param("SchedulerEvent", None, {}, id="no event of the scheduler"),
    ],
)
def test_malformed_event_does_not_change_state(type_: str, key: str | None, payload: Any, member: Member) -> None:
    publish(member, *KNOWN)
    before = [query(member, f"/objects/{collection}")["elements"] for collection in LISTS]
    malformed = {"type": ["scheduler", *type_.split("/")], "key": key, "payload": {"type": "json", "data": payload}}
    assert member.post({"events": [malformed]}).status_code == 201
    assert [query(member, f"/objects/{collection}")["elements"] for collection in LISTS] == before


def _is_after(event: Json, snapshot: Json) -> bool:
    is_later: bool = event["eventId"] > snapshot["eventId"]
    return is_later
