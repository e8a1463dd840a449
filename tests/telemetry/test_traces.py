"""What X-Ray is told: who did what, and what failed, but not in which words."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.telemetry.lambdas import request
from tests.torture.stores import REGION

ROOT = Path(__file__).parent.parent.parent
SECRET = "s3cr3tZk9"
TRACE = "1-5759e988-bd862e3fe1be46a994272793"
SCRIPT = """
import json, sys
import app
class Context:
    aws_request_id = "lambda-1"
for event in json.load(sys.stdin):
    try:
        app.app(event, Context()) if "httpMethod" in event else app.publish(event, Context())
    except Exception as failure:
        pass
print(sorted({name.partition(".")[0] for name in sys.modules} & {"aws_xray_sdk", "wrapt"}))
"""


@pytest.fixture
def daemon() -> Any:
    """What X-Ray's daemon gets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        opened.setblocking(False)
        yield opened


def run(daemon: socket.socket, endpoint: str, tables: tuple[str, str], folder: Path, tracing: str) -> list[str]:
    """Call functions in a process of their own; which of the SDK was loaded."""
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_LAMBDA_FUNCTION_NAME": "annals-api",
        "LAMBDA_TASK_ROOT": str(folder),
        "_X_AMZN_TRACE_ID": f"Root={TRACE};Parent=53995c3f42cd8ad8;Sampled=1",
        "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "LOG_TABLE": tables[0],
        "VIEWS_TABLE": tables[1],
        "TRACING": tracing,
    }
    events = [
        request("PUT", "/organizations/{org}", path_parameters={"org": "acme"}),
        request("POST", "/events", {"events": [{"type": [SECRET], "key": SECRET}]}),
        {"org": "acme", "events": [{"type": [f"{SECRET}?"]}]},
    ]
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, input=json.dumps(events), check=True, capture_output=True, text=True
    )
    assert done.stderr == ""
    found: list[str] = json.loads(done.stdout.splitlines()[-1].replace("'", '"'))
    return found


def received(daemon: socket.socket) -> list[dict[str, Any]]:
    """All that the daemon got."""
    found = []
    while True:
        try:
            found.append(json.loads(daemon.recv(65536).partition(b"\n")[2]))
        except BlockingIOError:
            return found


def test_an_invocation_and_its_calls_are_subsegments_without_words(
    daemon: socket.socket, ministack: str, ministack_tables: tuple[str, str], tmp_path: Path
) -> None:
    assert run(daemon, ministack, ministack_tables, tmp_path, "on") == ["aws_xray_sdk", "wrapt"]
    told = received(daemon)
    invocations = [one for one in told if one["name"] == "## annals-api"]
    assert [one["annotations"] for one in invocations] == [{"function": "annals-api", "organization": "acme"}] * 3
    assert [one["trace_id"] for one in told] == [TRACE] * len(told)
    puts = [one for one in told if one["name"] == "dynamodb" and one["aws"]["operation"] == "PutItem"]
    assert [put["parent_id"] for put in puts] == [one["id"] for one in invocations[:2]]
    (failure,) = invocations[2]["cause"]["exceptions"]
    assert (failure["type"], "message" in failure, failure["stack"][-1]["label"]) == ("BadInput", False, "checked")
    assert SECRET not in json.dumps(told)


def test_without_tracing_nothing_is_told_and_nothing_loaded(
    daemon: socket.socket, ministack: str, ministack_tables: tuple[str, str], tmp_path: Path
) -> None:
    assert run(daemon, ministack, ministack_tables, tmp_path, "off") == []
    assert received(daemon) == []
