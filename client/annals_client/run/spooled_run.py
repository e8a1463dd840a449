"""One run in the spool: a folder with its events until the server has them.

    run.json               destination and description of the run
    id                     number of the job, after the server has accepted its `create` event
    output-000007.part     output lines; the recorder appends to it
    output-000006.jsonl    a closed batch: one request to the server
    output-000005.sending  a batch that the sender has claimed
    finish.json            how the run ended
    owner.lock             locked by `annals run` as long as it runs; its time is that of the last sign of life
    sender.lock            locked by the process that sends the run

Two processes may change a run at the same time: the recorder in `annals run`, and the holder of `sender.lock`. Each of
them claims a batch by renaming it, so only one of them gets it. A claimed batch never changes, so a repeated request
with its idempotency key has the same events.
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from annals_client.run import lines
from annals_client.run.lines import DROPPED, Record

MAX_BATCH_RECORDS = 500
MAX_BATCH_BYTES = 100 * 1024
MAX_OUTPUT_BYTES = 2 * 1024 * 1024
MAX_BATCHES = 40
"""Limits of the closed batches of a run."""
_CLOSED, _CLAIMED, _OPEN = ".jsonl", ".sending", ".part"


class Description(TypedDict):
    """Content of run.json."""

    url: str
    organization: str
    id: int | None
    """Number that the user gave to the job."""
    name: str
    node: str
    params: dict[str, str]
    props: dict[str, str]
    startedAt: int
    """In seconds."""


class Finish(TypedDict):
    """Content of finish.json."""

    time: int
    isSuccess: bool
    message: str


class Batch(NamedTuple):
    """A claimed batch."""

    number: int
    records: tuple[Record, ...]


class SpooledRun:
    """A run's folder. The recorder and the sender have an instance each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks: dict[str, int] = {}
        self._part: int | None = None
        self._part_records = 0
        self._part_bytes = 0
        self._number = 0

    # Locks

    def lock_owner(self, *, wait: bool = False) -> bool:
        return self._lock("owner.lock", wait)

    def lock_sender(self, *, wait: bool = False) -> bool:
        return self._lock("sender.lock", wait)

    def release(self) -> None:
        for lock in self._locks.values():
            os.close(lock)
        self._locks.clear()

    def _lock(self, name: str, wait: bool) -> bool:
        """False if another process holds the lock, or has removed the run."""
        if name in self._locks:
            return True
        try:
            lock = os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(lock)
            return False
        self._locks[name] = lock
        return True

    # Recorder

    def append(self, next_record: Callable[[], Record | None]) -> bool:
        """Append records until the batch is full, or until the first None. True if the batch is full."""
        encoded: list[bytes] = []
        while not self._is_batch_full():
            record = next_record()
            if record is None:
                break
            encoded.append(lines.encode(record))
            self._part_records += 1
            self._part_bytes += len(encoded[-1])
        if encoded:
            if self._part is None:
                self._number += 1
                self._part = os.open(self._output(self._number, _OPEN), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            _write_all(self._part, b"".join(encoded))
        return self._is_batch_full()

    @property
    def has_open_batch(self) -> bool:
        return self._part is not None

    @property
    def has_closed_batch(self) -> bool:
        return any(self._batches())

    def close_batch(self) -> None:
        """Make the open batch available to the sender, and drop the oldest batches beyond the limit."""
        if self._part is not None:
            os.close(self._part)
            self._part = None
            self._part_records = self._part_bytes = 0
            self._output(self._number, _OPEN).rename(self._output(self._number, _CLOSED))
        self.limit_output(MAX_OUTPUT_BYTES, MAX_BATCHES)

    def limit_output(self, max_bytes: int, max_batches: int) -> None:
        """Replace the oldest closed batches by a record that counts their lines."""
        batches = [path for path in self._batches() if path.suffix == _CLOSED]
        excess_bytes = sum(_size(path) for path in batches) - max_bytes
        excess_batches = len(batches) - max_batches
        dropped, time_s, last = 0, 0, None
        for path in batches:
            if excess_bytes <= 0 and excess_batches <= 0:
                break
            claimed = path.with_suffix(".dropped")
            with contextlib.suppress(FileNotFoundError):  # The sender has claimed it.
                path.rename(claimed)
                records = claimed.read_bytes()
                claimed.unlink()
                excess_bytes -= len(records)
                # The record that replaces the first batch is a batch, too.
                excess_batches -= last is not None
                dropped += lines.count_lines(records)
                time_s, last = int(self.last_sign_of_life()), path
        if last is not None:
            write_atomically(last, lines.encode((time_s, DROPPED, dropped)))

    def show_life(self) -> None:
        os.utime(self.path / "owner.lock")

    def finish(self, finish: Finish) -> None:
        write_atomically(self.path / "finish.json", json.dumps(finish).encode())

    # Sender

    def description(self) -> Description | None:
        """None if the run cannot be read, for example after a power failure."""
        description: Description | None = self._read_json("run.json")
        return description

    def job_id(self) -> int | None:
        number: int | None = self._read_json("id")
        return number

    def set_job_id(self, number: int) -> None:
        write_atomically(self.path / "id", str(number).encode())

    def claim_batch(self) -> Batch | None:
        """The oldest closed batch. It stays the oldest until `remove_batch`."""
        for path in self._batches():
            claimed = path.with_suffix(_CLAIMED)
            with contextlib.suppress(FileNotFoundError):  # The recorder has dropped it.
                path.rename(claimed)
                decoded = map(lines.decode, claimed.read_bytes().splitlines())
                return Batch(int(path.stem[-6:]), tuple(record for record in decoded if record is not None))
        return None

    def remove_batch(self, number: int) -> None:
        self._output(number, _CLAIMED).unlink(missing_ok=True)

    def finished(self) -> Finish | None:
        finish: Finish | None = self._read_json("finish.json")
        return finish

    def recover(self, message: str) -> None:
        """Finish a run whose `annals run` has ended without a result. Needs both locks."""
        if self.finished() is not None:
            return
        ended_at = self.last_sign_of_life()
        for part in self.path.glob(f"*{_OPEN}"):
            part.rename(part.with_suffix(_CLOSED))
        self.finish({"time": int(ended_at), "isSuccess": False, "message": message})

    def last_sign_of_life(self) -> float:
        """In seconds."""
        return _time(self.path / "owner.lock") or _time(self.path)

    def size(self) -> int:
        return sum(_size(path) for path in self.path.iterdir())

    def remove(self) -> None:
        # A removed run must not be found again if the removal is interrupted.
        (self.path / "run.json").unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def _is_batch_full(self) -> bool:
        return self._part_records >= MAX_BATCH_RECORDS or self._part_bytes >= MAX_BATCH_BYTES

    def _batches(self) -> list[Path]:
        """The closed and the claimed batches, oldest first."""
        found = (path for path in self.path.glob("output-*") if path.suffix in (_CLOSED, _CLAIMED))
        return sorted(found, key=lambda path: path.stem)

    def _output(self, number: int, suffix: str) -> Path:
        return self.path / f"output-{number:06}{suffix}"

    def _read_json(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            return None


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that is complete or absent, also after a power failure."""
    new = path.with_name(f"new-{path.name}")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write_all(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    new.rename(path)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
