"""Wait for signals in the main thread.

All signals that `annals run` handles are blocked in every thread, and only `wait` takes them. No code runs in a signal
handler.
"""

import os
import signal
from collections.abc import Set
from typing import NamedTuple

KILL = signal.SIGKILL
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
WAITED = frozenset((*FORWARDED, signal.SIGCHLD, signal.SIGALRM))
"""SIGCHLD reports the end of a child process, or of a thread that called `wake`. SIGALRM is the timer of `wait`."""
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Ignored by the interpreter. The command must start with their default actions."""


class Received(NamedTuple):
    """A signal. The terminal sends its signals to the command, too."""

    number: int
    is_from_terminal: bool


def block() -> Set[int]:
    """Block the signals in this thread and those it starts. Returns the previous mask."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # If it is ignored, the exit codes of children are lost.
    return signal.pthread_sigmask(signal.SIG_BLOCK, WAITED)


def wait(timeout_s: float | None) -> Received | None:
    """The next signal, or None after the timeout."""
    if not hasattr(signal, "sigtimedwait"):
        return wait_without_sender(timeout_s)
    info = signal.sigwaitinfo(WAITED) if timeout_s is None else signal.sigtimedwait(WAITED, max(timeout_s, 0))
    # A positive code: the kernel sent it. Signals of other processes have zero or a negative code.
    return None if info is None else Received(info.si_signo, info.si_code > 0)


def wait_without_sender(timeout_s: float | None) -> Received | None:
    """`wait` for systems that do not say who sent a signal, such as macOS."""
    if timeout_s is not None:
        signal.setitimer(signal.ITIMER_REAL, max(timeout_s, 0.001))
    number = signal.sigwait(WAITED)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if number == signal.SIGALRM:
        return None
    return Received(number, number in (signal.SIGINT, signal.SIGQUIT) and _is_in_foreground())


def wake(thread_id: int) -> None:
    """End a `wait` of the thread."""
    signal.pthread_kill(thread_id, signal.SIGCHLD)


def name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _is_in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
