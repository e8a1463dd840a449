"""What a Lambda function costs in CPU time, in the package as it is deployed: cold start, append, idle poll."""

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

from benchmarks.dynamodb_stub import DIRECTORY as DIRECTORY_ANSWER
from benchmarks.dynamodb_stub import answering
from benchmarks.events import job_events
from benchmarks.lambda_child import EVENTS
from benchmarks.results import Row, Table
from benchmarks.table import Goal
from chalicelib.adapters.dynamodb.items import item_from_commit
from chalicelib.domain.organizations.organization import DIRECTORY
from chalicelib.http.auth.caller import context
from chalicelib.http.auth.tokens import Claims
from chalicelib.settings import Settings
from chalicelib.wiring import embedded
from infra.deploy.build.package import package

ORGANIZATION = "bench"
HELLO, BOTO3 = "Chalice's hello, with boto3", "boto3, one client"
COLD = Goal(1.5, at_most=True, of=HELLO)
APPEND, POLL = Goal(3, at_most=True), Goal(1.5, at_most=True)


def measured(rounds: int) -> Iterator[Table]:
    """CPU time of the package as it is deployed, with a stub for DynamoDB that answers at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        answers = {DIRECTORY_ANSWER: _directory(folder / "data"), "Query": {"Items": [], "Count": 0}}
        with answering(answers, folder) as endpoint:
            environment = _environment(_unpacked(folder), endpoint)
            yield Table("cold start", (_cold_row(environment, rounds),))
            rows = (
                _warm_row(environment, rounds, f"append of {EVENTS} events", append_request(), APPEND),
                _warm_row(environment, rounds, "poll that finds nothing", poll_request(), POLL),
            )
            yield Table("warm, per request", rows)


def append_request() -> dict[str, Any]:
    """A request with some events, as API Gateway hands it to the function."""
    return _request("POST", "/events", {}, json.dumps({"events": list(job_events(EVENTS))}))


def poll_request() -> dict[str, Any]:
    """A request for what is new, of which there is nothing."""
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
            "authorizer": {**context(claims), "principalId": "bench"},
            "identity": {"sourceIp": "127.0.0.1"},
        },
        "body": body,
        "isBase64Encoded": False,
    }


def _cold_row(environment: Mapping[str, str], rounds: int) -> Row:
    """In turns, each time in a new process."""
    kinds = {"Annals": "cold", HELLO: "hello", BOTO3: "boto3"}
    found = [{kind: _run(environment, what, append_request()) for kind, what in kinds.items()} for _ in range(rounds)]
    return Row(
        "import, first POST /events", "ms", {kind: median(one[kind] for one in found) for kind in kinds}, (COLD,)
    )


def _warm_row(environment: Mapping[str, str], rounds: int, name: str, event: dict[str, Any], goal: Goal) -> Row:
    return Row(name, "ms", {"Annals": median(_run(environment, "warm", event) for _ in range(rounds))}, (goal,))


def _run(environment: Mapping[str, str], what: str, event: dict[str, Any]) -> float:
    script = Path(__file__).with_name("lambda_child.py")
    command = [sys.executable, str(script), what, json.dumps(event)]
    ended = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr[-2000:])
    return float(ended.stdout.splitlines()[-1])


def _environment(code: Path, endpoint: str) -> dict[str, str]:
    """As Lambda and our template set it."""
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


def _unpacked(folder: Path) -> Path:
    made = package("dev", folder / "package")
    code = folder / "code"
    with zipfile.ZipFile(made.functions) as archive:
        archive.extractall(code)
    return code


def _directory(data: Path) -> dict[str, Any]:
    """The directory with one organization, as a query finds it."""
    data.mkdir()
    parts = embedded(Settings.from_environment({"DATA_DIR": str(data), "JWT_KEY": "k" * 40}))
    parts.organizations.create(ORGANIZATION)
    items = [item_from_commit(commit) for commit in parts.log.read(DIRECTORY, 0)]
    parts.close()
    return {"Items": items, "Count": len(items)}
