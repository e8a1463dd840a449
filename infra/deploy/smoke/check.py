"""A check, its result, and the table of all results."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.domain.errors import AnnalsError
from infra.deploy.smoke.target import CheckFailed, NotPossible, Target
from infra.deploy.stack.stacks import StackFailed

FAILURES = (CheckFailed, StackFailed, ClientError, BotoCoreError, ServiceError, AnnalsError, OSError)
"""What a stage or its services can do wrong. Other exceptions are defects of the check."""


class Status(StrEnum):
    """Outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_POSSIBLE = "not possible here"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to try on a stage."""

    number: int
    name: str
    timeout_s: float
    run: Callable[[Target], str]
    """Returns what was found. Raises `CheckFailed` or `NotPossible`."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check and its reason."""

    check: Check
    status: Status
    text: str
    duration_s: float


def run_checks(checks: Iterable[Check], target: Target) -> Iterator[Result]:
    """Run the checks one after the other. Each has its own time limit."""
    for check in checks:
        started_s = time.monotonic()
        try:
            status, text = Status.PASSED, check.run(target.for_check(check.number, check.timeout_s))
        except NotPossible as reason:
            status, text = Status.NOT_POSSIBLE, str(reason)
        except FAILURES as error:
            status, text = Status.FAILED, f"{type(error).__name__}: {error}"
        yield Result(check, status, text, time.monotonic() - started_s)


def table(results: Sequence[Result]) -> str:
    """One line for each check."""
    width = max(len(result.check.name) for result in results)
    return "\n".join(
        f"{result.check.number:>2}  {result.check.name:<{width}}  {result.status:<17}  {result.text}"
        for result in results
    )
