"""Run a command: start it, forward signals, end it after its timeout, report it, and return its exit code."""

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from annals_client.run import signals
from annals_client.run.process import STDERR, Children, Output, Process, Result, result_of, result_of_start_error, start

if TYPE_CHECKING:
    from annals_client.run.reporter import Reporter

DEFAULT_CLEAN_TIMEOUT_S = 24 * 3600
"""The server closes a job that has no events for this time. Commands may be silent for hours."""
CLEAN_TIMEOUT_RESERVE_S = 3600


class Options(NamedTuple):
    """The options of `annals run`."""

    command: list[str]
    name: str
    node: str
    params: Mapping[str, str]
    props: Mapping[str, str]
    job_id: int | None
    timeout_s: float | None
    timeout_text: str
    grace_s: float
    """Time between SIGTERM and SIGKILL."""
    wait_s: float
    is_quiet: bool
    url: str | None
    token: str | None
    organization: str | None


def run(options: Options) -> int:
    """Run the command and return the exit code for our process. Call it in the main thread, before any other starts."""
    mask = signals.block()
    started_at = int(time.time())
    is_reported = bool(options.url and options.token)
    started: Process | Result
    try:
        started = start(options.command, mask, captures_output=is_reported)
    except OSError as error:
        started = result_of_start_error(options.command[0], error)
        _warn(started.message)
    if not is_reported and not options.is_quiet:
        _warn("the run is not reported: set ANNALS_URL and ANNALS_TOKEN")
    outputs = started.outputs if isinstance(started, Process) else ()
    reporter = _start_reporter(options, started_at, outputs) if is_reported else None
    children = Children()
    result = _supervise(started, children, options) if isinstance(started, Process) else started
    if reporter is not None:
        reporter.finish(result)
        problem = reporter.wait(children, options.wait_s)
        if problem and not options.is_quiet:
            _warn(f"the report of {options.name} is not complete: {problem}")
    return result.code


def _supervise(process: Process, children: Children, options: Options) -> Result:
    ends_at = None if options.timeout_s is None else time.monotonic() + options.timeout_s
    timed_out_after: str | None = None
    while (status := children.status(process.pid)) is None:
        received = signals.wait(None if ends_at is None else ends_at - time.monotonic())
        if received is None:
            os.kill(process.pid, signal.SIGTERM if timed_out_after is None else signal.SIGKILL)
            ends_at = time.monotonic() + options.grace_s if timed_out_after is None else None
            timed_out_after = options.timeout_text
        elif received.number in signals.FORWARDED and not received.is_from_terminal:
            os.kill(process.pid, received.number)
    return result_of(status, timed_out_after)


def _start_reporter(options: Options, started_at: int, outputs: Sequence[Output]) -> "Reporter":
    # The command runs by now, so these imports do not delay it.
    from annals_client.run.destination import Destination  # noqa: PLC0415
    from annals_client.run.reporter import Reporter  # noqa: PLC0415

    destination = Destination(options.url or "", options.token or "", options.organization)
    timeout_s = options.timeout_s
    silence_s = DEFAULT_CLEAN_TIMEOUT_S if timeout_s is None else timeout_s + options.grace_s + CLEAN_TIMEOUT_RESERVE_S
    return Reporter(
        destination,
        {
            "url": destination.url,
            "organization": destination.name,
            "id": options.job_id,
            "name": options.name,
            "node": options.node,
            "params": dict(options.params),
            "props": {"clean_timeout": str(int(silence_s)), **options.props},
            "startedAt": started_at,
        },
        outputs,
    )


def _warn(text: str) -> None:
    with contextlib.suppress(OSError):  # Our stderr may be closed.
        os.write(STDERR, f"annals: {text}\n".encode("utf-8", "replace"))
