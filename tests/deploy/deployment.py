"""A deployment for tests: runs `make cloud` in a process, with clients for its API and its AWS services."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import boto3  # type: ignore[import-untyped]
import httpx
import jwt
from botocore.config import Config

from tests.torture.servers import free_port

MODULES = {
    "deploy": "stack.deploy",
    "destroy": "stack.destroy",
    "restore": "data.restore",
    "retire": "data.retire",
    "rebuild": "data.rebuild",
    "local": "local.local",
    "smoke": "smoke.smoke",
}
"""Modules of the commands."""
ROOT = Path(__file__).parents[2]
STAGE = "test"
"""Differs from the stages of `make cloud` and of the deployment tests."""
REGION = "eu-central-1"
ALL_GROUPS = ("publishers", "readers", "admins")
DEPLOY_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 30.0
"""Shorter than the timeout after which the process is killed."""
TIMEOUT_S = 40.0
"""Timeout for expected changes, generous for a loaded machine."""
POLL_INTERVAL_S = 0.05
GENERATION = 2**44
"""Checkpoints count generations of views above sessions."""

Json = dict[str, Any]
T = TypeVar("T")

_names = count(1)


class Deployment:
    """Annals deployed on an emulator."""

    def __init__(self, process: subprocess.Popen[str], endpoint: str, api: str) -> None:
        self.process = process
        self.endpoint = endpoint
        self.client = httpx.Client(base_url=api, timeout=TIMEOUT_S, trust_env=False)
        self._aws: dict[str, Any] = {}
        self._groups = {process.pid, *_children(process.pid)}
        """Process groups: the command's and the emulator's."""

    def aws(self, service: str) -> Any:
        """A client of an AWS service. Threads may share it."""
        if service not in self._aws:
            self._aws[service] = aws_client(self.endpoint, service)
        return self._aws[service]

    @cached_property
    def resources(self) -> dict[str, str]:
        """Physical ids by logical id."""
        pages = self.aws("cloudformation").get_paginator("list_stack_resources").paginate(StackName=f"annals-{STAGE}")
        resources = [resource for page in pages for resource in page["StackResourceSummaries"]]
        return {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}

    @cached_property
    def outputs(self) -> dict[str, str]:
        (stack,) = self.aws("cloudformation").describe_stacks(StackName=f"annals-{STAGE}")["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    @cached_property
    def environment(self) -> dict[str, str]:
        """The authorizer's environment variables."""
        configuration = self.aws("lambda").get_function_configuration(FunctionName=self.resources["Bearer"])
        variables: dict[str, str] = configuration["Environment"]["Variables"]
        return variables

    def invoke(self, function: str, event: Json) -> Any:
        """The function's result or error."""
        name = self.resources[function]
        answer = self.aws("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
        return json.loads(answer["Payload"].read())

    def workers(self, function: str) -> int:
        """Number of processes that run a function."""
        mark = f"lambda-{self.resources[function]}-".encode()
        return sum(mark in command for command in map(_command, self._processes()))

    def organization(self) -> "Member":
        """A member with all groups in a new organization."""
        member = self.member(f"org-{next(_names)}")
        answer = member.request("PUT", f"/organizations/{member.organization}")
        assert answer.status_code == 201, answer.text
        return member

    def member(self, *organizations: str, groups: Sequence[str] = ALL_GROUPS, user: str = "anna") -> "Member":
        """A member with a token for these organizations."""
        return Member(self, user, organizations, tuple(groups))

    def mails(self, recipient: str) -> list[Json]:
        """The mails that SES sent to an address."""
        answer = httpx.get(f"{self.endpoint}/_ministack/ses/messages", trust_env=False)
        sent = [mail for messages in answer.json()["messages"].values() for mail in messages]
        return [mail for mail in sent if recipient in mail["To"]]

    def close(self) -> None:
        """Close the clients."""
        self.client.close()
        for client in self._aws.values():
            client.close()

    def stop(self) -> bool:
        """Terminate the deployment. Returns whether all its processes have exited."""
        self.close()
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_TIMEOUT_S)
        is_gone = not self._processes()
        end(self.process)
        return is_gone

    def _processes(self) -> list[int]:
        """The running processes. Processes that have exited have no command line."""
        numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [number for number in numbers if _group(number) in self._groups and _command(number)]


@dataclass(frozen=True)
class Member:
    """A user with a token, and requests on their behalf."""

    deployment: Deployment
    user: str
    organizations: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def organization(self) -> str:
        """The default organization."""
        return self.organizations[0]

    @cached_property
    def token(self) -> str:
        return self.sign_token(self.deployment.environment["JWT_KEY"])

    def sign_token(self, key: str, expires_s: float = 3600) -> str:
        """A token signed with any key."""
        now_s = int(time.time())
        claims = {"sub": self.user, "org": list(self.organizations), "groups": list(self.groups), "iat": now_s - 7200}
        return jwt.encode({**claims, "exp": now_s + int(expires_s)}, key, algorithm="HS256")

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request."""
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return self.deployment.client.request(method, path, headers=headers, **options)

    def get(self, path: str, **parameters: object) -> Json:
        """The JSON response of a GET."""
        answer = self.request("GET", path, params=parameters)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def put(self, path: str, body: object) -> Json:
        """The JSON response of a PUT."""
        answer = self.request("PUT", path, json=body)
        assert answer.status_code in (200, 201), answer.text
        found: Json = answer.json()
        return found

    def post(self, *events: Json, vocabulary: str = "") -> list[Json]:
        """Append events in one request. Returns them as read."""
        path = f"/events/{vocabulary}" if vocabulary else "/events"
        answer = self.request("POST", path, json={"events": events})
        assert answer.status_code == 201, answer.text
        found: list[Json] = answer.json()["events"]
        return found

    def publish(self, *types: str) -> list[Json]:
        """Append events of types written as `a/b` in one request. Returns them as read."""
        return self.post(*({"type": type_.split("/")} for type_ in types))

    def log(self) -> list[Json]:
        """All events in order, by the server query."""
        found: list[Json] = self.get("/events/server")["events"]
        return found

    @cached_property
    def server(self) -> int:
        """The number of the organization's log."""
        answer = self.request("PUT", f"/organizations/{self.organization}")
        number: int = answer.json()["server"]
        return number

    def commits(self) -> list[Json]:
        """The stored commits without their events."""
        names = ("session", "at", "n", "prev")
        items = self._items("LogTableName", "server", {"N": str(self.server)})
        return [{name: int(item[name]["N"]) for name in names} for item in items]

    def checkpoint(self, consumer: str) -> int:
        """The last session that a consumer has processed."""
        items = self._items("ViewsTableName", "view", {"S": f"{self.server}/checkpoint"})
        positions = [int(item["to"]["N"]) for item in items if item["item"]["S"].startswith(consumer)]
        return max(positions, default=0) % GENERATION

    def _items(self, table: str, name: str, value: Json) -> list[Json]:
        pages = (
            self.deployment.aws("dynamodb")
            .get_paginator("query")
            .paginate(
                TableName=self.deployment.outputs[table],
                KeyConditionExpression="#name = :value",
                ExpressionAttributeNames={"#name": name},
                ExpressionAttributeValues={":value": value},
                ConsistentRead=True,
            )
        )
        return [item for page in pages for item in page["Items"]]


@contextmanager
def run_deployment(*parameters: str) -> Iterator[Deployment]:
    """Run a deployment for the duration of the block."""
    port = free_port(random.Random())
    process = command("local", "--port", str(port), "--stage", STAGE, *parameters)
    try:
        yield Deployment(process, f"http://127.0.0.1:{port}", _read_api_url(process))
    finally:
        end(process)


def command(module: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a command of `infra.deploy` in a new process group, without this machine's AWS settings."""
    own_environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.Popen(
        [sys.executable, "-m", f"infra.deploy.{MODULES[module]}", *arguments],
        cwd=ROOT,
        env={**own_environment, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    """End a command and its children: ask it first, then kill the process group."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def aws_client(endpoint: str, service: str) -> Any:
    """An AWS client that does not use the environment."""
    return boto3.session.Session().client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(max_pool_connections=32, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 1}),
    )


def eventually(read: Callable[[], T], holds: Callable[[T], object] = bool) -> T:
    """Poll `read` until `holds`. Returns the last value."""
    deadline = time.monotonic() + TIMEOUT_S
    while not holds(value := read()):
        assert time.monotonic() < deadline, f"timed out; the last value was {value!r}"
        threading.Event().wait(POLL_INTERVAL_S)
    return value


def _read_api_url(process: subprocess.Popen[str]) -> str:
    """Read the API's address from the command's output."""
    assert process.stdout is not None
    lines: list[str] = []
    watchdog = threading.Timer(DEPLOY_TIMEOUT_S, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    try:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C"):
                break
    finally:
        watchdog.cancel()
    match = re.search(r"export ANNALS=(\S+)", "".join(lines))
    assert match is not None, f"not deployed; output:\n{''.join(lines)[-3000:]}"
    return match[1]


def _children(process: int) -> list[int]:
    return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _group(process: int) -> int | None:
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return None


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""
