"""A client of one service. It repeats what got no answer: every call of ours may be made twice."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final

from pydantic_core import from_json, to_json

from chalicelib.adapters.aws import environment
from chalicelib.adapters.aws.connection_pool import NO_ANSWER, Answer, Connections, Wire
from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.adapters.aws.sigv4 import Credentials, Scope, signed
from chalicelib.adapters.aws.time_budget import left_s
from chalicelib.domain.errors import Unavailable

ATTEMPTS = 3
ATTEMPT_S = 3.0
"""So long an answer may take."""
CALL_S = 12.0
"""So long all attempts may take together, and the pauses between them."""
FIRST_PAUSE_S = 0.1
"""At most, before the second attempt; twice that before the third."""
THROTTLED_PAUSE_S = 1.0
"""The same for whoever is too fast: what may be consumed is counted by the second."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service that takes JSON."""

    name: str
    """As people call it."""
    signing_name: str
    """As signatures, addresses and the environment call it."""
    target: str
    """As its requests call it."""
    version: str
    """Of its JSON."""


DYNAMODB: Final = Service("DynamoDB", "dynamodb", "DynamoDB_20120810", "1.0")
SQS: Final = Service("SQS", "sqs", "AmazonSQS", "1.0")
GLUE: Final = Service("Glue", "glue", "AWSGlue", "1.1")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, how often to try."""

    attempts: int = ATTEMPTS
    attempt_s: float = ATTEMPT_S
    call_s: float = CALL_S
    first_pause_s: float = FIRST_PAUSE_S
    throttled_pause_s: float = THROTTLED_PAUSE_S


USUAL = Patience()


class Client:
    """The port `Calls` for a service; threads may share it."""

    def __init__(
        self,
        service: Service,
        wire: Wire,
        region: str,
        credentials: Callable[[], Credentials],
        repeats: Callable[[], None] = lambda: None,
        patience: Patience = USUAL,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = service
        self._wire = wire
        self._scope = Scope(region, service.signing_name)
        self._credentials = credentials
        self._repeats = repeats
        self._patience = patience
        self._pause = pause

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """What the service answers. Raises `Refusal` if it says no, `Unavailable` if it gave no answer."""
        body, patience = to_json(params), self._patience
        time_s = min(patience.call_s, left_s())
        if time_s <= 0:
            raise Unavailable(f"{self._service.name} took too long to answer: there is no time to ask it more")
        attempts, ends = 0, time.monotonic() + time_s
        failure: Exception
        while True:
            attempts, first_pause_s = attempts + 1, patience.first_pause_s
            try:
                return self._attempt(operation, body, min(patience.attempt_s, ends - time.monotonic()))
            except Refusal as refusal:
                if not refusal.is_passing:
                    raise
                failure, told = refusal, "does not answer"
                if refusal.is_throttling:
                    first_pause_s = patience.throttled_pause_s
            except NO_ANSWER as silence:
                failure, told = silence, "cannot be reached"
            # By chance, so that those who failed together do not return together.
            pause_s = random.random() * first_pause_s * 2 ** (attempts - 1)
            if attempts == patience.attempts or time.monotonic() + pause_s >= ends:
                raise Unavailable(f"{self._service.name} {told}: {failure}") from failure
            self._repeats()
            self._pause(pause_s)

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    def _attempt(self, operation: str, body: bytes, timeout_s: float) -> dict[str, Any]:
        headers = {
            "content-type": f"application/x-amz-json-{self._service.version}",
            "host": self._wire.host,
            "x-amz-target": f"{self._service.target}.{operation}",
        }
        whole = signed(headers, body, self._credentials(), self._scope, time.time())
        answer = self._wire.exchange(whole, body, timeout_s)
        if answer.status != HTTPStatus.OK:
            raise _refusal(operation, answer)
        return _said(answer)


def client(
    service: Service,
    endpoint: str | None = None,
    region: str | None = None,
    repeats: Callable[[], None] = lambda: None,
    patience: Patience | None = None,
) -> Client:
    """A client as the surroundings want it; `repeats` is called whenever it repeats a call."""
    where = region or environment.region()
    address = endpoint or environment.endpoint(service.signing_name, where)
    wire = Connections(address, environment.proxy(address))
    return Client(service, wire, where, environment.credentials(), repeats, patience or USUAL)


def _refusal(operation: str, answer: Answer) -> Refusal:
    try:
        said = _said(answer)
    except HTTPException:
        # Somebody on the way says no, in words of their own.
        said = {}
    return Refusal(operation, answer.status, str(said.get("__type", "")).rpartition("#")[2], said)


def _said(answer: Answer) -> dict[str, Any]:
    """What an answer says: some say nothing."""
    try:
        said = from_json(answer.content or b"{}")
    except ValueError as failure:
        raise HTTPException("the answer is no JSON") from failure
    if not isinstance(said, dict):
        raise HTTPException("the answer is no object")
    return said
