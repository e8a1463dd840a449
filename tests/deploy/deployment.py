"""The cloud for tests: `make cloud` in a process of its own, spoken to over HTTP and with AWS's own client."""

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

from tests.torture.servers import a_port

MODULES = {
    "deploy": "stack.deploy",
    "destroy": "stack.destroy",
    "restore": "data.restore",
    "retire": "data.retire",
    "rebuild": "data.rebuild",
    "local": "local.local",
}
"""Where the module of each command is."""
ROOT = Path(__file__).parents[2]
STAGE = "test"
"""Nobody's own: `make cloud` deploys another one, and so do the tests of deployments."""
REGION = "eu-central-1"
ALL_GROUPS = ("publishers", "readers", "admins")
DEPLOY_S = 300.0
STOP_S = 30.0
"""Much less than after which what does not listen is killed."""
PATIENCE_S = 40.0
"""How long a test waits for what has to come soon, on a machine that others load too."""
LOOK_S = 0.05
GENERATION = 2**44
"""A checkpoint's number counts generations of views above sessions."""

Json = dict[str, Any]
T = TypeVar("T")

_names = count(1)


class Deployment:
    """The whole of Annals on an endpoint that speaks like AWS."""

    def __init__(self, process: subprocess.Popen[str], endpoint: str, api: str) -> None:
        self.process = process
        self.endpoint = endpoint
        self.client = httpx.Client(base_url=api, timeout=PATIENCE_S, trust_env=False)
        self._aws: dict[str, Any] = {}
        self._groups = {process.pid, *_children(process.pid)}
        """The endpoint has a group of its own."""

    def aws(self, service: str) -> Any:
        """A client of one of AWS's services; threads may share it."""
        if service not in self._aws:
            self._aws[service] = aws_client(self.endpoint, service)
        return self._aws[service]

    @cached_property
    def resources(self) -> dict[str, str]:
        """The physical names of what the template has, by its own names."""
        pages = self.aws("cloudformation").get_paginator("list_stack_resources").paginate(StackName=f"annals-{STAGE}")
        found = [one for page in pages for one in page["StackResourceSummaries"]]
        return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in found}

    @cached_property
    def outputs(self) -> dict[str, str]:
        """What the stack tells."""
        (stack,) = self.aws("cloudformation").describe_stacks(StackName=f"annals-{STAGE}")["Stacks"]
        return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}

    @cached_property
    def environment(self) -> dict[str, str]:
        """The settings of all functions."""
        found = self.aws("lambda").get_function_configuration(FunctionName=self.resources["Bearer"])
        variables: dict[str, str] = found["Environment"]["Variables"]
        return variables

    def invoke(self, function: str, event: Json) -> Any:
        """What a function answers, or what it failed with."""
        name = self.resources[function]
        answer = self.aws("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
        return json.loads(answer["Payload"].read())

    def workers(self, function: str) -> int:
        """How many processes run a function now."""
        mark = f"lambda-{self.resources[function]}-".encode()
        return sum(mark in command for command in map(_command, self._processes()))

    def organization(self) -> "Member":
        """Somebody with every right in an organization that is new and theirs."""
        member = self.member(f"org-{next(_names)}")
        answer = member.ask("PUT", f"/organizations/{member.organization}")
        assert answer.status_code == 201, answer.text
        return member

    def member(self, *organizations: str, groups: Sequence[str] = ALL_GROUPS, user: str = "anna") -> "Member":
        """Somebody with a token for these organizations."""
        return Member(self, user, organizations, tuple(groups))

    def mails(self, recipient: str) -> list[Json]:
        """What SES sent to an address."""
        answer = httpx.get(f"{self.endpoint}/_ministack/ses/messages", trust_env=False)
        sent = [one for messages in answer.json()["messages"].values() for one in messages]
        return [one for one in sent if recipient in one["To"]]

    def stop(self) -> bool:
        """Ask it to end; whether it did, and left nothing behind."""
        self.client.close()
        for client in self._aws.values():
            client.close()
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        is_gone = not self._processes()
        end(self.process)
        return is_gone

    def _processes(self) -> list[int]:
        """All processes that it is made of; those that have ended have no command any more."""
        numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [number for number in numbers if _group(number) in self._groups and _command(number)]


@dataclass(frozen=True)
class Member:
    """Somebody who may do something, and how they speak to the API."""

    deployment: Deployment
    user: str
    organizations: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def organization(self) -> str:
        """The organization they mean when they name none."""
        return self.organizations[0]

    @cached_property
    def token(self) -> str:
        """Their token."""
        return self.signed(self.deployment.environment["JWT_KEY"])

    def signed(self, key: str, expires_s: float = 3600) -> str:
        """A token that is signed with any key."""
        now_s = int(time.time())
        claims = {"sub": self.user, "org": list(self.organizations), "groups": list(self.groups), "iat": now_s - 7200}
        return jwt.encode({**claims, "exp": now_s + int(expires_s)}, key, algorithm="HS256")

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request."""
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return self.deployment.client.request(method, path, headers=headers, **options)

    def get(self, path: str, **parameters: object) -> Json:
        """The JSON that answers a GET."""
        answer = self.ask("GET", path, params=parameters)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def put(self, path: str, body: object) -> Json:
        """The JSON that answers a PUT."""
        answer = self.ask("PUT", path, json=body)
        assert answer.status_code in (200, 201), answer.text
        found: Json = answer.json()
        return found

    def post(self, *events: Json, vocabulary: str = "") -> list[Json]:
        """Append events in one request; as readers get them."""
        path = f"/events/{vocabulary}" if vocabulary else "/events"
        answer = self.ask("POST", path, json={"events": events})
        assert answer.status_code == 201, answer.text
        found: list[Json] = answer.json()["events"]
        return found

    def publish(self, *types: str) -> list[Json]:
        """Append events of these types, written `a/b`, in one request; as readers get them."""
        return self.post(*({"type": type_.split("/")} for type_ in types))

    def log(self) -> list[Json]:
        """All events, in order, as the server query tells them."""
        found: list[Json] = self.get("/events/server")["events"]
        return found

    @cached_property
    def server(self) -> int:
        """The number of the organization's log."""
        answer = self.ask("PUT", f"/organizations/{self.organization}")
        number: int = answer.json()["server"]
        return number

    def commits(self) -> list[Json]:
        """The items of the log as DynamoDB keeps them, numbers as numbers, without their events."""
        names = ("session", "at", "n", "prev")
        items = self._items("LogTableName", "server", {"N": str(self.server)})
        return [{name: int(item[name]["N"]) for name in names} for item in items]

    def checkpoint(self, consumer: str) -> int:
        """The session up to which a consumer has come, as DynamoDB keeps it."""
        items = self._items("ViewsTableName", "view", {"S": f"{self.server}/checkpoint"})
        found = [int(item["to"]["N"]) for item in items if item["item"]["S"].startswith(consumer)]
        return max(found, default=0) % GENERATION

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
def deployed(*parameters: str) -> Iterator[Deployment]:
    """A deployment for as long as the block runs; whatever happens, nothing is left of it."""
    port = a_port(random.Random())
    process = command("local", "--port", str(port), "--stage", STAGE, *parameters)
    try:
        yield Deployment(process, f"http://127.0.0.1:{port}", _announced(process))
    finally:
        end(process)


def command(module: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A command of `infra.deploy` that knows nothing of this machine's account; it has a group of processes."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.Popen(
        [sys.executable, "-m", f"infra.deploy.{MODULES[module]}", *arguments],
        cwd=ROOT,
        env={**ours, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    """Whatever is left of a command, and of what it started, ends now; it is asked first, for it knows what that is."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def aws_client(endpoint: str, service: str) -> Any:
    """A client that knows all it needs, whatever the environment says."""
    return boto3.session.Session().client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(max_pool_connections=32, read_timeout=PATIENCE_S, retries={"total_max_attempts": 1}),
    )


def eventually(look: Callable[[], T], holds: Callable[[T], object] = bool) -> T:
    """What is seen, as soon as it is as it has to become."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(found := look()):
        assert time.monotonic() < deadline, f"it is still {found!r}"
        threading.Event().wait(LOOK_S)
    return found


def _announced(process: subprocess.Popen[str]) -> str:
    """The address of the API, once it is there."""
    assert process.stdout is not None
    said: list[str] = []
    watchdog = threading.Timer(DEPLOY_S, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    try:
        for line in process.stdout:
            said.append(line)
            if line.startswith("Ctrl-C"):
                break
    finally:
        watchdog.cancel()
    found = re.search(r"export ANNALS=(\S+)", "".join(said))
    assert found is not None, f"it was not deployed; it said:\n{''.join(said)[-3000:]}"
    return found[1]


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
