"""Start the command, and describe how it ended."""

import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from annals_client.run import signals

NOT_EXECUTABLE = 126
NOT_FOUND = 127
"""The same codes as those of shells."""
TIMED_OUT = 124
"""The same code as that of the command `timeout` of GNU coreutils."""
SIGNAL_BASE = 128
PIPE_BYTES = 1 << 20
"""Size of the pipes from the command, if the system permits it. A large pipe bridges the pauses of a relay thread."""
STDIN, STDOUT, STDERR = 0, 1, 2


class Output(NamedTuple):
    """One output stream of the command."""

    name: str
    source: int
    """The end of the pipe from which we read."""
    target: int
    """Our own stream."""


class Process(NamedTuple):
    """A running command."""

    pid: int
    outputs: tuple[Output, ...]


class Result(NamedTuple):
    """How a run ended: our exit code, and a message for the report."""

    code: int
    is_success: bool
    message: str


def start(command: list[str], mask: Set[int], *, captures_output: bool) -> Process:
    """Start the command with the signal mask `mask`. Raises `OSError` if it cannot be executed."""
    _open_standard_streams()
    pipes = [os.pipe(), os.pipe()] if captures_output else []
    targets = (STDOUT, STDERR)
    actions = [(os.POSIX_SPAWN_DUP2, write_end, target) for (_, write_end), target in zip(pipes, targets, strict=False)]
    for read_end, _ in pipes:
        _enlarge(read_end)
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=actions,
            setsigmask=mask,
            setsigdef=signals.IGNORED_BY_PYTHON,
        )
    except OSError:
        for read_end, _ in pipes:
            os.close(read_end)
        raise
    finally:
        for _, write_end in pipes:
            os.close(write_end)
    outputs = [
        Output(name, read_end, target)
        for name, (read_end, _), target in zip(("stdout", "stderr"), pipes, targets, strict=False)
    ]
    return Process(pid, tuple(outputs))


def fork_sender(wake: int, status: int, unused: Sequence[int], send: Callable[[int, int], int]) -> int:
    """Fork a process that calls `send` with both pipes, and return its pid. Call it before any thread starts.

    It starts a new session, so that the terminal's signals do not end it, and holds none of our streams.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (STDIN, STDOUT, STDERR):
            os.dup2(null, stream)
        for file in unused:
            os.close(file)
        code = send(wake, status)
    finally:
        os._exit(code)


class Children:
    """The wait statuses of all child processes that have ended.

    It also reaps foreign processes, which the first process of a container inherits.
    """

    def __init__(self) -> None:
        self._statuses: dict[int, int] = {}

    def status(self, pid: int) -> int | None:
        """None while the process runs."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._statuses[ended[0]] = ended[1]
        except ChildProcessError:
            pass
        return self._statuses.get(pid)


def result_of_start_error(command: str, error: OSError) -> Result:
    if isinstance(error, FileNotFoundError):
        return Result(NOT_FOUND, False, f"{command}: command not found")
    return Result(NOT_EXECUTABLE, False, f"{command}: cannot be executed: {error.strerror}")


def result_of(status: int, timed_out_after: str | None) -> Result:
    """The result of a command with the wait status `status`."""
    code = os.waitstatus_to_exitcode(status)
    end = f"killed by {signals.name(-code)}" if code < 0 else f"exit code {code}"
    if timed_out_after is not None:
        return Result(TIMED_OUT, False, f"timed out after {timed_out_after}, {end}")
    return Result(SIGNAL_BASE - code if code < 0 else code, code == 0, end)


def _open_standard_streams() -> None:
    """Open /dev/null for streams that the caller has closed. Otherwise a pipe would get their number."""
    for stream in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _enlarge(pipe: int) -> None:
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
