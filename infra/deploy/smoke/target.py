"""The stage under test: requests to its API, clients of its services, and waiting with a time limit."""

import json
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Self

from infra.deploy.stack import clients
from infra.deploy.stack.stacks import Stack
from infra.deploy.stack.stage import Stage
from infra.server import local_tokens

REQUEST_TIMEOUT_S: Final = 60.0
POLL_INTERVAL_S: Final = 2.0
EMULATOR_POLL_INTERVAL_S: Final = 0.2
GROUPS: Final = ("publishers", "readers", "admins")


class CheckFailed(Exception):
    """The stage did something wrong. The message says what."""


class NotPossible(Exception):
    """The check cannot be made on this stage. The message says why."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response of the API."""

    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def expect(self, *statuses: int) -> Self:
        """This response. Raises `CheckFailed` if it has another status."""
        if self.status not in statuses:
            expected = " or ".join(map(str, statuses))
            raise CheckFailed(f"status {self.status} instead of {expected}: {self.body[:300]!r}")
        return self


@dataclass(frozen=True, slots=True)
class Target:
    """A stage, and the time until which the current check may run."""

    stage: Stage
    stack: Stack
    api: str
    key: str
    run: str = field(default_factory=lambda: secrets.token_hex(3))
    check: int = 0
    deadline_s: float = float("inf")

    @classmethod
    def from_stack(cls, name: str) -> Self:
        """Raises `NotDeployed`, or `NotPossible` if the stage does not verify tokens with a key."""
        stage, stack = Stage.from_stack(name), Stack(f"annals-{name}")
        function = clients.client("lambda").get_function_configuration(FunctionName=stack.physical_id("Bearer"))
        key = function["Environment"]["Variables"].get("JWT_KEY", "")
        if not key:
            raise NotPossible("the checks sign their own tokens, so the stage needs the parameter JwtKey")
        address = clients.endpoint()
        outputs = stack.outputs()
        emulated = f"{address}/restapis/{outputs.get('RestAPIId')}/api/_user_request_"
        return cls(stage, stack, emulated if address else outputs["ApiUrl"], key)

    @property
    def is_emulated(self) -> bool:
        return bool(clients.endpoint())

    @property
    def organization(self) -> str:
        """Each check has an organization of its own."""
        return f"smoke-{self.run}-{self.check}"

    def for_check(self, number: int, timeout_s: float) -> Self:
        return replace(self, check=number, deadline_s=time.monotonic() + timeout_s)

    def token(self, **claims: Any) -> str:
        return local_tokens.sign_token(self.key, "smoke", [self.organization], list(GROUPS), **claims)

    def request(
        self, method: str, path: str, body: object = None, token: str | None = None, query: Mapping[str, object] = {}
    ) -> Response:
        """Send a request to the API. `path` is sent as it is, so it must be quoted."""
        url = f"{self.api}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        headers = {"Authorization": f"Bearer {token or self.token()}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310  (the API's own address)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as response:  # noqa: S310
                return Response(response.status, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, error.read())

    def create_organization(self) -> int:
        """Create the check's organization. Returns the number of its log."""
        response = self.request("PUT", f"/organizations/{self.organization}").expect(HTTPStatus.CREATED, HTTPStatus.OK)
        return int(response.json()["server"])

    def publish(self, *events: Mapping[str, Any]) -> None:
        self.request("POST", "/events", {"events": events}).expect(HTTPStatus.CREATED)

    def read(self, after: int = 0, **query: object) -> tuple[list[Any], int]:
        """One page of events after an EventId, and the EventId to continue from."""
        page = self.request("GET", "/events", query={"after": after, **query}).expect(HTTPStatus.OK).json()
        events = page.get("eventSnapshots", [])
        return events, events[-1]["eventId"] if events else page.get("lastEventId", after)

    def observe(self, name: str, channel: str, config: Mapping[str, str], type_: str) -> None:
        """Create an observer of all events of a type."""
        observer = {"channel": channel, "types": [type_], "config": config}
        self.request("PUT", f"/observers/{name}", observer).expect(HTTPStatus.CREATED)

    def deliveries(self, observer: str) -> dict[str, int]:
        """The numbers of deliveries by state."""
        counts: dict[str, int] = (
            self.request("GET", f"/observers/{observer}").expect(HTTPStatus.OK).json()["deliveries"]
        )
        return counts

    def until(self, condition: Callable[[], bool], expected: str) -> None:
        """Wait for a condition. Raises `CheckFailed` at the time limit of the check."""
        while not condition():
            if time.monotonic() > self.deadline_s:
                raise CheckFailed(f"not within the time limit: {expected}")
            time.sleep(EMULATOR_POLL_INTERVAL_S if self.is_emulated else POLL_INTERVAL_S)

    def resource(self, logical_id: str) -> str:
        """The physical id of a resource of the stack."""
        physical_id = self.stack.physical_id(logical_id)
        if physical_id is None:
            raise NotPossible(f"the stage has no {logical_id}")
        return physical_id

    def parameter(self, name: str, reason: str) -> str:
        """The value of a template parameter. Raises `NotPossible` if it is empty."""
        value = self.stack.parameters().get(name, "")
        if not value:
            raise NotPossible(reason)
        return value

    def require_aws(self, reason: str) -> None:
        if self.is_emulated:
            raise NotPossible(reason)

    def metric(self, namespace: str, name: str, dimension: tuple[str, str], minutes: int) -> float:
        """The sum of a CloudWatch metric over the last minutes."""
        now_s = time.time()
        points = clients.client("cloudwatch").get_metric_statistics(
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": dimension[0], "Value": dimension[1]}],
            StartTime=now_s - 60 * minutes,
            EndTime=now_s,
            Period=60,
            Statistics=["Sum"],
        )["Datapoints"]
        return float(sum(point["Sum"] for point in points))
