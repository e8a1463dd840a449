"""JobScheduler's events, snapshots and statistics over HTTP."""

from typing import Any

from tests.serving import Member

API = "/jobscheduler/master/api"
TASK = {"jobPath": "/a/job", "taskId": "7"}
ADDED = {"TYPE": "OrderAdded", "nodeId": "100"}
STARTED = {"TYPE": "OrderStarted"}
STEP = {"TYPE": "OrderStepStarted", "nodeId": "200", "taskId": "7"}
ENDED = {"TYPE": "OrderStepEnded", "nodeTransition": {"TYPE": "Success"}}
SUSPENDED = {"TYPE": "OrderSuspended"}
RESUMED = {"TYPE": "OrderResumed"}
REMOVED = {"TYPE": "OrderRemoved"}
MOVED = {"TYPE": "OrderNodeChanged", "fromNodeId": "100", "nodeId": "300"}
FILE = {"TYPE": "FileBasedAdded", "key": "Order:/a/chain,1"}

Json = dict[str, Any]


def publish(member: Member, *events: Json) -> list[Json]:
    """Append events in JobScheduler's JSON in one request, and return the core events."""
    response = member.request("POST", "/events/scheduler", json={"events": events})
    assert response.status_code == 201, response.text
    core_events: list[Json] = response.json()["events"]
    return core_events


def query(member: Member, path: str, **parameters: Any) -> Json:
    response = member.get(path, params=parameters)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json"), response.text
    value: Json = response.json()
    return value
