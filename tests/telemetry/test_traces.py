"""Traces sent to X-Ray: invocations, calls and failures, without messages."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.telemetry.lambda_runner import request
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
    """Traces sent to X-Ray: invocations, calls and failures, without messages."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp_socket:
        udp_socket.bind(("127.0.0.1", 0))
        udp_socket.setblocking(False)
        yield udp_socket


def run_functions(
    daemon: socket.socket, endpoint: str, tables: tuple[str, str], folder: Path, tracing: str
) -> list[str]:
    """Call functions in a new process. Returns which modules of the X-Ray SDK it imported."""
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
    process = subprocess.run(
        command, cwd=ROOT, env=environment, input=json.dumps(events), check=True, capture_output=True, text=True
    )
    assert process.stderr == ""
    modules: list[str] = json.loads(process.stdout.splitlines()[-1].replace("'", '"'))
    return modules


def received_segments(daemon: socket.socket) -> list[dict[str, Any]]:
    """All segments that the daemon has received."""
    segments = []
    while True:
        try:
            segments.append(json.loads(daemon.recv(65536).partition(b"\n")[2]))
        except BlockingIOError:
            return segments


def test_tracing_on_sends_subsegments_without_messages(
    daemon: socket.socket, ministack: str, ministack_tables: tuple[str, str], tmp_path: Path
) -> None:
    assert run_functions(daemon, ministack, ministack_tables, tmp_path, "on") == ["aws_xray_sdk", "wrapt"]
    subsegments = received_segments(daemon)
    invocations = [subsegment for subsegment in subsegments if subsegment["name"] == "## annals-api"]
    assert [subsegment["annotations"] for subsegment in invocations] == [
        {"function": "annals-api", "organization": "acme"}
    ] * 3
    assert [subsegment["trace_id"] for subsegment in subsegments] == [TRACE] * len(subsegments)
    puts = [
        subsegment
        for subsegment in subsegments
        if subsegment["name"] == "dynamodb" and subsegment["aws"]["operation"] == "PutItem"
    ]
    assert [put["parent_id"] for put in puts] == [subsegment["id"] for subsegment in invocations[:2]]
    (failure,) = invocations[2]["cause"]["exceptions"]
    assert (failure["type"], "message" in failure, failure["stack"][-1]["label"]) == ("BadInput", False, "validate")
    assert SECRET not in json.dumps(subsegments)


def test_tracing_off_sends_and_imports_nothing(
    daemon: socket.socket, ministack: str, ministack_tables: tuple[str, str], tmp_path: Path
) -> None:
    assert run_functions(daemon, ministack, ministack_tables, tmp_path, "off") == []
    assert received_segments(daemon) == []
