"""What a call does, apart from doing it: steps that say what to ask and how long to pause.

`Annals` takes the steps in its thread, `AsyncAnnals` in its event loop; all rules are here and in `calls`.
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

from annals_client.errors import Refused, Unavailable, Unexpected, error_of

ANSWER_S = 30.0
"""How long an answer may take that nobody asked to wait."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
LATER = frozenset({429, 502, 503, 504})
"""Statuses that say: not now."""

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the API knows it: the address and the token are the client's matter."""

    method: str
    path: str
    parameters: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    """JSON; None: there is no body."""
    timeout_s: float = ANSWER_S

    @property
    def target(self) -> str:
        """The path with its parameters."""
        return f"{self.path}?{urlencode(self.parameters)}" if self.parameters else self.path

    @property
    def content(self) -> bytes | None:
        """The body's bytes: the same each time, as idempotency keys want it."""
        return None if self.body is None else json.dumps(self.body, allow_nan=False).encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> dict[str, Any]:
        """The object that it is; something else was not said by Annals."""
        try:
            said = json.loads(self.content)
        except ValueError as failure:
            raise Unexpected(self.status, "the answer is not JSON; is this the address of Annals?") from failure
        if not isinstance(said, dict):
            raise Unexpected(self.status, "the answer is not what Annals says; is this its address?")
        return said


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer came: nobody knows whether the request arrived."""

    why: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A step: send this, wait so long."""

    request: Request
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: do nothing for so long."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Give(Generic[V]):
    """A step of an iterator: its next value."""

    value: V


Outcome = Answer | Lost | None
"""What a step leads to: of `Ask` the first two, of others nothing."""
Steps = Generator[Ask | Pause, Outcome, T]
"""A call that returns something in the end."""
Values = Generator[Ask | Pause | Give[V], Outcome, None]
"""A call that gives one value after the other."""


def _new_key() -> str:
    return secrets.token_urlsafe(18)


def _jittered(longest_s: float) -> float:
    return random.uniform(0, longest_s)


@dataclass(frozen=True, slots=True)
class Manners:
    """How long a client tries, and where it has time and chance from."""

    deadline_s: float = 60.0
    clock: Callable[[], float] = time.monotonic
    jittered: Callable[[float], float] = _jittered
    """Something between 0 and so much."""
    new_key: Callable[[], str] = _new_key


def ask(manners: Manners, request: Request, deadline_s: float | None = None) -> Steps[Answer]:
    """The answer. Without one, and if it says "later", the request is repeated until the deadline.

    Pauses grow, have jitter, and are never shorter than `Retry-After` says; one that would end after the deadline is
    not begun. So whoever asks must not mind repeats: all requests that write have a key that makes them harmless.
    """
    ends_at = manners.clock() + (manners.deadline_s if deadline_s is None else deadline_s)
    for tries in count(1):
        left_s = max(ends_at - manners.clock(), 0.001)
        outcome = yield Ask(request, min(request.timeout_s, left_s))
        if isinstance(outcome, Answer) and outcome.status not in LATER:
            return _accepted(outcome, tries)
        why = _reason(outcome)
        pause_s = _retry_after_s(outcome) + manners.jittered(_longest_pause_s(tries))
        if manners.clock() + pause_s > ends_at:
            raise Unavailable(why, tries)
        yield Pause(pause_s, why)
    raise AssertionError("counting does not end")


def told(manners: Manners, request: Request) -> Steps[dict[str, Any]]:
    """The JSON of the answer."""
    answer = yield from ask(manners, request)
    return answer.json()


def _accepted(answer: Answer, tries: int) -> Answer:
    if answer.status < 300:
        return answer
    try:
        problem = answer.json()
    except Unexpected:
        problem = {}
    error = error_of(answer.status, problem)
    if isinstance(error, Refused):
        error.tries = tries
    raise error


def _longest_pause_s(tries: int) -> float:
    """It doubles up to a limit; the exponent has one, too, for followers may try for days."""
    return min(FIRST_PAUSE_S * 2.0 ** min(tries, 10), LONGEST_PAUSE_S)


def _reason(outcome: Outcome) -> str:
    match outcome:
        case Answer(status=status):
            return f"the server says {status}: not now"
        case Lost(why=why):
            return f"no answer: {why}"
        case None:
            raise AssertionError("a request was not sent")


def _retry_after_s(outcome: Outcome) -> float:
    """What the answer asks for, if it does so in seconds."""
    said = outcome.headers.get("retry-after", "") if isinstance(outcome, Answer) else ""
    return float(said) if said.isascii() and said.isdigit() else 0.0
