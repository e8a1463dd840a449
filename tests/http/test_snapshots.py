"""Snapshots: the objects that events fold into, their statistics, and how to follow them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.serving import PATIENCE_S, ROOT, Member, Server, serving

API = "/jobscheduler/master/api"
LISTS = {
    "order": "orders",
    "jobChain": "jobChains",
    "job": "jobs",
    "task": "tasks",
    "fileBased": "fileBaseds",
    "scheduler": "schedulers",
}
TASK = {"jobPath": "/a/job", "taskId": "7"}

Json = dict[str, Any]


@dataclass
class Case:
    """What happened to an object, and the overview that this makes. `@0` is the time of the first event."""

    collection: str
    path: str
    events: list[Json]
    overview: Json


def order(*events: Json, **members: Any) -> Case:
    """What happened to an order."""
    overview = {"TYPE": "OrderOverview", "path": "/a/chain,1", "jobChainPath": "/a/chain", "orderSourceType": "AdHoc"}
    defaults = {"orderProcessingState": {"TYPE": "NotPlanned"}, "obstacles": []}
    keyed = [{"key": "/a/chain,1", **event} for event in events]
    return Case("order", "/a/chain,1", keyed, overview | defaults | members)


def state(name: str, **members: str) -> Json:
    """The state of an order's processing."""
    return {"TYPE": name, **members}


def case(collection: str, path: str, key: Any, /, *events: Json, **members: Any) -> Case:
    """What happened to an object."""
    overview = {"TYPE": f"{collection[0].upper()}{collection[1:]}Overview", **members}
    return Case(collection, path, [{**event, **({} if key is None else {"key": key})} for event in events], overview)


ADDED = {"TYPE": "OrderAdded", "nodeId": "100"}
STARTED = {"TYPE": "OrderStarted"}
STEP = {"TYPE": "OrderStepStarted", "nodeId": "200", "taskId": "7"}
ENDED = {"TYPE": "OrderStepEnded", "nodeTransition": {"TYPE": "Success"}}
SUSPENDED = {"TYPE": "OrderSuspended"}
RESUMED = {"TYPE": "OrderResumed"}
REMOVED = {"TYPE": "OrderRemoved"}
MOVED = {"TYPE": "OrderNodeChanged", "fromNodeId": "100", "nodeId": "300"}
FILE = {"TYPE": "FileBasedAdded", "key": "Order:/a/chain,1"}

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


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that keeps the last two events of each organization."""
    with serving(tmp_path_factory.mktemp("forgetful"), RETENTION_EVENTS="2") as running:
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with few organizations, whose views are built quickly."""
    with serving(tmp_path_factory.mktemp("small")) as running:
        yield running


def build_views(server: Server) -> None:
    """`make rebuild`: all that was written is in the views."""
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(server.data_dir)}
    command = [sys.executable, "-m", "infra.server.commands.rebuild"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=PATIENCE_S)


def published(member: Member, *events: Json) -> list[Json]:
    """Append events in JobScheduler's JSON in one request; the core events."""
    answer = member.ask("POST", "/events/scheduler", json={"events": events})
    assert answer.status_code == 201, answer.text
    found: list[Json] = answer.json()["events"]
    return found


def asked(member: Member, path: str, **parameters: Any) -> Json:
    """The answer to a question."""
    answer = member.get(path, params=parameters)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    found: Json = answer.json()
    return found


def pause(member: Member, seconds: float) -> None:
    """Let time pass: wait for what never comes."""
    member.get("/events", params={"types": "never", "timeout": f"{seconds:.3f}s"})


def timed(value: Any, events: list[Json]) -> Any:
    """`value` with the times of events in the place of their numbers."""
    match value:
        case dict():
            return {name: timed(member, events) for name, member in value.items()}
        case str() if value.startswith("@"):
            return events[int(value[1:])]["timestamp"]
        case _:
            return value


@pytest.mark.parametrize("name", CASES)
def test_the_overview_of_an_object_is_what_happened_to_it(name: str, member: Member) -> None:
    wanted = CASES[name]
    events = [event for one in wanted.events for event in published(member, one)]
    (unrelated,) = member.publish("unrelated")
    overview = timed(wanted.overview, events)
    of_type = {"return": wanted.overview["TYPE"]}
    single = {"eventId": unrelated["eventId"], **overview}
    several = {"eventId": unrelated["eventId"], LISTS[wanted.collection]: [overview]}
    assert asked(member, f"/objects/{wanted.collection}{wanted.path}") == single
    assert asked(member, f"/objects/{wanted.collection}") == {"eventId": unrelated["eventId"], "elements": [overview]}
    assert asked(member, f"{API}/{wanted.collection}{wanted.path}") == single
    assert asked(member, f"{API}/{wanted.collection}{wanted.path}", **of_type) == single
    assert asked(member, f"{API}/{wanted.collection}", **of_type) == several
    assert asked(member, f"{API}/{wanted.collection}") == several


@pytest.mark.parametrize("collection", LISTS)
def test_where_there_is_nothing_a_list_is_empty(collection: str, member: Member) -> None:
    assert asked(member, f"{API}/{collection}") == {LISTS[collection]: [], "eventId": 0}
    assert asked(member, f"/objects/{collection}/no/") == {"elements": [], "eventId": 0}


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
def test_a_single_object_that_does_not_exist_is_not_found(
    collection: str, path: str, base: str, member: Member
) -> None:
    published(member, {"key": "/a/chain,1", **ADDED}, {"TYPE": "JobChainStateChanged", "key": "/a/chain", "state": "x"})
    published(member, {"TYPE": "TaskStarted", "key": TASK}, {"TYPE": "FileBasedAdded", "key": "Lock:/a/b"})
    answer = member.get(f"{base}/{collection}{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["detail"] == f"there is nothing at {path}"


@pytest.mark.parametrize("last", [REMOVED, {"TYPE": "FileBasedRemoved", "key": "Order:/a/chain,1"}])
def test_an_object_that_was_removed_is_not_found(last: Json, member: Member) -> None:
    published(member, {"key": "/a/chain,1", **ADDED}, {"key": "/a/chain,2", **ADDED}, {"key": "/a/chain,1", **last})
    assert member.get("/objects/order/a/chain,1").status_code == 404
    assert [one["path"] for one in asked(member, "/objects/order")["elements"]] == ["/a/chain,2"]


def test_objects_are_listed_in_the_order_of_their_paths(member: Member) -> None:
    keys = ["/b,1", "/a/c,2", "/a/c,10", "/ä,1", "/A,1", "/a/b/c,1"]
    published(member, *({"key": key, **ADDED} for key in keys))
    assert [one["path"] for one in asked(member, f"{API}/order")["orders"]] == sorted(keys)


def test_a_snapshot_is_the_same_whether_the_views_have_been_built_or_not(small: Server) -> None:
    member = small.organization()
    for wanted in CASES.values():
        published(member, *wanted.events)
    fresh = [asked(member, f"/objects/{collection}") for collection in LISTS]
    build_views(small)
    assert [asked(member, f"/objects/{collection}") for collection in LISTS] == fresh
    *_, last = published(member, {"TYPE": "FileBasedActivated", "key": "Job:/a"}, {"key": "/a/chain,1", **REMOVED})
    later = [asked(member, f"/objects/{collection}") for collection in LISTS]
    assert [one["eventId"] for one in later] == [last["eventId"]] * len(LISTS)
    changed = [collection for collection, one, other in zip(LISTS, fresh, later, strict=True) if _differ(one, other)]
    assert changed == ["order", "job", "fileBased"]


def test_a_snapshot_and_the_events_after_it_are_the_whole_history(member: Member, pool: ThreadPoolExecutor) -> None:
    keys = ["/a/chain,1", "/a/chain,2", "/b/chain,1"]

    def write() -> list[Json]:
        moves = ({"TYPE": "OrderAdded", "nodeId": str(n), "key": keys[n % 3]} for n in range(60))
        return [event for move in moves for event in published(member, move)]

    writing = pool.submit(write)
    snapshots = [asked(member, f"{API}/order")]
    while not writing.done():
        snapshots.append(asked(member, f"{API}/order"))
    history = writing.result(PATIENCE_S)
    assert len(snapshots) > 2
    for snapshot in snapshots[:: len(snapshots) // 20 + 1]:
        nodes = {event["key"]: event["payload"]["data"]["nodeId"] for event in history if not _after(event, snapshot)}
        assert {one["path"]: one["nodeId"] for one in snapshot["orders"]} == nodes
        rest = asked(member, f"{API}/order", **{"return": "Event", "after": snapshot["eventId"]})
        ids = [event["eventId"] for event in rest.get("eventSnapshots", [])]
        assert ids == [event["eventId"] for event in history if _after(event, snapshot)]


def test_an_object_outlives_its_events(forgetful: Server) -> None:
    member = forgetful.organization()
    published(member, {"key": "/a/chain,1", **ADDED}, {"key": "/a/chain,1", **SUSPENDED})
    published(member, *[{"TYPE": "JobUnstopped", "key": "/a"}] * 3)
    overview = asked(member, "/objects/order/a/chain,1")
    assert (overview["nodeId"], overview["obstacles"]) == ("100", [{"TYPE": "Suspended"}])
    assert asked(member, f"{API}/order", **{"return": "Event"})["TYPE"] == "Empty"


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
def test_what_does_not_follow_the_vocabulary_changes_no_state(
    type_: str, key: str | None, payload: Any, member: Member
) -> None:
    published(member, *KNOWN)
    before = [asked(member, f"/objects/{collection}")["elements"] for collection in LISTS]
    odd = {"type": ["scheduler", *type_.split("/")], "key": key, "payload": {"type": "json", "data": payload}}
    assert member.post({"events": [odd]}).status_code == 201
    assert [asked(member, f"/objects/{collection}")["elements"] for collection in LISTS] == before


def statistics(member: Member, path: str = "/") -> Json:
    """The statistics of the orders at `path`, stamped."""
    return asked(member, f"{API}/order{path}", **{"return": "OrderStatistics"})


def changed(member: Member, path: str = "/", **parameters: Any) -> Json:
    """The answer to whoever waits for other statistics."""
    return asked(member, f"{API}/order{path}", **{"return": "OrderStatisticsChanged", **parameters})


def waiting(pool: ThreadPoolExecutor, member: Member, path: str = "/", **parameters: Any) -> Future[Json]:
    """A poll for other statistics that the server holds by now."""
    found = pool.submit(changed, member, path, **{"timeout": "60s", **parameters})
    pause(member, 0.2)
    return found


def the_change(member: Member, path: str = "/") -> Json:
    """The one event that tells what the statistics are now."""
    counters = statistics(member, path)
    event_id = counters.pop("eventId")
    event = {"eventId": event_id, "TYPE": "OrderStatisticsChanged", "orderStatistics": counters}
    return {"TYPE": "NonEmpty", "eventId": event_id, "eventSnapshots": [event]}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", {"total": 4, "notPlanned": 2, "started": 1, "waitingForResource": 1, "suspended": 1}),
        ("/a/", {"total": 3, "notPlanned": 1, "started": 1, "waitingForResource": 1, "suspended": 1}),
        ("/a/chain", {"total": 2, "notPlanned": 1, "started": 1, "waitingForResource": 1}),
        ("/a/chain,1", {"total": 1, "notPlanned": 1}),
        ("/a/*|/b,1", {"total": 4, "notPlanned": 2, "started": 1, "waitingForResource": 1, "suspended": 1}),
        ("/no/", {}),
        ("/a/chain,99", {}),
    ],
)
def test_statistics_count_the_orders_that_a_path_means(path: str, expected: dict[str, int], member: Member) -> None:
    *_, last = published(
        member,
        {"key": "/a/chain,1", **ADDED},
        {"key": "/a/chain,2", **STARTED},
        {"key": "/a/other,1", **SUSPENDED},
        {"key": "/b,1", **ADDED},
    )
    found = statistics(member, path)
    assert len(found) == 15
    assert {name: count for name, count in found.items() if count} == {"eventId": last["eventId"], **expected}


@pytest.mark.parametrize(
    "events",
    [[ADDED], [STARTED], [REMOVED, ADDED, SUSPENDED], [FILE]],
    ids=["added", "started", "much at once", "from a file"],
)
def test_a_change_of_statistics_is_exactly_one_event(
    events: list[Json], member: Member, pool: ThreadPoolExecutor
) -> None:
    poll = waiting(pool, member)
    published(member, *({"key": "/a/chain,1", **event} for event in events))
    assert poll.result(PATIENCE_S) == the_change(member)


def test_only_a_real_change_of_the_statistics_wakes(member: Member, pool: ThreadPoolExecutor) -> None:
    published(member, {"key": "/a/chain,1", **ADDED}, {"key": "/a/chain,2", **STARTED})
    everywhere, in_b = waiting(pool, member), waiting(pool, member, "/b/")
    published(member, {"key": "/a/chain,1", **MOVED}, {"TYPE": "JobUnstopped", "key": "/a"})
    published(member, {"key": "/a/chain,2", **STEP}, {"key": "/a/chain,2", **ENDED})
    published(member, {"key": "/a/chain,1", **STARTED}, {"key": "/a/chain,2", **ADDED})
    member.publish("unrelated")
    pause(member, 0.2)
    assert (everywhere.done(), in_b.done()) == (False, False)
    published(member, {"key": "/a/chain,3", **ADDED})
    assert everywhere.result(PATIENCE_S) == the_change(member)
    assert not in_b.done()
    published(member, {"key": "/b/chain,1", **ADDED})
    assert in_b.result(PATIENCE_S) == the_change(member, "/b/")


def test_without_a_change_the_answer_is_empty_at_the_timeout(member: Member) -> None:
    (event,) = published(member, {"key": "/a/chain,1", **ADDED})
    empty = {"TYPE": "Empty", "eventId": event["eventId"], "lastEventId": event["eventId"]}
    began = time.monotonic()
    assert changed(member, timeout="0.3s") == empty
    assert time.monotonic() - began >= 0.3
    assert changed(member) == empty
    assert changed(member, after=event["eventId"]) == empty
    assert changed(member, after=event["eventId"] + 10**9) == empty


def test_a_change_since_a_position_is_told_at_once(member: Member) -> None:
    positions = [0, *(published(member, {"key": f"/a/chain,{n}", **ADDED})[0]["eventId"] for n in range(3))]
    for after in positions[:-1]:
        assert changed(member, after=after, timeout="60s") == the_change(member)
    assert changed(member, after=positions[-1])["TYPE"] == "Empty"


@pytest.mark.parametrize(
    ("events", "places"),
    [
        pytest.param([("1", SUSPENDED), ("1", RESUMED)], [1], id="there and back"),
        pytest.param([("1", REMOVED), ("1", ADDED)], [1], id="removed and added"),
        pytest.param([("2", ADDED), ("1", REMOVED)], [1], id="another in its place"),
        pytest.param([("2", ADDED), ("2", REMOVED)], [1], id="added and removed"),
        pytest.param([("1", STEP), ("1", SUSPENDED), ("1", RESUMED), ("1", ADDED)], [3], id="a long way"),
        pytest.param([("1", MOVED), ("1", MOVED)], [0, 1], id="no change at all"),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["in one commit", "one by one"])
def test_changes_that_cancel_out_do_not_count(
    together: bool, events: list[tuple[str, Json]], places: list[int], member: Member
) -> None:
    (start,) = published(member, {"key": "/a/chain,1", **ADDED})
    keyed = [{"key": f"/a/chain,{order_id}", **event} for order_id, event in events]
    batches = [keyed] if together else [[event] for event in keyed]
    written = [event for batch in batches for event in published(member, *batch)]
    last = written[-1]["eventId"]
    empty = {"TYPE": "Empty", "eventId": last, "lastEventId": last}
    assert changed(member, after=start["eventId"]) == empty
    since = {place: changed(member, after=event["eventId"]) for place, event in enumerate(written)}
    assert since == {
        place: empty if place in (*places, len(events) - 1) else the_change(member) for place in range(len(events))
    }


@pytest.mark.parametrize("built", [False, True], ids=["before the views are built", "after"])
def test_statistics_far_back_are_compared_too(built: bool, small: Server) -> None:
    member = small.organization()
    (start,) = published(member, {"key": "/a/chain,1", **ADDED})
    for n in range(140):
        published(member, {"key": "/a/chain,1", **(SUSPENDED if n % 2 == 0 else RESUMED)})
    if built:
        build_views(small)
    assert changed(member, after=start["eventId"])["TYPE"] == "Empty"
    assert changed(member, after=0) == the_change(member)
    published(member, {"key": "/a/chain,1", **SUSPENDED})
    assert changed(member, after=start["eventId"]) == the_change(member)


def test_statistics_since_what_is_forgotten_are_torn(forgetful: Server) -> None:
    member = forgetful.organization()
    events = published(member, *({"key": f"/a/chain,{n}", **ADDED} for n in range(4)))
    assert changed(member, after=0) == {"TYPE": "Torn", "eventId": events[1]["eventId"]}
    assert changed(member, after=events[1]["eventId"]) == the_change(member)
    assert statistics(member)["total"] == 4


def _after(event: Json, snapshot: Json) -> bool:
    is_later: bool = event["eventId"] > snapshot["eventId"]
    return is_later


def _differ(one: Json, other: Json) -> bool:
    is_other: bool = one["elements"] != other["elements"]
    return is_other
