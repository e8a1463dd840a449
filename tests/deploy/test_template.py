"""What the templates and the policies must say, whatever else they do; cfn-lint tells whether AWS takes them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import app
from infra.deploy.build.package import ROOT, template

FUNCTIONS = ("api_handler", "bearer", *(function.name for function in app.app.pure_lambda_functions))
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"}
LOGICAL = {"api_handler": "APIHandler"}


def statements(function: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / ".chalice" / f"policy-{function}.json").read_text())["Statement"]
    return found


def may(function: str) -> set[str]:
    return {action for statement in statements(function) for action in statement["Action"]}


def may_to(function: str, resource: str) -> set[str]:
    """What a function may do to a resource of the template."""
    return {
        action.partition(":")[2]
        for statement in statements(function)
        if any(resource in json.dumps(one) for one in statement["Resource"])
        for action in statement["Action"]
    }


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_a_policy_of_its_own(function: str) -> None:
    config = json.loads((ROOT / ".chalice" / "config.json").read_text())
    assert config["lambda_functions"][function] == {"iam_policy_file": f"policy-{function}.json"}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_policy_allows_more_than_it_names(function: str) -> None:
    for statement in statements(function):
        assert statement["Effect"] == "Allow"
        assert all(re.fullmatch(r"[a-z0-9]+:[A-Za-z]+", action) for action in statement["Action"])
        # Traces have no resource.
        assert "*" not in statement["Resource"] or all(action.startswith("xray:") for action in statement["Action"])


def test_nobody_can_delete_from_the_log() -> None:
    for function in FUNCTIONS:
        assert may_to(function, "LogTable") & (WRITES - {"PutItem"}) == set()


def test_those_who_read_the_log_for_others_cannot_write_it() -> None:
    for function in ("bearer", "project", "observe", "export", "exported"):
        assert may_to(function, "LogTable") & WRITES == set()


def test_only_deliver_may_send_mail() -> None:
    assert [function for function in FUNCTIONS if any(one.startswith("ses:") for one in may(function))] == ["deliver"]


def test_policies_name_nothing_that_the_template_does_not_have() -> None:
    resources = template()["Resources"]
    for path in sorted(Path(ROOT / ".chalice").glob("policy-*.json")):
        for name, _ in re.findall(r'"Fn::GetAtt": \[\s*"(\w+)",\s*"(\w+)"', path.read_text()):
            assert name in resources, path.name


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_an_alarm_and_a_log_that_ends(function: str) -> None:
    resources = template()["Resources"]
    logical = LOGICAL.get(function, function.capitalize())
    logs = resources[logical]["Properties"]["LoggingConfig"]["LogGroup"]["Ref"]
    assert resources[logs]["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}
    alarms = [one for one in resources.values() if one.get("Type") == "AWS::CloudWatch::Alarm"]
    assert any(f'"Ref": "{logical}"' in json.dumps(alarm) for alarm in alarms)


@pytest.mark.parametrize("name", ["ProjectFromStream", "ObserveFromStream"])
def test_the_stream_is_not_tried_for_ever(name: str) -> None:
    mapping = template()["Resources"][name]["Properties"]
    assert mapping["FilterCriteria"] == {"Filters": [{"Pattern": '{"eventName": ["INSERT"]}'}]}
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BisectBatchOnFunctionError"] is True
    assert 0 < mapping["MaximumRetryAttempts"] < 10_000
    assert 0 < mapping["MaximumRecordAgeInSeconds"] <= 86_400
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": ["StreamFailureQueue", "Arn"]}


def test_the_log_can_be_restored_and_is_not_deleted_by_mistake() -> None:
    table = template()["Resources"]["LogTable"]
    properties = table["Properties"]
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert properties["DeletionProtectionEnabled"] == {"Fn::If": ["IsProtected", True, False]}
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["StreamSpecification"] == {"StreamViewType": "NEW_IMAGE"}
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
