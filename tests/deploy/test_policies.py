"""Least privilege: each function may do what it does, and nothing else.

Every function is run against an AWS of this machine, and what it calls is recorded: its policy has to allow exactly
that, and what Lambda does in its name. The recording is complete if it has every operation that the code names, and
every route of the API.
"""

import re
import uuid
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import boto3  # type: ignore[import-untyped]
import pytest

import app
from chalicelib.adapters.aws.client import DYNAMODB, SQS, client
from chalicelib.adapters.aws.protocol import Calls
from chalicelib.adapters.dynamodb.tables import create_tables
from chalicelib.wiring.telemetry import watch
from tests.deploy import scenario
from tests.deploy.installation import FUNCTIONS, JWT_KEY, Installation, forget
from tests.deploy.operations import Recorder, made_with_boto3, operations_in_code
from tests.deploy.permissions import ANYTHING, Permission, Place, needed
from tests.deploy.stack import POLICIES, Stack, statements
from tests.torture.stores import REGION

ALL = ("api_handler", "reader", *FUNCTIONS)
LAMBDA_ENVIRONMENT = {
    "AWS_LAMBDA_FUNCTION_NAME": "annals",
    "LONGEST_POLL": "0.02",
    "SLACK_HOSTS": "private:127.0.0.1:9",
}
"""Who waits waits for little; where Slack would be nobody answers."""
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"}
TABLE = {"TableName": "log"}
PATTERNS = {
    "*": "traces have no resource",
    "arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:/aws/lambda/${AWS::StackName}-*": "streams",
    "${LogTable.Arn}/export/*": "an export has its name from AWS",
    "arn:${AWS::Partition}:s3:::${AWS::StackName}-${AWS::AccountId}-${AWS::Region}/exports/*": "and its files, too",
    "arn:${AWS::Partition}:s3:::${AWS::StackName}-${AWS::AccountId}-${AWS::Region}/lake/reports/*": "a page for each",
    "arn:${AWS::Partition}:ses:${AWS::Region}:${AWS::AccountId}:identity/*": "each observer may have its own sender",
}
"""Where a policy cannot say what is meant by its name, and why."""


class Recording(NamedTuple):
    """What was done, where."""

    recorder: Recorder
    installation: Installation
    stack: Stack


@pytest.fixture(scope="module")
def recording(ministack: str, aws_environment: None) -> Iterator[Recording]:  # noqa: ARG001
    """The scenario, once for all tests."""
    place = Place(REGION, "000000000000")
    parameters = {"JwtKey": JWT_KEY, "MailFrom": "annals@example.org", "Retention": "P30D"}
    stack = Stack(f"annals-{uuid.uuid4().hex[:8]}", place, parameters)
    recorder = Recorder(place)
    with recorder.endpoint(ministack) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        session = boto3.Session()
        recorder.listen(session)
        patch.setattr(boto3, "DEFAULT_SESSION", session)
        queues = _create(stack)
        for name, value in (stack.environment() | LAMBDA_ENVIRONMENT).items():
            patch.setenv(name, value)
        forget()
        installation = Installation(recorder, stack, queues)
        scenario.play(installation)
        yield Recording(recorder, installation, stack)
        forget()
        watch.cache_clear()  # whoever comes next in this process is no Lambda function


def _create(stack: Stack) -> Calls:
    """Make what the template makes, as far as functions call it; a client of its queues."""
    create_tables(client(DYNAMODB), stack.resource_name("LogTable"), stack.resource_name("ViewsTable"))
    queues = client(SQS)
    attributes = {"FifoQueue": "true", "VisibilityTimeout": "180"}
    queue = {"QueueName": stack.resource_name("OutboxQueue"), "Attributes": attributes}
    stack.urls["OutboxQueue"] = queues.call("CreateQueue", queue)["QueueUrl"]
    job = stack.environment()["HISTORY_JOB"]
    boto3.client("sesv2").create_email_identity(EmailIdentity="example.org")
    boto3.client("glue").create_job(Name=job, Role="glue", Command={"Name": "glueetl"})
    return queues


def _covers(allowed: Permission, used: Permission) -> bool:
    return allowed.action == used.action and fnmatchcase(used.resource, allowed.resource)


def _listed(permissions: set[Permission]) -> str:
    return ", ".join(f"{one.action} on {one.resource}" for one in sorted(permissions))


@pytest.mark.parametrize("function", ALL)
def test_a_function_may_do_all_that_it_does(function: str, recording: Recording) -> None:
    allowed = recording.stack.allowed(function)
    done = recording.recorder.used[function] | recording.stack.for_lambda(function)
    missing = {one for one in done if not any(_covers(may, one) for may in allowed)}
    assert not missing, f"{function} needs {_listed(missing)}"


@pytest.mark.parametrize("function", ALL)
def test_a_function_may_do_nothing_that_it_does_not_do(function: str, recording: Recording) -> None:
    done = recording.recorder.used[function] | recording.stack.for_lambda(function)
    unused = {may for may in recording.stack.allowed(function) if not any(_covers(may, one) for one in done)}
    assert not unused, f"{function} does not need {_listed(unused)}"


def test_every_operation_that_the_code_names_was_recorded(recording: Recording) -> None:
    assert recording.recorder.operations == operations_in_code()


def test_every_route_was_asked(recording: Recording) -> None:
    routes = {(method, route) for route, methods in app.app.routes.items() for method in methods}
    assert recording.installation.routes == routes


@pytest.mark.parametrize(
    ("service", "operation", "params", "actions"),
    [
        (
            "dynamodb",
            "TransactWriteItems",
            {"TransactItems": [{"Put": TABLE}, {"Delete": TABLE}]},
            ["PutItem", "DeleteItem"],
        ),
        ("dynamodb", "TransactWriteItems", {"TransactItems": [{"ConditionCheck": TABLE}]}, ["ConditionCheckItem"]),
        ("dynamodb", "BatchWriteItem", {"RequestItems": {"log": []}}, ["BatchWriteItem"]),
        ("dynamodb", "UpdateItem", TABLE, ["UpdateItem"]),
        ("sqs", "SendMessageBatch", {"QueueUrl": "https://sqs.example/1/outbox"}, ["SendMessage"]),
        ("sqs", "DeleteMessage", {"QueueUrl": "https://sqs.example/1/outbox"}, ["DeleteMessage"]),
        ("s3", "ListBuckets", {}, ["ListBuckets"]),
    ],
)
def test_what_iam_asks_for_a_call(service: str, operation: str, params: dict[str, Any], actions: list[str]) -> None:
    asked = list(needed(service, operation, params, Place(REGION, "1")))
    assert [one.action for one in asked] == [f"{service}:{action}" for action in actions]
    assert {one.resource.rpartition("/")[2].rpartition(":")[2] for one in asked} <= {"log", "outbox", ANYTHING}


def test_the_code_makes_clients_and_no_other_objects_that_call_aws() -> None:
    assert made_with_boto3() == {"client"}


def test_there_is_a_policy_for_each_function_and_no_other() -> None:
    assert sorted(path.name for path in POLICIES.glob("policy-*.json")) == sorted(f"policy-{one}.json" for one in ALL)


def test_no_policy_names_anything_that_the_template_does_not_have(recording: Recording) -> None:
    assert all(recording.stack.allowed(function) for function in ALL)


@pytest.mark.parametrize("function", ALL)
def test_policies_name_each_action(function: str) -> None:
    for statement in statements(function):
        assert statement.keys() == {"Effect", "Action", "Resource"}
        assert statement["Effect"] == "Allow"
        assert all(re.fullmatch("[a-z0-9]+:[A-Za-z]+", action) for action in statement["Action"])


def test_resources_are_named_unless_nobody_knows_their_names() -> None:
    listed = [resource for function in ALL for statement in statements(function) for resource in statement["Resource"]]
    texts = [resource.get("Fn::Sub", "") if isinstance(resource, dict) else resource for resource in listed]
    assert {text for text in texts if "*" in text or "?" in text} == PATTERNS.keys()


@pytest.mark.parametrize("function", ALL)
def test_no_action_is_allowed_twice(function: str, recording: Recording) -> None:
    listed = [
        (action, recording.stack.resolved(resource))
        for statement in statements(function)
        for action in statement["Action"]
        for resource in statement["Resource"]
    ]
    assert len(listed) == len(set(listed))


def _to_the_log(function: str, stack: Stack) -> set[str]:
    """The actions that a function may do to the log's table, be it by a pattern."""
    log = stack.resolved({"Fn::GetAtt": ["LogTable", "Arn"]})
    found = [may.action for may in stack.allowed(function) if fnmatchcase(log, may.resource)]
    return {action.removeprefix("dynamodb:") for action in found if action.startswith("dynamodb:")}


def test_nobody_may_change_or_delete_what_is_in_the_log(recording: Recording) -> None:
    reads = {"BatchGetItem", "GetItem", "Query", "ExportTableToPointInTime"}
    for function in ALL:
        assert _to_the_log(function, recording.stack) <= reads | {"PutItem"}, function


def test_only_those_who_append_may_write_the_log(recording: Recording) -> None:
    writers = {function for function in ALL if _to_the_log(function, recording.stack) & WRITES}
    assert writers == {"api_handler", "publish", "ingest", "deliver", "clean", "reported"}


def test_the_reader_may_write_nothing(recording: Recording) -> None:
    kinds = {(may.action, may.resource.partition(":table/")[2]) for may in recording.stack.allowed("reader")}
    assert {action for action, table in kinds if table} == {
        "dynamodb:BatchGetItem",
        "dynamodb:GetItem",
        "dynamodb:Query",
    }


def test_only_deliver_may_send_mail(recording: Recording) -> None:
    for function in ALL:
        may_send = any(may.action.startswith("ses:") for may in recording.stack.allowed(function))
        assert may_send == (function == "deliver"), function


def test_only_traces_are_of_no_resource(recording: Recording) -> None:
    for function in ALL:
        anything = {may.action for may in recording.stack.allowed(function) if may.resource == ANYTHING}
        assert anything == {"xray:PutTelemetryRecords", "xray:PutTraceSegments"}, function
