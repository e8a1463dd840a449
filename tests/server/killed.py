"""Exports that are killed: `python -m tests.server.killed <data directory>`, in a process of its own, for it forks.

Again and again an export is begun and killed, each time one step later than the time before: a step is whatever it
opens, makes, renames or removes. After each the directory is read like a reader would, and once an export has lived to
its end the next one is begun, until the exports that were asked for are there.
"""

import json
import os
import signal
import sys
from pathlib import Path

from chalicelib.settings import Settings
from chalicelib.wiring import embedded
from infra.server.commands.export import export
from infra.server.commands.export_folder import ExportFolder
from tests.builders import a_commit
from tests.server.exports import commits_in

STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "fcntl.flock"}
FILE_BYTES = 4_000
MOST_STEPS = 500
COMMITS = 30
ROUNDS = 2


def main(data_dir: Path) -> None:
    """Print a line of JSON for each try: the step at which it was killed, 0 if it was not, and the commits found."""
    settings = Settings.from_environment({"DATA_DIR": str(data_dir)})
    for last in range(COMMITS, COMMITS * ROUNDS + 1, COMMITS):
        _append(settings, last - COMMITS + 1, last)
        for step in range(1, MOST_STEPS):
            was_killed = _try(settings, step)
            print(json.dumps([step if was_killed else 0, commits_in(settings.exports.directory)]), flush=True)
            if not was_killed:
                break


def _append(settings: Settings, first: int, last: int) -> None:
    parts = embedded(settings)
    parts.organizations.create("acme")
    parts.log.append([a_commit(session=session, request_id=f"r{session}") for session in range(first, last + 1)], [], 0)
    parts.close()


def _try(settings: Settings, step: int) -> bool:
    """Export in a child that kills itself at a step; whether it came so far."""
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr
        parts = embedded(settings)
        sys.addaudithook(_Killer(step, str(settings.exports.directory)))
        export(parts, ExportFolder(settings.exports.directory, parts.clock, FILE_BYTES))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return False
    assert os.WTERMSIG(status) == signal.SIGKILL
    return True


class _Killer:
    """Counts what happens in a directory, and kills the process before the step happens."""

    def __init__(self, step: int, directory: str) -> None:
        self._left = step
        self._directory = directory

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if event in STEPS and (event == "fcntl.flock" or str(args[0]).startswith(self._directory)):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
