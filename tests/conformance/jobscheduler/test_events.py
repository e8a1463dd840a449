"""JobScheduler's events and their JSON (J-S)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import Member, Server, run_server

API = "/jobscheduler/master/api"
ORDER = "/JOB-CHAIN,ORDER-ID"
TASK = {"jobPath": "/JOB", "taskId": "4711"}
TASK_WITHOUT_JOB = {"jobPath": "", "taskId": "x"}

Json = dict[str, Any]

HIERARCHY: dict[str, dict[str, Json]] = {
    "OrderEvent": {
        "OrderAdded": {"key": ORDER, "nodeId": "START"},
        "OrderRemoved": {"key": ORDER},
        "OrderStarted": {"key": ORDER},
        "OrderFinished": {"key": ORDER, "nodeId": "END"},
        "OrderNestedStarted": {"key": ORDER},
        "OrderNestedFinished": {"key": ORDER},
        "OrderStepStarted": {"key": ORDER, "nodeId": "100", "taskId": "123"},
        "OrderStepEnded": {"key": ORDER, "nodeTransition": {"TYPE": "Success"}},
        "OrderSetBack": {"key": ORDER, "nodeId": "100"},
        "OrderNodeChanged": {"key": ORDER, "fromNodeId": "A", "nodeId": "BB"},
        "OrderSuspended": {"key": ORDER},
        "OrderResumed": {"key": ORDER},
        "OrderWaitingInTask": {"key": ORDER},
    },
    "JobChainEvent": {
        "JobChainStateChanged": {"key": "/JOB-CHAIN", "state": "running"},
        "JobChainNodeActionChanged": {"key": "/JOB-CHAIN", "nodeId": "100", "action": "stop"},
    },
    "JobEvent": {
        "JobStateChanged": {"key": "/JOB", "state": "stopped"},
        "JobUnstopped": {"key": "/JOB"},
        "JobTaskQueueChanged": {"key": "/JOB"},
    },
    "TaskEvent": {
        "TaskStarted": {"key": TASK},
        "TaskEnded": {"key": TASK, "returnCode": 1},
        "TaskClosed": {"key": TASK},
    },
    "FileBasedEvent": {
        "FileBasedAdded": {"key": "Job:/TEST"},
        "FileBasedReplaced": {"key": "Job:/TEST"},
        "FileBasedRemoved": {"key": "Job:/TEST"},
        "FileBasedActivated": {"key": "Job:/TEST"},
    },
    "SchedulerEvent": {
        "SchedulerStateChanged": {"state": "running"},
        "SchedulerInitiated": {},
        "SchedulerClosed": {},
    },
    "CustomEvent": {"VariablesCustomEvent": {"key": "KEY", "variables": {"a": "A", "TYPE": "b"}}},
    "Logged": {"Logged": {"level": "info", "message": "MESSAGE-1 text"}},
}
"""Every event type by family, with the members of an example."""

ALL_EVENTS: list[Json] = [
    {"TYPE": name, **members} for events in HIERARCHY.values() for name, members in events.items()
]

SUPERTYPES = {
    "Event": [event["TYPE"] for event in ALL_EVENTS],
    **{family: list(events) for family, events in HIERARCHY.items()},
    "FileBasedAddedOrReplaced": ["FileBasedAdded", "FileBasedReplaced"],
    "JobChainNodeEvent": ["JobChainNodeActionChanged"],
}

COUNTERS = [
    "total",
    "notPlanned",
    "planned",
    "due",
    "started",
    "inTask",
    "inTaskProcess",
    "occupiedByClusterMember",
    "setback",
    "waitingForResource",
    "suspended",
    "blacklisted",
    "permanent",
    "fileOrder",
]


@pytest.fixture(scope="module")
def all_types(server: Server) -> Member:
    """A member whose log contains one event of each type."""
    member = server.organization()
    publish(member, *ALL_EVENTS)
    return member


@pytest.fixture(scope="module")
def retention_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose retention keeps one event of each organization."""
    with run_server(tmp_path_factory.mktemp("retention_server"), RETENTION_EVENTS="1") as running:
        yield running


def publish(member: Member, *events: Json) -> list[Json]:
    """Append events in JobScheduler's JSON and return them as readers receive them."""
    answer = member.request("POST", "/events/scheduler", json={"events": events})
    assert answer.status_code == 201, answer.text
    return [
        {"eventId": core["eventId"], **native} for core, native in zip(answer.json()["events"], events, strict=True)
    ]


def event_seq(member: Member, collection: str = "event", **parameters: Any) -> Json:
    """Request events."""
    answer = member.get(f"{API}/{collection}", params={"return": "Event", **parameters})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    seq: Json = answer.json()
    return seq


def statistics(member: Member, path: str = "/") -> Json:
    """The counters of the orders at `path`."""
    answer = member.get(f"{API}/order{path}", params={"return": "OrderStatistics"})
    assert answer.status_code == 200, answer.text
    counters: Json = answer.json()
    del counters["eventId"]
    return counters


def test_event_seq_with_events_is_non_empty(member: Member) -> None:  # J-S01
    (event,) = publish(member, {"TYPE": "OrderSuspended", "key": ORDER})
    assert event_seq(member) == {"TYPE": "NonEmpty", "eventId": event["eventId"], "eventSnapshots": [event]}


def test_event_seq_without_events_is_empty(member: Member) -> None:  # J-S02
    (event,) = publish(member, {"TYPE": "OrderSuspended", "key": ORDER})
    last = event["eventId"]
    assert event_seq(member, after=last) == {"TYPE": "Empty", "eventId": last, "lastEventId": last}


def test_event_seq_after_retention_is_torn(retention_server: Server) -> None:  # J-S03
    member = retention_server.organization()
    first, _ = publish(member, *[{"TYPE": "OrderSuspended", "key": ORDER}] * 2)
    assert event_seq(member, after=0) == {"TYPE": "Torn", "eventId": first["eventId"]}


def test_snapshot_of_one_object_has_event_id(member: Member) -> None:  # J-S04
    (event,) = publish(member, {"TYPE": "JobChainStateChanged", "key": "/JOB-CHAIN", "state": "running"})
    assert member.get(f"{API}/jobChain/JOB-CHAIN").json() == {
        "eventId": event["eventId"],
        "TYPE": "JobChainOverview",
        "path": "/JOB-CHAIN",
        "state": "running",
    }


def test_snapshot_of_several_objects_is_list_with_event_id(member: Member) -> None:  # J-S05
    *_, last = publish(
        member,
        {"TYPE": "JobChainStateChanged", "key": "/A", "state": "running"},
        {"TYPE": "JobChainStateChanged", "key": "/B", "state": "stopped"},
    )
    overviews = [
        {"TYPE": "JobChainOverview", "path": "/A", "state": "running"},
        {"TYPE": "JobChainOverview", "path": "/B", "state": "stopped"},
    ]
    assert member.get("/objects/jobChain").json() == {"eventId": last["eventId"], "elements": overviews}
    assert member.get(f"{API}/jobChain").json() == {"eventId": last["eventId"], "jobChains": overviews}


@pytest.mark.parametrize(
    "event",
    [
        pytest.param({"TYPE": "VariablesCustomEvent", "key": "100", "variables": {"string": "HUNDRED"}}, id="J-S09"),
        pytest.param({"TYPE": "SchedulerInitiated"}, id="J-S10"),
        pytest.param({"TYPE": "OrderAdded", "key": ORDER, "nodeId": "START"}, id="J-S11"),
        pytest.param({"TYPE": "OrderRemoved", "key": ORDER}, id="J-S12"),
        pytest.param({"TYPE": "OrderFinished", "key": ORDER, "nodeId": "END"}, id="J-S13/finished"),
        pytest.param({"TYPE": "OrderSetBack", "key": ORDER, "nodeId": "100"}, id="J-S13/set-back"),
        pytest.param({"TYPE": "OrderStarted", "key": ORDER}, id="J-S14"),
        pytest.param(
            {"TYPE": "OrderStarted", "key": ORDER, "nodeId": "100", "taskId": "1"}, id="J-S14/with-node-and-task"
        ),
        pytest.param({"TYPE": "OrderStepStarted", "key": ORDER, "nodeId": "100", "taskId": "123"}, id="J-S15"),
        pytest.param({"TYPE": "OrderStepEnded", "key": ORDER, "nodeTransition": {"TYPE": "Success"}}, id="J-S16"),
        pytest.param(
            {"TYPE": "OrderStepEnded", "key": ORDER, "nodeTransition": {"TYPE": "Error", "returnCode": 99}},
            id="J-S16/error",
        ),
        pytest.param({"TYPE": "OrderStepEnded", "key": ORDER, "nodeTransition": {"TYPE": "Keep"}}, id="J-S16/keep"),
        pytest.param({"TYPE": "TaskEnded", "key": TASK, "returnCode": 1}, id="J-S17"),
        pytest.param({"TYPE": "TaskEnded", "key": TASK, "returnCode": -9}, id="J-S17/signal"),
        pytest.param({"TYPE": "TaskStarted", "key": TASK}, id="J-S18"),
        pytest.param({"TYPE": "TaskStarted", "key": {"jobPath": "/a/b/JOB", "taskId": "1"}}, id="J-S18/in-folders"),
        *(
            pytest.param({"TYPE": f"FileBased{what}", "key": "Job:/TEST"}, id=f"J-S19/{what}")
            for what in ("Added", "Replaced", "Removed", "Activated")
        ),
        *(
            pytest.param({"TYPE": "FileBasedAdded", "key": key}, id=f"J-S20/{key}")
            for key in ("Folder:/", "Folder:/a/b", "Order:/a/chain,1", "Order:/chain,1/2", "Lock:/a:1")
        ),
        pytest.param({"TYPE": "SchedulerStateChanged", "state": "running"}, id="J-S21"),
        pytest.param({"TYPE": "SchedulerClosed"}, id="J-S21/closed"),
        pytest.param({"TYPE": "JobStateChanged", "key": "/JOB", "state": "stopped"}, id="J-S22"),
        pytest.param({"TYPE": "JobUnstopped", "key": "/JOB"}, id="J-S22/unstopped"),
        pytest.param({"TYPE": "JobTaskQueueChanged", "key": "/JOB"}, id="J-S22/queue"),
        pytest.param({"TYPE": "JobChainNodeActionChanged", "key": "/C", "nodeId": "100", "action": "stop"}, id="J-S23"),
        pytest.param({"TYPE": "Logged", "level": "info", "message": "MESSAGE-1 text"}, id="J-S24"),
        pytest.param({"TYPE": "Logged", "level": "debug3", "message": '\u2028\n"ä" \\ 漢'}, id="J-S24/any-text"),
    ],
)
def test_event_is_returned_unchanged(event: Json, member: Member) -> None:
    alone = member.request("POST", "/events/scheduler", json=event)
    assert alone.status_code == 201, alone.text
    first = {"eventId": alone.json()["eventId"], **event}
    (second,) = publish(member, event)
    expected = {"TYPE": "NonEmpty", "eventId": second["eventId"], "eventSnapshots": [first, second]}
    assert event_seq(member) == expected
    assert event_seq(member, **{"return": event["TYPE"]}) == expected


@pytest.mark.parametrize(
    "key",
    [*(f"Job:{path}" for path in ("", "x", "/", "/x/", "x/", "/x//y")), "Folder:/x/", "Order:/x", "Order:/x,", "/x"],
)
def test_file_key_without_valid_path_is_rejected(key: str, member: Member) -> None:
    answer = member.request("POST", "/events/scheduler", json={"TYPE": "FileBasedAdded", "key": key})
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (400, "FileBasedAdded.key")


@pytest.mark.parametrize("event", ALL_EVENTS, ids=lambda event: str(event["TYPE"]))
def test_core_type_follows_type_hierarchy(event: Json, member: Member) -> None:
    family = next(family for family, events in HIERARCHY.items() if event["TYPE"] in events)
    (core,) = member.request("POST", "/events/scheduler", json=event).json()["events"]
    path = [family] if family == event["TYPE"] else [family, event["TYPE"]]
    assert core["type"] == ["scheduler", *path]
    assert core["key"] == ("/JOB:4711" if family == "TaskEvent" else event.get("key"))
    assert member.get("/events", params={"types": f"scheduler/{family}/*"}).json()["eventSnapshots"] == [core]


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        *(pytest.param(name, names, id=f"J-S25/{name}") for name, names in SUPERTYPES.items()),
        *(pytest.param(event["TYPE"], [event["TYPE"]], id=f"J-S25/{event['TYPE']}") for event in ALL_EVENTS),
        pytest.param("TaskEnded,OrderAdded", ["OrderAdded", "TaskEnded"], id="J-S25/two"),
        pytest.param("TaskEnded, OrderAdded", ["OrderAdded", "TaskEnded"], id="J-S25/spaces"),
        pytest.param("JobEvent,TaskEnded", [*HIERARCHY["JobEvent"], "TaskEnded"], id="J-S25/a-family-and-another"),
        pytest.param("OrderEvent,OrderAdded", list(HIERARCHY["OrderEvent"]), id="J-S25/a-family-and-its-native"),
        pytest.param("Event,Logged", SUPERTYPES["Event"], id="J-S25/everything-and-more"),
    ],
)
def test_return_type_selects_all_its_subtypes(returned: str, expected: list[str], all_types: Member) -> None:
    events = event_seq(all_types, **{"return": returned})["eventSnapshots"]
    assert [{**event, "eventId": None} for event in events] == [
        {**event, "eventId": None} for event in ALL_EVENTS if event["TYPE"] in expected
    ]


@pytest.mark.parametrize(
    ("collection", "families", "files"),
    [
        ("order", ["OrderEvent"], []),
        ("jobChain", ["JobChainEvent"], []),
        ("task", ["TaskEvent"], []),
        ("fileBased", ["FileBasedEvent"], []),
        ("scheduler", ["SchedulerEvent"], []),
        ("job", ["JobEvent"], list(HIERARCHY["FileBasedEvent"])),
    ],
)
def test_collection_returns_events_of_its_objects(
    collection: str, families: list[str], files: list[str], all_types: Member
) -> None:
    expected = {*(name for family in families for name in HIERARCHY[family]), *files}
    seq = event_seq(all_types, collection)
    assert seq["TYPE"] == "NonEmpty", seq
    assert [event["TYPE"] for event in seq["eventSnapshots"]] == [
        event["TYPE"] for event in ALL_EVENTS if event["TYPE"] in expected
    ]


def test_event_collection_without_return_gives_all(all_types: Member) -> None:
    assert all_types.get(f"{API}/event").json() == event_seq(all_types)


@pytest.mark.parametrize(
    "invalid",
    [
        pytest.param({"type": ["scheduler"], "key": "/x"}, id="no family"),
        pytest.param({"type": ["scheduler"]}, id="nothing at all"),
        pytest.param({"type": ["scheduler", "OrderEvent"], "key": ORDER}, id="no name"),
        pytest.param({"type": ["scheduler", "OrderEvent", "OrderEaten"], "key": ORDER}, id="an unknown name"),
        pytest.param({"type": ["scheduler", "TaskEvent", "TaskStarted"], "key": "x"}, id="an invalid key"),
        pytest.param({"type": ["scheduler", "TaskEvent", "TaskStarted"]}, id="no key"),
        *(
            pytest.param({"type": ["scheduler", "OrderEvent", "OrderAdded"], "key": ORDER, "payload": payload}, id=name)
            for name, payload in {
                "bytes": {"type": "binary", "name": "n", "data": "YQ=="},
                "a list": {"type": "json", "data": [1]},
                "a number": {"type": "json", "data": 1},
                "text": {"type": "json", "data": "nodeId"},
                "null": {"type": "json", "data": None},
                "another EventId": {"type": "json", "data": {"nodeId": "1", "eventId": 0}},
                "another type": {"type": "json", "data": {"nodeId": "1", "TYPE": "OrderRemoved"}},
                "another key": {"type": "json", "data": {"nodeId": "1", "key": "/OTHER,1"}},
            }.items()
        ),
    ],
)
def test_feed_continues_after_invalid_event(invalid: Json, member: Member) -> None:
    (before,) = publish(member, {"TYPE": "OrderSuspended", "key": ORDER})
    core = member.post({"events": [invalid]})
    assert core.status_code == 201, core.text
    (after,) = publish(member, {"TYPE": "OrderResumed", "key": ORDER})
    answer = member.get(f"{API}/event", params={"return": "Event"})
    assert answer.status_code == 200, answer.text
    first, between, last = answer.json()["eventSnapshots"]
    assert (first, last) == (before, after)
    # It is returned in native JSON or as a core event, but never as a different event, type or object.
    assert between["eventId"] == core.json()["eventId"]
    assert between.get("TYPE", invalid["type"][-1]) == invalid["type"][-1]
    assert between.get("key") in (invalid.get("key"), TASK_WITHOUT_JOB)


@pytest.mark.parametrize(
    ("events", "counters"),
    [
        pytest.param(["OrderAdded"], ["notPlanned"], id="J-S26/added"),
        pytest.param(["OrderStarted"], ["started", "waitingForResource"], id="J-S26/started"),
        pytest.param(["OrderWaitingInTask"], ["started", "inTask"], id="J-S26/waiting-in-task"),
        pytest.param(["OrderStepStarted"], ["started", "inTask", "inTaskProcess"], id="J-S26/in-process"),
        pytest.param(["OrderStepStarted", "OrderStepEnded"], ["started", "waitingForResource"], id="J-S26/step-ended"),
        pytest.param(["OrderStarted", "OrderSetBack"], ["started", "setback"], id="J-S26/set-back"),
        pytest.param(["OrderStarted", "OrderFinished"], ["notPlanned"], id="J-S26/finished"),
        pytest.param(["OrderStarted", "OrderSuspended"], ["suspended"], id="J-S26/suspended"),
        pytest.param(
            ["OrderStarted", "OrderSuspended", "OrderResumed"], ["started", "waitingForResource"], id="J-S26/resumed"
        ),
        pytest.param(
            ["OrderStepStarted", "OrderNodeChanged"], ["started", "inTask", "inTaskProcess"], id="J-S26/moved"
        ),
    ],
)
def test_order_statistics_follow_events(events: list[str], counters: list[str], member: Member) -> None:
    publish(member, *({"TYPE": name, **HIERARCHY["OrderEvent"][name]} for name in events))
    expected = dict.fromkeys(COUNTERS, 0) | dict.fromkeys(["total", *counters], 1)
    assert statistics(member) == expected


@pytest.mark.parametrize(
    ("last", "counters"),
    [
        ("FileBasedAdded", ["total", "permanent", "notPlanned"]),
        ("FileBasedActivated", ["total", "permanent", "notPlanned"]),
        ("FileBasedRemoved", []),
    ],
)
def test_order_statistics_of_file_order_are_permanent(last: str, counters: list[str], member: Member) -> None:  # J-S26
    publish(member, *({"TYPE": name, "key": f"Order:{ORDER}"} for name in ("FileBasedAdded", last)))
    assert statistics(member) == dict.fromkeys(COUNTERS, 0) | dict.fromkeys(counters, 1)


def test_order_statistics_exclude_removed_order(member: Member) -> None:  # J-S26
    publish(member, {"TYPE": "OrderStarted", "key": ORDER}, {"TYPE": "OrderRemoved", "key": ORDER})
    assert statistics(member) == dict.fromkeys(COUNTERS, 0)


def test_order_statistics_of_folders_add_up(member: Member) -> None:  # J-S26
    publish(
        member,
        *({"TYPE": "OrderStarted", "key": f"/a/chain,{number}"} for number in range(3)),
        {"TYPE": "OrderSuspended", "key": "/a/chain,1"},
        *({"TYPE": "OrderAdded", "key": f"/b/chain,{number}", "nodeId": "1"} for number in range(2)),
        {"TYPE": "FileBasedAdded", "key": "Order:/b/chain,1"},
    )
    first, second = statistics(member, "/a/"), statistics(member, "/b/")
    added = {counter: first[counter] + second[counter] for counter in COUNTERS}
    nonzero = {"total": 5, "started": 2, "waitingForResource": 2, "suspended": 1, "notPlanned": 2, "permanent": 1}
    assert (statistics(member), added) == (dict.fromkeys(COUNTERS, 0) | nonzero, statistics(member))


@pytest.mark.parametrize("name", ["OrderStatisticsChanged", "JocOrderStatisticsChanged"])
def test_order_statistics_changed_event_has_no_key(name: str, member: Member) -> None:  # J-S26
    (event,) = publish(member, {"TYPE": "OrderAdded", "key": ORDER, "nodeId": "1"})
    answer = member.get(f"{API}/order", params={"return": name, "after": 0})
    counters = dict.fromkeys(COUNTERS, 0) | {"total": 1, "notPlanned": 1}
    change = {"eventId": event["eventId"], "TYPE": name, "orderStatistics": counters}
    assert answer.json() == {"TYPE": "NonEmpty", "eventId": event["eventId"], "eventSnapshots": [change]}
