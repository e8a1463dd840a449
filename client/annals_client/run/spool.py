"""The spool: the folders of all runs whose reports are not complete.

Any number of `annals run` share it. Each run is sent by the process that holds its `sender.lock`.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from annals_client.run.events import LOST_MESSAGE
from annals_client.run.spooled_run import Description, SpooledRun, write_atomically

MAX_AGE_S = 7 * 86_400
MAX_RUNS = 500
MAX_BYTES = 64 * 1024 * 1024
_UNFINISHED = ".new-"
"""Prefix of folders that are not complete yet."""


def spools_of(environment: Mapping[str, str]) -> tuple["Spool", ...]:
    """The spool in `~/.local/state/annals`, and one in a folder for temporary files if the first is not writable."""
    state, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME", "")
    folders = [Path(state)] if Path(state).is_absolute() else [Path(home, ".local", "state")] if home else []
    temporary = Path(environment.get("TMPDIR") or "/tmp")  # noqa: S108  (see `Spool._is_ours`)
    return (*(Spool(folder / "annals") for folder in folders), Spool(temporary / f"annals-{os.getuid()}"))


class Spool:
    """The folder of the spool."""

    def __init__(self, path: Path) -> None:
        self._runs = path / "runs"

    def create_run(self, description: Description) -> SpooledRun:
        """Create a run that this process owns. Raises `OSError` if the spool is not writable or not ours."""
        self._runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._is_ours():
            raise PermissionError(f"{self._runs} belongs to another user")
        # Names are unique and sorted by time.
        name = f"{time.time_ns() // 1000:017}-{os.urandom(8).hex()}"
        run = SpooledRun(self._runs / f"{_UNFINISHED}{name}")
        run.path.mkdir(mode=0o700)
        run.lock_owner()
        write_atomically(run.path / "run.json", json.dumps(description).encode())
        run.path = run.path.rename(self._runs / name)
        return run

    def runs(self) -> list[SpooledRun]:
        """All runs, oldest first."""
        return [SpooledRun(path) for path in sorted(self._folders()) if not path.name.startswith(_UNFINISHED)]

    def prune(self) -> int:
        """Remove the runs beyond the limits, first output and then whole runs. Returns the number of removed runs.

        Active runs, and runs that another process is sending, are not removed.
        """
        self._remove_unfinished()
        runs = self.runs()
        expired_before = time.time() - MAX_AGE_S
        surplus = len(runs) - MAX_RUNS
        size = sum(_size(run) for run in runs)
        removed = 0
        for run in runs:
            is_surplus = removed < surplus
            if not (is_surplus or size > MAX_BYTES or run.last_sign_of_life() < expired_before):
                continue
            if run.lock_sender() and run.lock_owner():
                size -= _size(run)
                if is_surplus or run.last_sign_of_life() < expired_before or run.description() is None:
                    run.remove()
                    removed += 1
                else:
                    run.recover(LOST_MESSAGE)
                    run.limit_output(max_bytes=0, max_batches=1)
                    size += _size(run)
            run.release()
        return removed

    def _remove_unfinished(self) -> None:
        """Remove folders of processes that were killed while they created a run."""
        for path in self._folders():
            run = SpooledRun(path)
            if path.name.startswith(_UNFINISHED) and time.time() - run.last_sign_of_life() > 60:
                shutil.rmtree(path, ignore_errors=True)

    def _folders(self) -> Iterator[Path]:
        try:
            if self._is_ours():
                yield from self._runs.iterdir()
        except OSError:  # It does not exist or cannot be read.
            return

    def _is_ours(self) -> bool:
        """False for a folder that another user has put in a folder for temporary files."""
        return self._runs.lstat().st_uid == os.geteuid()


def _size(run: SpooledRun) -> int:
    try:
        return run.size()
    except FileNotFoundError:  # Another process has removed it.
        return 0
