"""Kills exports at every step: `python -m tests.server.export_killer <data directory>`. A separate program, because it
forks.

Each attempt is killed one step later than the one before. A step is a file operation: open, mkdir, rename, remove.
After each attempt the exports are read and verified. When an attempt succeeds, commits are added for the next export.
"""

import json
import os
import signal
import sys
from pathlib import Path

from chalicelib.settings import Settings
from chalicelib.wiring import build_local
from infra.server.commands.export import export
from infra.server.commands.export_folder import ExportFolder
from tests.builders import a_commit
from tests.server.export_reader import read_commits

STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "fcntl.flock"}
FILE_BYTES = 4_000
MAX_STEPS = 500
COMMITS = 30
ROUNDS = 2


def main(data_dir: Path) -> None:
    """Print for each attempt, as JSON, the step at which it was killed or 0, and the exported commits."""
    settings = Settings.from_environment({"DATA_DIR": str(data_dir)})
    for last in range(COMMITS, COMMITS * ROUNDS + 1, COMMITS):
        _append(settings, last - COMMITS + 1, last)
        for step in range(1, MAX_STEPS):
            was_killed = _export_until(settings, step)
            print(json.dumps([step if was_killed else 0, read_commits(settings.exports.directory)]), flush=True)
            if not was_killed:
                break


def _append(settings: Settings, first: int, last: int) -> None:
    components = build_local(settings)
    components.log.organizations.create("acme")
    components.stores.log.append(
        [a_commit(session=session, request_id=f"r{session}") for session in range(first, last + 1)]
    )
    components.close()


def _export_until(settings: Settings, step: int) -> bool:
    """Export in a child process that kills itself at `step`, and return whether that was reached."""
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr
        components = build_local(settings)
        sys.addaudithook(_Killer(step, str(settings.exports.directory)))
        export(components, ExportFolder(settings.exports.directory, components.clock, FILE_BYTES))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return False
    assert os.WTERMSIG(status) == signal.SIGKILL
    return True


class _Killer:
    """An audit hook that counts file operations in a directory and kills the process before one of them."""

    def __init__(self, step: int, directory: str) -> None:
        self._remaining = step
        self._directory = directory

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if event in STEPS and (event == "fcntl.flock" or str(args[0]).startswith(self._directory)):
            self._remaining -= 1
            if self._remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
