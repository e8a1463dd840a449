"""Properties of the templates and policies that cfn-lint does not check."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from chalice.deploy.swagger import CFNSwaggerGenerator

import app
from infra.deploy.build.package import ROOT, load_template
from infra.deploy.build.route_functions import READER, WRITER, function_for_route

FUNCTIONS = ("api_handler", "bearer", *(function.name for function in app.app.pure_lambda_functions))
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"}
LOGICAL_IDS = {"api_handler": "APIHandler"}


def statements(function: str) -> list[dict[str, Any]]:
    policy: list[dict[str, Any]] = json.loads((ROOT / ".chalice" / f"policy-{function}.json").read_text())["Statement"]
    return policy


def allowed_actions(function: str) -> set[str]:
    return {action for statement in statements(function) for action in statement["Action"]}


def allowed_actions_on(function: str, resource: str) -> set[str]:
    """The actions that a function may perform on a resource of the template."""
    return {
        action.partition(":")[2]
        for statement in statements(function)
        if any(resource in json.dumps(reference) for reference in statement["Resource"])
        for action in statement["Action"]
    }


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_its_policy_file(function: str) -> None:
    config = json.loads((ROOT / ".chalice" / "config.json").read_text())
    assert config["lambda_functions"][function] == {"iam_policy_file": f"policy-{function}.json"}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_policies_have_no_wildcards(function: str) -> None:
    for statement in statements(function):
        assert statement["Effect"] == "Allow"
        assert all(re.fullmatch(r"[a-z0-9]+:[A-Za-z]+", action) for action in statement["Action"])
        # Tracing actions have no resource.
        assert "*" not in statement["Resource"] or all(action.startswith("xray:") for action in statement["Action"])


def test_no_function_may_delete_from_log() -> None:
    for function in FUNCTIONS:
        assert allowed_actions_on(function, "LogTable") & (WRITES - {"PutItem"}) == set()


def test_reading_functions_may_not_write_log() -> None:
    for function in ("bearer", "project", "observe", "export", "exported"):
        assert allowed_actions_on(function, "LogTable") & WRITES == set()


def test_only_deliver_may_send_mail() -> None:
    assert [
        function for function in FUNCTIONS if any(action.startswith("ses:") for action in allowed_actions(function))
    ] == ["deliver"]


def test_policies_refer_to_existing_resources() -> None:
    resources = load_template()["Resources"]
    for path in sorted(Path(ROOT / ".chalice").glob("policy-*.json")):
        for name, _ in re.findall(r'"Fn::GetAtt": \[\s*"(\w+)",\s*"(\w+)"', path.read_text()):
            assert name in resources, path.name


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_alarm_and_log_retention(function: str) -> None:
    resources = load_template()["Resources"]
    logical_id = LOGICAL_IDS.get(function, function.capitalize())
    logs = resources[logical_id]["Properties"]["LoggingConfig"]["LogGroup"]["Ref"]
    assert resources[logs]["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}
    alarms = [resource for resource in resources.values() if resource.get("Type") == "AWS::CloudWatch::Alarm"]
    assert any(f'"Ref": "{logical_id}"' in json.dumps(alarm) for alarm in alarms)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("DEFAULT_5XX", 503),
        ("INTEGRATION_FAILURE", 503),
        ("AUTHORIZER_FAILURE", 503),
        ("INTEGRATION_TIMEOUT", 504),
        ("THROTTLED", 429),
        ("QUOTA_EXCEEDED", 429),
        ("UNAUTHORIZED", 401),
        ("ACCESS_DENIED", 401),
        ("MISSING_AUTHENTICATION_TOKEN", 404),
        ("REQUEST_TOO_LARGE", 413),
        ("UNSUPPORTED_MEDIA_TYPE", 415),
    ],
)
def test_gateway_responses_are_problem_documents(kind: str, status: int) -> None:
    definition = load_template()["Resources"]["RestAPI"]["Properties"]["DefinitionBody"]
    response = definition["x-amazon-apigateway-gateway-responses"][kind]
    headers = response["responseParameters"]
    problem = json.loads(response["responseTemplates"]["application/json"])
    assert (response["statusCode"], problem["status"]) == (status, status)
    assert headers["gatewayresponse.header.Content-Type"] == "'application/problem+json'"
    assert headers["gatewayresponse.header.Access-Control-Allow-Origin"] == "'*'"
    assert ("gatewayresponse.header.Retry-After" in headers) == (status in (429, 503, 504))


@pytest.mark.parametrize("name", ["ProjectFromStream", "ObserveFromStream"])
def test_stream_mappings_limit_retries(name: str) -> None:
    mapping = load_template()["Resources"][name]["Properties"]
    assert mapping["FilterCriteria"] == {"Filters": [{"Pattern": '{"eventName": ["INSERT"]}'}]}
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BisectBatchOnFunctionError"] is True
    assert 0 < mapping["MaximumRetryAttempts"] < 10_000
    assert 0 < mapping["MaximumRecordAgeInSeconds"] <= 86_400
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": ["StreamFailureQueue", "Arn"]}


@pytest.mark.parametrize("alarm", ["ParkedDeliveriesAlarm", "ConflictsAlarm"])
def test_alarms_on_own_metrics_are_per_stack(alarm: str) -> None:
    properties = load_template()["Resources"][alarm]["Properties"]
    assert properties["Dimensions"] == [{"Name": "stack", "Value": {"Ref": "AWS::StackName"}}]


def test_dashboard_shows_own_metrics_per_stack() -> None:
    text, _ = load_template()["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    own = re.findall(r'\["Annals", "\w+",? ?(.*)\]', text)
    assert len(own) == 5
    assert all(rest.startswith('"stack", "${AWS::StackName}"') for rest in own)


def test_overdue_reports_raise_alarm_after_26_hours() -> None:
    alarm = load_template()["Resources"]["ReportsOverdueAlarm"]
    properties = alarm["Properties"]
    periods = {metric["MetricStat"]["Period"] for metric in properties["Metrics"] if "MetricStat" in metric}
    assert alarm["Condition"] == "HasGlue"
    assert (periods, properties["EvaluationPeriods"]) == ({3600}, 26)


def test_signing_key_is_not_in_all_functions() -> None:
    """The hub verifies tokens. Without the authorizer, APIHandler and the functions with its environment do so, too."""
    template = load_template()
    assert "JwtKey" not in json.dumps(template["Globals"])
    resources = template["Resources"]
    assert [name for name, one in resources.items() if "JwtKey" in json.dumps(one)] == [
        "APIHandler",
        "Bearer",
        "HubTask",
    ]
    key = {"Fn::If": ["HasAuthorizer", {"Ref": "AWS::NoValue"}, {"Ref": "JwtKey"}]}
    assert resources["APIHandler"]["Properties"]["Environment"] == {"Variables": {"JWT_KEY": key}}


def test_ping_routes_have_no_authorizer_and_may_write() -> None:
    paths = CFNSwaggerGenerator().generate_swagger(app.app)["paths"]
    pings = {path: methods for path, methods in paths.items() if path.startswith("/ping/")}
    assert pings.keys() == {"/ping/{key}/{name}", "/ping/{key}/{name}/{signal}"}
    for path, methods in pings.items():
        assert methods.keys() == {"get", "head", "post"}
        assert not any("security" in operation for operation in methods.values())
        assert {function_for_route(path, method) for method in methods} == {WRITER}
    assert function_for_route("/ping-keys", "get") == READER
    assert all(
        "security" in operation for path in ("/ping-keys", "/ping-keys/{name}") for operation in paths[path].values()
    )


def test_outputs_name_functions_and_queues() -> None:
    outputs = load_template()["Outputs"]
    assert outputs["PublishFunctionName"]["Value"] == {"Ref": "Publish"}
    queues = [name for name, one in load_template()["Resources"].items() if one.get("Type") == "AWS::SQS::Queue"]
    assert {output["Value"].get("Ref") for output in outputs.values()} >= set(queues)


def test_views_table_has_backups() -> None:
    properties = load_template()["Resources"]["ViewsTable"]["Properties"]
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_log_table_has_backups_and_deletion_protection() -> None:
    table = load_template()["Resources"]["LogTable"]
    properties = table["Properties"]
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert properties["DeletionProtectionEnabled"] == {"Fn::If": ["IsProtected", True, False]}
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["StreamSpecification"] == {"StreamViewType": "NEW_IMAGE"}
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}


def test_template_uses_no_escape_in_sub() -> None:
    """LocalStack does not know `${!...}`."""
    assert "${!" not in json.dumps(load_template())
