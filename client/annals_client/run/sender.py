"""Send spooled runs to the server.

`annals run` forks a sender process, which sends the older runs first and then follows its own run. It may be killed at
any time: the next sender continues, and idempotency keys make repeated requests safe. `annals run --flush` sends the
older runs in its own process.
"""

import math
import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from annals_client.errors import AnnalsError, BadRequest, KeyReused, NotAllowed, Refused, Unavailable, Unexpected
from annals_client.run import events
from annals_client.run.destination import Destination
from annals_client.run.spool import Spool
from annals_client.run.spooled_run import Description, SpooledRun
from annals_client.sans_io import RetryPolicy
from annals_client.synchronous import Annals
from annals_client.values import Published

RESPONSE_TIMEOUT_S = 10.0
MIN_RETRY_INTERVAL_S = 0.2
MAX_RETRY_INTERVAL_S = 10.0
ORPHAN_TIMEOUT_S = 60.0
"""How long a sender goes on after its `annals run` was killed."""
CLIENT_ERRORS = (AnnalsError, httpx.HTTPError, httpx.InvalidURL, ValueError)


class Progress(Enum):
    """State of a run after an attempt to send it."""

    DONE = auto()
    """The server has all of it, and its folder is removed."""
    OPEN = auto()
    """The server has everything that is recorded, but the run has not ended."""
    SKIPPED = auto()
    """The run belongs to another destination, or another process sends it."""


class Flushed(NamedTuple):
    """Result of sending the older runs."""

    sent: int
    left: int
    refusal: AnnalsError | None


class Sender:
    """Sends runs to one destination."""

    def __init__(self, destination: Destination, spools: Sequence[Spool], policy: RetryPolicy) -> None:
        self._destination = destination
        self._spools = spools
        self._annals = Annals(
            destination.url, destination.token, organization=destination.organization, retry_policy=policy
        )

    def send_older(self, own: Path | None = None) -> Flushed:
        """Send all runs except `own`. Runs that the server refuses stay in the spool.

        Raises `Unavailable` after two failures in a row: a single one may be due to the run.
        """
        sent, left, refusal = 0, 0, None
        failure: Unavailable | None = None
        for run in [run for spool in self._spools for run in spool.runs() if run.path != own]:
            try:
                progress = self._send_run(run)
                sent += progress is Progress.DONE
                left += progress is Progress.SKIPPED and run.path.exists()
                failure = None
            except Unavailable as error:
                if failure is not None:
                    raise
                left, failure = left + 1, error
            except (Refused, Unexpected) as error:
                left, refusal = left + 1, error
                if isinstance(error, NotAllowed):
                    break
            finally:
                run.release()
        if failure is not None:
            raise failure
        return Flushed(sent, left, refusal)

    def send(self, run: SpooledRun) -> Progress:
        """Send all that is recorded. Needs the run's `sender.lock`. Raises `Unavailable`, `Refused`, `Unexpected`."""
        description = run.description()
        if description is None:
            run.remove()
            return Progress.DONE
        if not self._destination.accepts(description):
            return Progress.SKIPPED
        job_id = run.job_id()
        if job_id is None:
            job_id = self._create(run, description)
        # The end is read first: batches that exist after it are all there are.
        finish = run.finished()
        while (batch := run.claim_batch()) is not None:
            with suppress(BadRequest):  # This batch can never be sent. The rest of the run can.
                output = events.output_events(description, job_id, batch.records)
                self._publish(run, f"{batch.number}", output)
            run.remove_batch(batch.number)
        if finish is None:
            return Progress.OPEN
        self._publish(run, "finish", [events.finish_event(description, job_id, finish)])
        run.remove()
        return Progress.DONE

    def _send_run(self, run: SpooledRun) -> Progress:
        """Send a run that has ended. One without a result is finished first."""
        if not (run.lock_sender() and run.lock_owner()):
            return Progress.SKIPPED
        run.recover(events.LOST_MESSAGE)
        return self.send(run)

    def _create(self, run: SpooledRun, description: Description) -> int:
        published = self._publish(run, "create", [events.create_event(description)])
        assigned = published.ids if published is not None else ()
        number = description["id"] if description["id"] is not None else next(iter(assigned), None)
        if number is None:
            raise Unexpected(201, "the response has no number of the job")
        run.set_job_id(number)
        return number

    def _publish(self, run: SpooledRun, part: str, new_events: Sequence[Mapping[str, Any]]) -> Published | None:
        """None if an earlier version of the request was written."""
        if not new_events:
            return None
        key = events.idempotency_key(run.path.name, part)
        try:
            return self._annals.publish(new_events, vocabulary="job", idempotency_key=key)
        except KeyReused:
            return None


def follow_run(destination: Destination, spools: Sequence[Spool], wake: int, status: int) -> int:
    """The sender process: send older runs, then the run whose path arrives on the pipe `wake`, until it is complete.

    The last problem is written to the pipe `status`. Returns an exit code: 0 if the run is complete.
    """
    os.set_blocking(status, False)
    try:
        for spool in spools:
            spool.prune()
        path = _read_line(wake)
        # Without retries in the client, so that problems are known at once. The follower retries.
        sender = Sender(destination, spools, RetryPolicy(RESPONSE_TIMEOUT_S, jitter=lambda _: math.inf))
        if not path:  # The recorder could not create a run.
            sender.send_older()
            return 0
        own = SpooledRun(Path(os.fsdecode(path)))
        own.lock_sender(wait=True)  # Another sender may just be finding out that this run is active.
        return _Follower(sender, own, wake, status).run()
    except (*CLIENT_ERRORS, OSError) as error:
        _write_line(status, str(error))
        return 1


class _Follower:
    """Sends the older runs, and its own run while it is recorded."""

    def __init__(self, sender: Sender, own: SpooledRun, wake: int, status: int) -> None:
        self._sender = sender
        self._own = own
        self._wake = wake
        self._status = status
        self._are_older_sent = False
        self._retry_s = MIN_RETRY_INTERVAL_S
        self._has_ended = False

    def run(self) -> int:
        while not self._attempt():
            if not self._wait():
                return self._end_killed_run()
        return 0

    def _attempt(self) -> bool:
        """Send all there is. True if the own run is complete."""
        failure: Unavailable | None = None
        try:
            if not self._are_older_sent:
                self._sender.send_older(self._own.path)
                self._are_older_sent = True
        except Unavailable as error:  # It may be due to the older runs, so the own run is tried, too.
            failure = error
        try:
            if self._sender.send(self._own) is Progress.DONE:
                return True
        except Unavailable as error:
            failure = error
        if failure is None:
            self._retry_s = 0
        else:
            _write_line(self._status, str(failure))
            self._retry_s = min(max(self._retry_s * 2, MIN_RETRY_INTERVAL_S), MAX_RETRY_INTERVAL_S)
        return False

    def _wait(self) -> bool:
        """Wait for new work, or after a failure for the end of the pause. False if `annals run` has ended."""
        ends_at = time.monotonic() + self._retry_s if self._retry_s else None
        while True:
            remaining_s = None if ends_at is None else max(ends_at - time.monotonic(), 0)
            ready, _, _ = select.select([self._wake], [], [], remaining_s)
            if not ready:
                return True
            if not os.read(self._wake, 4096):
                return False
            if not self._has_ended and self._own.finished() is not None:
                # There is little time left, so a long pause ends now.
                self._has_ended = True
                self._retry_s = MIN_RETRY_INTERVAL_S
                return True
            if ends_at is None:
                return True

    def _end_killed_run(self) -> int:
        """Report that `annals run` was killed. After a regular end it kills this process."""
        ends_at = time.monotonic() + ORPHAN_TIMEOUT_S
        if self._own.lock_owner(wait=True):
            self._own.recover(events.LOST_MESSAGE)
        while not self._attempt():
            if time.monotonic() > ends_at:
                return 1
            time.sleep(self._retry_s)
        return 0


def _read_line(pipe: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(pipe, 1)):
        line += byte
    return line.removesuffix(b"\n")


def _write_line(pipe: int, text: str) -> None:
    with suppress(OSError):
        os.write(pipe, text.replace("\n", " ").encode()[:500] + b"\n")
