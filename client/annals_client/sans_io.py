"""The sans-I/O core of the client: calls are generators that yield requests and pauses.

`Annals` performs the steps in the calling thread, `AsyncAnnals` in the event loop. All protocol rules are here and in
`calls`.
"""

import json
import random
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from annals_client.errors import Refused, Unavailable, Unexpected, error_from_response

RESPONSE_TIMEOUT_S = 30.0
"""For requests that are not long polls."""
BASE_BACKOFF_S = 0.1
MAX_BACKOFF_S = 10.0
RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
"""Temporary failures. The request is retried."""
INTERNAL_ERROR = 500
"""API Gateway's response if no Lambda function is free. Retried if the request has a key."""
IDEMPOTENCY_KEY = "Idempotency-Key"

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Request:
    """A request without the base URL and the token, which the transport adds."""

    method: str
    path: str
    parameters: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    """JSON value. None: no body."""
    timeout_s: float = RESPONSE_TIMEOUT_S

    @property
    def target(self) -> str:
        """The path with its query string."""
        return f"{self.path}?{urlencode(self.parameters)}" if self.parameters else self.path

    @property
    def content(self) -> bytes | None:
        """The encoded body. Retries must send identical bytes because of the idempotency key."""
        return None if self.body is None else json.dumps(self.body, allow_nan=False).encode()


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> dict[str, Any]:
        """The body as a JSON object. Raises `Unexpected` if it is something else."""
        try:
            document = json.loads(self.content)
        except ValueError as error:
            raise Unexpected(
                self.status, "the response is not JSON. Check that the URL is the address of Annals"
            ) from error
        if not isinstance(document, dict):
            raise Unexpected(
                self.status, "the response is not a JSON object. Check that the URL is the address of Annals"
            )
        return document


@dataclass(frozen=True, slots=True)
class NoResponse:
    """No response arrived. It is unknown whether the server executed the request."""

    reason: str


@dataclass(frozen=True, slots=True)
class Send:
    """A step: send the request and wait for the response."""

    request: Request
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: sleep before a retry."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Emit(Generic[V]):
    """A step of an iterating call: its next value."""

    value: V


Outcome = Response | NoResponse | None
"""Result of a step: `Response` or `NoResponse` for `Send`, otherwise None."""
Steps = Generator[Send | Pause, Outcome, T]
"""A call that returns one result."""
Values = Generator[Send | Pause | Emit[V], Outcome, None]
"""A call that emits values."""


def new_uuid7() -> str:
    """A UUID of version 7 (RFC 9562): the time in milliseconds, then 74 random bits.

    The server knows without a lookup that such a key is new, as long as it is sent soon.
    """
    time_ms = time.time_ns() // 1_000_000
    digits = f"{time_ms << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _full_jitter(max_s: float) -> float:
    return random.uniform(0, max_s)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Deadline of a call, and its sources of time and randomness."""

    deadline_s: float = 60.0
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[float], float] = _full_jitter
    """Returns a random duration between 0 and its argument."""
    new_key: Callable[[], str] = new_uuid7


def send(policy: RetryPolicy, request: Request, deadline_s: float | None = None) -> Steps[Response]:
    """Send a request, and retry temporary failures until the deadline.

    Pauses grow exponentially with jitter and are at least `Retry-After` seconds. A pause that would end after the
    deadline is not started. The request may be executed more than once, so writes must carry a key that makes retries
    safe.
    """
    ends_at = policy.clock() + (policy.deadline_s if deadline_s is None else deadline_s)
    for tries in count(1):
        remaining_s = max(ends_at - policy.clock(), 0.001)
        outcome = yield Send(request, min(request.timeout_s, remaining_s))
        if isinstance(outcome, Response) and not _is_retryable(request, outcome.status):
            return _raise_for_status(outcome, tries)
        reason = _reason(outcome)
        pause_s = _retry_after_s(outcome) + policy.jitter(_max_backoff_s(tries))
        if policy.clock() + pause_s > ends_at:
            raise Unavailable(reason, tries)
        yield Pause(pause_s, reason)
    raise AssertionError("unreachable: count() is infinite")


def fetch_json(policy: RetryPolicy, request: Request) -> Steps[dict[str, Any]]:
    """Send a request and return the JSON object of the response."""
    response = yield from send(policy, request)
    return response.json()


def _is_retryable(request: Request, status: int) -> bool:
    return status in RETRYABLE_STATUSES or (status == INTERNAL_ERROR and IDEMPOTENCY_KEY in request.headers)


def _raise_for_status(response: Response, tries: int) -> Response:
    if response.status < 300:
        return response
    try:
        problem = response.json()
    except Unexpected:
        problem = {}
    error = error_from_response(response.status, problem)
    if isinstance(error, Refused):
        error.tries = tries
    raise error


def _max_backoff_s(tries: int) -> float:
    # The exponent is limited, too: a follower may retry for days, and a float would overflow.
    return min(BASE_BACKOFF_S * 2.0 ** min(tries, 10), MAX_BACKOFF_S)


def _reason(outcome: Outcome) -> str:
    match outcome:
        case Response(status=status):
            return f"the server responded with status {status}"
        case NoResponse(reason=reason):
            return f"no response: {reason}"
        case None:
            raise AssertionError("the runner did not send the request")


def _retry_after_s(outcome: Outcome) -> float:
    """The `Retry-After` header if it is a number of seconds, otherwise 0."""
    header = outcome.headers.get("retry-after", "") if isinstance(outcome, Response) else ""
    return float(header) if header.isascii() and header.isdigit() else 0.0
