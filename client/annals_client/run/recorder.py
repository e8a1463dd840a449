"""Write the events of the current run to the spool.

Threads: one thread, which `Recorder` starts, has the run's folder to itself. The main thread calls `finish`, once. Both
threads read `problem`. The relay threads only touch the `OutputBuffer`, which has its own lock, so a slow disk does not
delay them.
"""

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence

from annals_client.run.lines import LineSplitter, Record
from annals_client.run.output import OutputBuffer
from annals_client.run.spool import Spool
from annals_client.run.spooled_run import Description, Finish, SpooledRun

BATCH_INTERVAL_S = 0.5
FULL_BATCHES_PER_INTERVAL = 20
"""The interval grows by `BATCH_INTERVAL_S` with this number of full batches, so that a very chatty command does not
fill the log: 1,000 lines per second at first, 40 per second after an hour."""
SIGN_OF_LIFE_INTERVAL_S = 10.0


class RecordReader:
    """Reads the buffered output line by line."""

    def __init__(self, buffer: OutputBuffer) -> None:
        self._buffer = buffer
        self._splitters: dict[str, LineSplitter] = {}
        self._lines: Iterator[Record] = iter(())
        """The rest of the last chunk."""

    def next(self) -> Record | None:
        """The next complete line, or None if the buffer has none."""
        while True:
            for record in self._lines:
                return record
            chunk = self._buffer.take()
            if chunk is None:
                return None
            splitter = self._splitters.setdefault(chunk.stream, LineSplitter(chunk.stream))
            self._lines = splitter.split(chunk)

    def rest(self, time_s: int) -> Iterator[Record]:
        """Everything after the end of all streams."""
        while (record := self.next()) is not None:
            yield record
        for splitter in self._splitters.values():
            yield from splitter.rest(time_s)


class Recorder:
    """Creates a run in the first spool that is writable, and records its output and its end."""

    def __init__(self, description: Description, buffer: OutputBuffer, spools: Sequence[Spool], wake: int) -> None:
        """`wake` is a non-blocking pipe to the sender: first the path of the run, then a line per batch."""
        self._description = description
        self._buffer = buffer
        self._spools = spools
        self._wake = wake
        self._records = RecordReader(buffer)
        self._finish: Finish | None = None
        self._has_ended = threading.Event()
        self._full_batches = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.problem = ""
        """Why the record is incomplete."""
        self.run: SpooledRun | None = None

    def start(self) -> None:
        self._thread.start()

    def finish(self, finish: Finish) -> None:
        """Record the end of the run. All streams must have ended."""
        self._finish = finish
        self._has_ended.set()
        self._buffer.has_output.set()

    def join(self, timeout_s: float) -> bool:
        """Wait until everything is recorded. False after the timeout."""
        self._thread.join(max(timeout_s, 0))
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.run = self._create_run()
        except OSError as error:
            self.problem = f"the spool cannot be written: {error}"
            os.close(self._wake)  # The sender ends without a run.
            return
        self._wake_sender(os.fsencode(self.run.path))
        while (finish := self._finish) is None:
            self._buffer.has_output.wait(BATCH_INTERVAL_S if self.run.has_open_batch else SIGN_OF_LIFE_INTERVAL_S)
            self._record_batch(self.run)
            self._has_ended.wait(BATCH_INTERVAL_S * (1 + self._full_batches / FULL_BATCHES_PER_INTERVAL))
        self._record_end(self.run, finish)

    def _create_run(self) -> SpooledRun:
        for spool in self._spools[:-1]:
            with contextlib.suppress(OSError):
                return spool.create_run(self._description)
        return self._spools[-1].create_run(self._description)

    def _record_batch(self, run: SpooledRun) -> None:
        try:
            run.show_life()
            is_full = run.append(self._records.next)
            self._full_batches += is_full
            # While the sender has work, the batch grows. This makes fewer and larger requests.
            if run.has_open_batch and (is_full or not run.has_closed_batch):
                run.close_batch()
                self._wake_sender()
        except OSError as error:
            self._make_room(run, error)

    def _record_end(self, run: SpooledRun, finish: Finish) -> None:
        rest = self._records.rest(finish["time"])
        try:
            while run.append(lambda: next(rest, None)):
                run.close_batch()
                self._wake_sender()
            run.close_batch()
        except OSError as error:
            self._make_room(run, error)
        try:
            run.show_life()
            run.finish(finish)
        except OSError as error:
            self.problem = f"the spool cannot be written: {error}"
        self._wake_sender()

    def _make_room(self, run: SpooledRun, error: OSError) -> None:
        """Give up output that is not sent yet, so that the end of the run can be written."""
        self.problem = f"output lines are missing, because the spool cannot be written: {error}"
        with contextlib.suppress(OSError):
            run.limit_output(max_bytes=0, max_batches=1)

    def _wake_sender(self, line: bytes = b"") -> None:
        # A full pipe has enough to wake the sender. A broken one has no sender.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._wake, line + b"\n")
