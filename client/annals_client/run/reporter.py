"""Report a run: start the relay threads, the recorder thread and the sender process, and wait for them at the end.

Threads: the main thread calls all methods. The sender is forked before the threads start, because a forked process must
not inherit locks that a thread holds.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence

from annals_client.run import signals
from annals_client.run.destination import Destination
from annals_client.run.output import OutputBuffer, relay
from annals_client.run.process import TIMED_OUT, Children, Output, Result, fork_sender
from annals_client.run.recorder import Recorder
from annals_client.run.spool import Spool, spools_of
from annals_client.run.spooled_run import Description

READER_TIMEOUT_S = 1.0
"""How long the reader of our output may take for the rest if the command has timed out."""
RECORD_TIMEOUT_S = 2.0
"""How long the end of the run may take to be written to the spool."""
KILL_GRACE_S = 1.0
MAX_MESSAGE_CHARS = 1000


class Reporter:
    """The report of one run."""

    def __init__(self, destination: Destination, description: Description, outputs: Sequence[Output]) -> None:
        spools = spools_of(os.environ)
        wake_source, wake = os.pipe()
        self._status, status_target = os.pipe()
        os.set_blocking(wake, False)
        # The sender must not hold the pipes of the command: it would not get SIGPIPE after we have been killed.
        unused = [wake, self._status, *(output.source for output in outputs)]
        self._sender: int | None
        try:
            self._sender = fork_sender(wake_source, status_target, unused, _sender_main(destination, spools))
        except OSError:  # The next call sends the report.
            self._sender = None
        os.close(wake_source)
        os.close(status_target)
        self._buffer = OutputBuffer()
        self._recorder = Recorder(description, self._buffer, spools, wake)
        stop_source, self._stop = os.pipe()
        self._relay_ends = [
            _start_relay(output, self._buffer, stop_source, threading.get_ident()) for output in outputs
        ]
        self._recorder.start()

    def finish(self, result: Result) -> None:
        """Pass on the rest of the output, and record the end.

        It waits for a slow reader of our output, as the command would, but not after a timeout or a signal.
        """
        os.close(self._stop)
        while not all(end.is_set() for end in self._relay_ends):
            received = signals.wait(READER_TIMEOUT_S if result.code == TIMED_OUT else None)
            if received is None or received.number in signals.FORWARDED:
                break
        last_line = "" if result.is_success else self._buffer.last_line("stderr")
        message = f"{result.message}: {last_line}" if last_line else result.message
        message = message[:MAX_MESSAGE_CHARS]
        self._recorder.finish({"time": int(time.time()), "isSuccess": result.is_success, "message": message})

    def wait(self, children: Children, timeout_s: float) -> str:
        """Wait until the server has the report, until the timeout, or until a signal. Returns a problem, or ""."""
        ends_at = time.monotonic() + timeout_s
        while (code := self._sender_code(children)) is None:
            received = signals.wait(ends_at - time.monotonic())
            if received is None or received.number in signals.FORWARDED:
                break
        is_recorded = self._recorder.join(RECORD_TIMEOUT_S)
        if self._sender is not None and code is None:
            os.kill(self._sender, signals.KILL)
            self._wait_for_sender(children)
        if not is_recorded:
            return "its end could not be written to the spool in time"
        if self._recorder.problem:
            return self._recorder.problem
        if code == 0:
            return ""
        return f"{self._last_status() or 'there was not enough time'}. The next `annals run` sends the rest"

    def _sender_code(self, children: Children) -> int | None:
        return 1 if self._sender is None else children.status(self._sender)

    def _wait_for_sender(self, children: Children) -> None:
        """Wait briefly until the killed sender has released its locks, so that the next call can send the report."""
        ends_at = time.monotonic() + KILL_GRACE_S
        while self._sender_code(children) is None and (remaining_s := ends_at - time.monotonic()) > 0:
            signals.wait(remaining_s)

    def _last_status(self) -> str:
        os.set_blocking(self._status, False)
        try:
            lines = os.read(self._status, 1 << 16).decode("utf-8", "replace").splitlines()
        except BlockingIOError:
            return ""
        return lines[-1] if lines else ""


def _start_relay(output: Output, buffer: OutputBuffer, stop: int, main_thread: int) -> threading.Event:
    """Start a relay thread. Its end sets the event and wakes the main thread."""
    end = threading.Event()

    def run() -> None:
        try:
            relay(output, buffer, stop)
        finally:
            end.set()
            signals.wake(main_thread)

    threading.Thread(target=run, daemon=True).start()
    return end


def _sender_main(destination: Destination, spools: Sequence[Spool]) -> Callable[[int, int], int]:
    def send(wake: int, status: int) -> int:
        from annals_client.run.sender import follow_run  # noqa: PLC0415  (httpx is imported only in the sender process)

        return follow_run(destination, spools, wake, status)

    return send
