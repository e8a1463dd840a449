"""Least privilege: each function's policy allows exactly the calls that it makes, and so does the hub's.

Every function runs against an emulator, and its calls are recorded. Its policy must allow these calls and what Lambda
does on its behalf, and nothing else. The recording is complete if it has every operation that the code names, and every
route of the API.
"""

import re
import uuid
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import boto3  # type: ignore[import-untyped]
import pytest

import app
from chalicelib.adapters.aws.client import DYNAMODB, SQS, create_client
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.dynamodb.tables import create_tables
from chalicelib.wiring.telemetry import function_telemetry
from tests.deploy import scenario
from tests.deploy.installation import FUNCTIONS, JWT_KEY, Installation, drop_caches
from tests.deploy.operations import Recorder, boto3_attributes, operations_in_code
from tests.deploy.permissions import ANYTHING, Permission, Place, required_permissions
from tests.deploy.stack import HUB, POLICIES, Stack, statements
from tests.torture.stores import REGION

ALL = ("api_handler", "reader", *FUNCTIONS, HUB)
LAMBDA_ENVIRONMENT = {
    "AWS_LAMBDA_FUNCTION_NAME": "annals",
    "LONGEST_POLL": "0.02",
    "SLACK_HOSTS": "private:127.0.0.1:9",
}
"""Short polls, and no Slack."""
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"}
TABLE = {"TableName": "log"}
PATTERNS = {
    "*": "tracing has no resource",
    "arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:/aws/lambda/${AWS::StackName}-*": "logs",
    "${LogTable.Arn}/export/*": "AWS names exports",
    "arn:${AWS::Partition}:s3:::${AWS::StackName}-${AWS::AccountId}-${AWS::Region}/exports/*": "and their files",
    "arn:${AWS::Partition}:s3:::${AWS::StackName}-${AWS::AccountId}-${AWS::Region}/lake/reports/*": "a page each",
    "arn:${AWS::Partition}:s3:::${AWS::StackName}-${AWS::AccountId}-${AWS::Region}/lake/_new_pages/*": "a list per run",
    "arn:${AWS::Partition}:ses:${AWS::Region}:${AWS::AccountId}:identity/*": "each observer may have another sender",
    "arn:${AWS::Partition}:ses:${AWS::Region}:${AWS::AccountId}:configuration-set/*": "and each a default set",
}
"""Resource patterns in policies, and why they cannot be exact."""


class Recording(NamedTuple):
    """The recorded calls, and the installation that made them."""

    recorder: Recorder
    installation: Installation
    stack: Stack


@pytest.fixture(scope="module")
def recording(ministack: str, aws_environment: None) -> Iterator[Recording]:  # noqa: ARG001
    """Plays the scenario once for all tests."""
    place = Place(REGION, "000000000000")
    parameters = {"JwtKey": JWT_KEY, "MailFrom": "annals@example.org", "Retention": "P30D", "EventBuses": scenario.BUS}
    stack = Stack(f"annals-{uuid.uuid4().hex[:8]}", place, parameters)
    recorder = Recorder(place)
    with recorder.endpoint(ministack) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        session = boto3.Session()
        recorder.attach(session)
        patch.setattr(boto3, "DEFAULT_SESSION", session)
        queues = _create_resources(stack)
        for name, value in (stack.environment() | LAMBDA_ENVIRONMENT).items():
            patch.setenv(name, value)
        drop_caches()
        installation = Installation(recorder, stack, queues)
        scenario.play(installation)
        yield Recording(recorder, installation, stack)
        drop_caches()
        function_telemetry.cache_clear()


def _create_resources(stack: Stack) -> ServiceClient:
    """Create the template's resources that functions call. Returns a client of its queues."""
    create_tables(create_client(DYNAMODB), stack.resource_name("LogTable"), stack.resource_name("ViewsTable"))
    queues = create_client(SQS)
    attributes = {"FifoQueue": "true", "VisibilityTimeout": "180"}
    for name in ("OutboxQueue", "IngestQueue", "IngestDeadLetterQueue"):
        queue = {"QueueName": stack.resource_name(name), "Attributes": attributes}
        stack.urls[name] = queues.call("CreateQueue", queue)["QueueUrl"]
    job = stack.environment()["HISTORY_JOB"]
    boto3.client("sesv2").create_email_identity(EmailIdentity="example.org")
    location = {"LocationConstraint": REGION}
    boto3.client("s3").create_bucket(Bucket=stack.environment()["EXPORT_BUCKET"], CreateBucketConfiguration=location)
    boto3.client("glue").create_job(Name=job, Role="glue", Command={"Name": "glueetl"})
    return queues


def _covers(allowed_permissions: Permission, used: Permission) -> bool:
    return allowed_permissions.action == used.action and fnmatchcase(used.resource, allowed_permissions.resource)


def _describe(permissions: set[Permission]) -> str:
    return ", ".join(f"{permission.action} on {permission.resource}" for permission in sorted(permissions))


@pytest.mark.parametrize("function", ALL)
def test_policy_allows_all_calls_of_function(function: str, recording: Recording) -> None:
    allowed_permissions = recording.stack.allowed_permissions(function)
    calls = recording.recorder.used[function] | recording.stack.lambda_permissions(function)
    missing = {call for call in calls if not any(_covers(permission, call) for permission in allowed_permissions)}
    assert not missing, f"{function} needs {_describe(missing)}"


@pytest.mark.parametrize("function", ALL)
def test_policy_allows_no_other_calls(function: str, recording: Recording) -> None:
    calls = recording.recorder.used[function] | recording.stack.lambda_permissions(function)
    unused = {
        permission
        for permission in recording.stack.allowed_permissions(function)
        if not any(_covers(permission, call) for call in calls)
    }
    assert not unused, f"{function} does not need {_describe(unused)}"


def test_recording_has_every_operation_in_code(recording: Recording) -> None:
    assert recording.recorder.operations == operations_in_code()


def test_recording_has_every_route(recording: Recording) -> None:
    routes = {(method, route) for route, methods in app.app.routes.items() for method in methods}
    assert recording.installation.routes == routes


@pytest.mark.parametrize(
    ("service", "operation", "params", "actions"),
    [
        ("dynamodb", "BatchWriteItem", {"RequestItems": {"log": []}}, ["BatchWriteItem"]),
        ("dynamodb", "UpdateItem", TABLE, ["UpdateItem"]),
        ("sqs", "SendMessageBatch", {"QueueUrl": "https://sqs.example/1/outbox"}, ["SendMessage"]),
        ("sqs", "DeleteMessage", {"QueueUrl": "https://sqs.example/1/outbox"}, ["DeleteMessage"]),
        ("s3", "ListBuckets", {}, ["ListBuckets"]),
    ],
)
def test_required_permissions_of_a_call(
    service: str, operation: str, params: dict[str, Any], actions: list[str]
) -> None:
    permissions = list(required_permissions(service, operation, params, Place(REGION, "1")))
    assert [permission.action for permission in permissions] == [f"{service}:{action}" for action in actions]
    assert {permission.resource.rpartition("/")[2].rpartition(":")[2] for permission in permissions} <= {
        "log",
        "outbox",
        ANYTHING,
    }


def test_code_uses_boto3_for_clients_only() -> None:
    """`session` is used by `Boto3Client` alone, which performs the operations of the recorded client."""
    assert boto3_attributes() == {"client", "session"}


def test_policy_files_match_functions() -> None:
    assert sorted(path.name for path in POLICIES.glob("policy-*.json")) == sorted(
        f"policy-{function}.json" for function in ALL if function != HUB
    )


def test_policy_resources_exist_in_template(recording: Recording) -> None:
    assert all(recording.stack.allowed_permissions(function) for function in ALL)


@pytest.mark.parametrize("function", ALL)
def test_policies_have_no_action_wildcards(function: str) -> None:
    for statement in statements(function):
        assert statement.keys() == {"Effect", "Action", "Resource"}
        assert statement["Effect"] == "Allow"
        assert all(re.fullmatch("[a-z0-9]+:[A-Za-z]+", action) for action in statement["Action"])


def test_resource_patterns_are_known() -> None:
    resources = [
        resource for function in ALL for statement in statements(function) for resource in statement["Resource"]
    ]
    texts = [resource.get("Fn::Sub", "") if isinstance(resource, dict) else resource for resource in resources]
    assert {text for text in texts if "*" in text or "?" in text} == PATTERNS.keys()


@pytest.mark.parametrize("function", ALL)
def test_policies_have_no_duplicate_actions(function: str, recording: Recording) -> None:
    permissions = [
        (action, recording.stack.resolve(resource))
        for statement in statements(function)
        for action in statement["Action"]
        for resource in statement["Resource"]
    ]
    assert len(permissions) == len(set(permissions))


def _log_table_actions(function: str, stack: Stack) -> set[str]:
    """The actions that a function may perform on the log table, directly or by pattern."""
    log = stack.resolve({"Fn::GetAtt": ["LogTable", "Arn"]})
    actions = [
        permission.action for permission in stack.allowed_permissions(function) if fnmatchcase(log, permission.resource)
    ]
    return {action.removeprefix("dynamodb:") for action in actions if action.startswith("dynamodb:")}


def test_no_function_may_change_or_delete_commits(recording: Recording) -> None:
    reads = {"BatchGetItem", "GetItem", "Query", "ExportTableToPointInTime"}
    for function in ALL:
        assert _log_table_actions(function, recording.stack) <= reads | {"PutItem"}, function


def test_only_appending_functions_may_write_log(recording: Recording) -> None:
    writers = {function for function in ALL if _log_table_actions(function, recording.stack) & WRITES}
    assert writers == {"api_handler", "publish", "ingest", "deliver", "clean", "reported", HUB}


def test_reader_may_not_write(recording: Recording) -> None:
    actions = {
        (permission.action, permission.resource.partition(":table/")[2])
        for permission in recording.stack.allowed_permissions("reader")
    }
    assert {action for action, table in actions if table} == {
        "dynamodb:BatchGetItem",
        "dynamodb:GetItem",
        "dynamodb:Query",
    }


def test_only_deliver_and_hub_may_send_mail(recording: Recording) -> None:
    for function in ALL:
        may_send = any(
            permission.action.startswith("ses:") for permission in recording.stack.allowed_permissions(function)
        )
        assert may_send == (function in ("deliver", HUB)), function


def test_only_tracing_has_no_resource(recording: Recording) -> None:
    for function in ALL:
        actions = {
            permission.action
            for permission in recording.stack.allowed_permissions(function)
            if permission.resource == ANYTHING
        }
        traces = set() if function == HUB else {"xray:PutTelemetryRecords", "xray:PutTraceSegments"}
        assert actions == traces, function
