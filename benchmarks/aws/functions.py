"""CPU time of a Lambda function from the deployed package: cold start, append, idle poll."""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.aws.dynamodb_stub import DIRECTORY as DIRECTORY_RESPONSE
from benchmarks.aws.dynamodb_stub import run_stub
from benchmarks.aws.lambda_child import EVENTS
from benchmarks.load.job_events import job_events
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal
from chalicelib.adapters.dynamodb.items import item_from_commit
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER
from chalicelib.http.auth.caller import authorizer_context
from chalicelib.http.auth.tokens import Claims
from chalicelib.settings import Settings
from chalicelib.wiring import build_local
from infra.deploy.build.package import build_package
from infra.deploy.build.target import LOCAL

ORGANIZATION = "bench"
HELLO, BOTO3 = "Chalice's hello, with boto3", "boto3, one client"
COLD_START_GOAL = Goal(1.5, at_most=True, of=HELLO)
APPEND_GOAL, POLL_GOAL = Goal(3, at_most=True), Goal(1.5, at_most=True)


def measure(rounds: int) -> Iterator[Table]:
    """CPU time of the deployed package against a DynamoDB stub that responds immediately."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        responses = {DIRECTORY_RESPONSE: _directory_response(folder / "data"), "Query": {"Items": [], "Count": 0}}
        with run_stub(responses, folder) as endpoint:
            environment = _environment(_unpack_package(folder), endpoint)
            yield Table("cold start", (_cold_row(environment, rounds),))
            rows = (
                _warm_row(environment, rounds, f"append of {EVENTS} events", append_request(), APPEND_GOAL),
                _warm_row(environment, rounds, "poll that finds nothing", poll_request(), POLL_GOAL),
            )
            yield Table("warm, per request", rows)


def append_request() -> dict[str, Any]:
    """A request with events, as API Gateway passes it to the function."""
    return _request("POST", "/events", {}, json.dumps({"events": list(job_events(EVENTS))}))


def poll_request() -> dict[str, Any]:
    """A poll that finds no new events."""
    return _request("GET", "/events", {"after": "0"}, None)


def _request(method: str, path: str, query: Mapping[str, str], body: str | None) -> dict[str, Any]:
    claims = Claims(user="bench", organizations=(ORGANIZATION,), groups=("publishers", "readers"), expires_s=2**32)
    return {
        "resource": path,
        "path": path,
        "httpMethod": method,
        "headers": {"content-type": "application/json"},
        "multiValueHeaders": {"content-type": ["application/json"]},
        "queryStringParameters": dict(query) or None,
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()} or None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": {
            "resourcePath": path,
            "httpMethod": method,
            "requestId": "11111111-1111-1111-1111-111111111111",
            "authorizer": {**authorizer_context(claims), "principalId": "bench"},
            "identity": {"sourceIp": "127.0.0.1"},
        },
        "body": body,
        "isBase64Encoded": False,
    }


def _cold_row(environment: Mapping[str, str], rounds: int) -> Row:
    """Measure the variants in turn, each time in a new process."""
    kinds = {"Annals": "cold", HELLO: "hello", BOTO3: "boto3"}
    times = [{kind: _run(environment, mode, append_request()) for kind, mode in kinds.items()} for _ in range(rounds)]
    return Row(
        "import, first POST /events",
        "ms",
        {kind: median(round_[kind] for round_ in times) for kind in kinds},
        (COLD_START_GOAL,),
    )


def _warm_row(environment: Mapping[str, str], rounds: int, name: str, event: dict[str, Any], goal: Goal) -> Row:
    return Row(name, "ms", {"Annals": median(_run(environment, "warm", event) for _ in range(rounds))}, (goal,))


def _run(environment: Mapping[str, str], mode: str, event: dict[str, Any]) -> float:
    script = Path(__file__).with_name("lambda_child.py")
    command = [sys.executable, str(script), mode, json.dumps(event)]
    ended = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr[-2000:])
    return float(ended.stdout.splitlines()[-1])


def _environment(code: Path, endpoint: str) -> dict[str, str]:
    """The environment that Lambda and the CloudFormation template set."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(code),
        "AWS_LAMBDA_FUNCTION_NAME": "annals-bench",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYDANTIC_DISABLE_PLUGINS": "__all__",
        "STORE": "dynamodb",
        "LOG_TABLE": "log",
        "VIEWS_TABLE": "views",
        "OUTBOX_QUEUE_URL": f"{endpoint}/outbox",
        "JWT_KEY": "k" * 40,
    }


def _unpack_package(folder: Path) -> Path:
    built = build_package("dev", folder / "package", LOCAL)
    code = folder / "code"
    with zipfile.ZipFile(built.functions) as archive:
        archive.extractall(code)
    return code


def _directory_response(data: Path) -> dict[str, Any]:
    """The query response for a directory with one organization."""
    data.mkdir()
    components = build_local(Settings.from_environment({"DATA_DIR": str(data), "JWT_KEY": "k" * 40}))
    components.log.organizations.create(ORGANIZATION)
    items = [item_from_commit(commit) for commit in components.stores.log.read(DIRECTORY_SERVER, 0)]
    components.close()
    return {"Items": items, "Count": len(items)}
