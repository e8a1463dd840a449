"""Checks of the stack: a failed update, the reports of a day, and the cost of a day."""

import json
import time
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from infra.deploy.smoke.target import CheckFailed, NotPossible, Target
from infra.deploy.stack import clients
from infra.deploy.stack.stacks import CAPABILITIES

WRONG_SCHEDULE: Final = "rate(0 minutes)"
"""Valid for CloudFormation, refused by EventBridge."""
EXPORT_INTERVAL_S: Final = 60.0


def fail_update(target: Target) -> str:
    """An update with a wrong parameter is rolled back, and the stage still works."""
    target.require_aws("the emulator accepts wrong schedules")
    _update(target, {"CleanSchedule": WRONG_SCHEDULE})
    target.until(lambda: not _status(target).endswith("_IN_PROGRESS"), "the end of the update")
    if _status(target) != "UPDATE_ROLLBACK_COMPLETE":
        raise CheckFailed(f"the stack is {_status(target)} after an update with a wrong parameter")
    target.request("GET", "/health").expect(HTTPStatus.OK)
    return "rolled back, the API answers"


def _update(target: Target, parameters: dict[str, str]) -> None:
    """Start an update of these parameters."""
    kept = [
        {"ParameterKey": name, "UsePreviousValue": True} for name in target.stack.parameters() if name not in parameters
    ]
    changed = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
    clients.client("cloudformation").update_stack(
        StackName=target.stack.name,
        UsePreviousTemplate=True,
        Parameters=[*kept, *changed],
        Capabilities=list(CAPABILITIES),
    )


def _status(target: Target) -> str:
    return str((target.stack.description() or {}).get("StackStatus", "missing"))


def build_report(target: Target) -> str:
    """Export, arrival, Glue jobs and report. An incremental export needs another run on the next day."""
    target.parameter("GlueScripts", "the stage has no Glue jobs")
    target.create_organization()
    target.publish({"type": ["smoke"]})
    invoked_s = float("-inf")

    def is_ready() -> bool:
        nonlocal invoked_s
        # Exports are 15 minutes apart, so the first call may be too early.
        if time.monotonic() > invoked_s + EXPORT_INTERVAL_S:
            invoked_s = time.monotonic()
            _invoke(target, "Export")
        return any(event["type"][:2] == ["report", "ready"] for event in target.read()[0])

    target.until(is_ready, "the event report/ready")
    return "exported, loaded, reported"


def _invoke(target: Target, function: str) -> None:
    event = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
    response = clients.client("lambda").invoke(
        FunctionName=target.resource(function), Payload=json.dumps(event).encode()
    )
    if "FunctionError" in response:
        raise CheckFailed(f"{function}: {response['Payload'].read()[:300]!r}")


def read_costs(target: Target) -> str:
    """What yesterday cost in this account, to compare with the table in the documentation."""
    target.require_aws("the emulator costs nothing")
    created: datetime = (target.stack.description() or {})["CreationTime"]
    today = datetime.now(UTC).date()
    if created.date() >= today - timedelta(days=1):
        raise NotPossible("the stage is younger than a whole day: run the check again in two days")
    costs: Any = clients.client("ce").get_cost_and_usage(
        TimePeriod={"Start": str(today - timedelta(days=1)), "End": str(today)},
        Granularity="DAILY",
        Metrics=["UnblendedCost"],
    )["ResultsByTime"][0]["Total"]["UnblendedCost"]
    return f"{float(costs['Amount']):.2f} {costs['Unit']} yesterday in the whole account"
