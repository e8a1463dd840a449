"""Try a mutation in a copy of the tree: run its covering tests, stage by stage, each in a forked process.

The parent has imported the third-party packages, so that a trial does not import them again. A child imports the
mutated code, and nothing that it changes outlives it.
"""

import multiprocessing
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest

from tests.mutation.covering_tests import stages
from tests.mutation.operators import Mutation

MAX_TEST_S = 40
"""A test that takes longer hangs because of the mutation."""
MAX_STAGE_S = 900
_PRELOADED = ("hypothesis", "httpx", "pydantic", "jinja2", "chalice", "jwt", "apsw", "botocore.session", "moto")
_OWN_PACKAGES = ("tests", "chalicelib", "infra", "app", "annals_client")
_OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "-m", "not serial"),
    *("-k", "not ministack and not schemathesis and not dynamodb_local"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # plugins that are preloaded
    *("-o", f"faulthandler_timeout={MAX_TEST_S}", "-o", "faulthandler_exit_on_timeout=true"),
)
_NO_TESTS = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


class TrialFailed(Exception):
    """The tests could not be run."""


def preload() -> None:
    """Import packages that most tests need."""
    for name in _PRELOADED:
        import_module(name)


def copy_tree(root: Path, to: Path) -> None:
    """Copy the files of the working tree that git does not ignore, and link the virtual environments."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name)
    for venv in root.glob(".venv*"):
        (to / venv.name).symlink_to(venv.resolve())


class _FailureRecorder:
    """A pytest plugin that keeps the name of the first failed test."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._file.write_text(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._file.with_suffix(".failed").write_text(report.nodeid)


@dataclass
class Tree:
    """A copy of the working tree in which mutations are tried, one at a time."""

    root: Path
    _reliable: set[str] = field(default_factory=set)
    """Tests that pass without a mutation."""
    _unreliable: set[str] = field(default_factory=set)
    """Tests that fail without one. They are left out."""

    def noticed_by(self, mutation: Mutation) -> str | None:
        """The test that notices the mutation. None if it survives all stages."""
        for tests in stages(self.root, mutation.path):
            while (failed := self._run(tests, mutation)) is not None:
                test = failed or tests[0]
                # A test that fails now and then, or always, says nothing about the mutation.
                if self._passes_without_mutation(test) and self._run([test], mutation) is not None:
                    return test
                self._reliable.discard(test)
                self._unreliable.add(test)
        return None

    def _passes_without_mutation(self, test: str) -> bool:
        if test not in self._reliable | self._unreliable:
            is_reliable = self._run([test], None) is None
            if not is_reliable and "::" not in test:
                raise TrialFailed(f"{test} fails without a mutation")
            (self._reliable if is_reliable else self._unreliable).add(test)
        return test in self._reliable

    def _run(self, tests: Sequence[str], mutation: Mutation | None) -> str | None:
        """Run tests. Returns the first one that fails, empty if the tests cannot be imported, None if all pass."""
        current = self.root.parent / f"{self.root.name}.test"
        failed = current.with_suffix(".failed")
        for file in (current, failed):
            file.unlink(missing_ok=True)
        with _Applied(self.root, mutation):
            deselected = [f"--deselect={test}" for test in sorted(self._unreliable)]
            status = self._fork([*_OPTIONS, *deselected, *tests], current)
        if status in _NO_TESTS:
            return None
        # A test that hangs, or ends the process, is the last one that was started.
        return next((file.read_text() for file in (failed, current) if file.exists()), "")

    def _fork(self, arguments: Sequence[str], current: Path) -> int:
        process = multiprocessing.get_context("fork").Process(target=_run_pytest, args=(self.root, arguments, current))
        process.start()
        process.join(MAX_STAGE_S)
        if process.is_alive():
            process.kill()
            process.join()
        return process.exitcode or 0


class _Applied:
    """Context in which a mutation is in the tree."""

    def __init__(self, root: Path, mutation: Mutation | None) -> None:
        self._path = None if mutation is None else root / mutation.path
        self._mutation = mutation

    def __enter__(self) -> None:
        if self._path is not None and self._mutation is not None:
            self._source, self._times = self._path.read_bytes(), self._path.stat()
            self._path.write_bytes(self._mutation.apply(self._source))
            # Python must not take the compiled original for current.
            os.utime(self._path, (self._times.st_atime, self._times.st_mtime + 1000))

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._path.write_bytes(self._source)
            os.utime(self._path, ns=(self._times.st_atime_ns, self._times.st_mtime_ns))


def _run_pytest(root: Path, arguments: Sequence[str], current: Path) -> None:
    """In the child: run the tests of the tree and exit."""
    status = 70
    try:
        output = os.open(current.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(root)
        for name in [name for name in sys.modules if name.partition(".")[0] in _OWN_PACKAGES]:
            del sys.modules[name]
        libraries = [path for path in sys.path if "lib/python" in path]
        sys.path[:] = [str(root), str(root / "client"), *libraries]
        os.environ["PYTHONPATH"] = str(root / "client")
        # The compiled files of the original are kept. Those of mutations must not be.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        status = int(pytest.main(list(arguments), plugins=[_FailureRecorder(current)]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
