"""A load that is killed at any step is completed by the next one."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from glue_jobs.history import load_exports
from glue_jobs.lake.lake import Lake, Load
from glue_jobs.lake.storage import Storage
from tests.glue.history import exports
from tests.glue.history.conftest import Workspace
from tests.glue.history.exports import expected_rows, make_commits

ROOT = Path(__file__).parents[3]
COMMITS = make_commits(1, [1, 2, 30, 31, 60]) + make_commits(2, [1, 40])
FILES = 5
"""Number of history files: three days of one server, two of the other."""


class Halted(Exception):
    """The load has reached its commit."""


@dataclass(frozen=True, slots=True)
class HaltingLake(Lake):
    """A lake that stops a load before it is committed."""

    entries: list[Load]

    def commit(self, load: Load) -> None:
        self.entries.append(load)
        raise Halted


@pytest.fixture(scope="session")
def _staged(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Workspace, Load]:  # noqa: ARG001
    root = tmp_path_factory.mktemp("aside")
    lake = HaltingLake(str(root / "lake"), [])
    exports.full_export(root / "exports", "01-full", COMMITS)
    with pytest.raises(Halted):
        load_exports(Storage(str(root / "exports")), lake)
    return Workspace(root / "exports", root / "lake"), lake.entries[0]


@pytest.fixture
def staged(tmp_path: Path, _staged: tuple[Workspace, Load]) -> tuple[Workspace, Load]:
    """A workspace with a staged load, and that load."""
    workspace, load = _staged
    copy = Workspace(
        shutil.copytree(workspace.exports, tmp_path / "exports"), shutil.copytree(workspace.lake, tmp_path / "lake")
    )
    return copy, load


def _assert_complete(workspace: Workspace) -> None:
    assert workspace.rows == expected_rows(COMMITS)
    entries = exports.read_files(workspace.lake, "_exports")
    assert list(entries) == ["_exports/00000001.json"]
    listed = {file.path for load in Lake(str(workspace.lake)).loads() for file in load.files}
    assert set(exports.read_files(workspace.lake)) == {"_exports/00000001.json"} | listed


def _run_killed(*args: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.glue.history.killed_load", *map(str, args)],
        cwd=ROOT,
        check=False,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize(
    ("step", "is_committed", "moved_files"),
    [
        pytest.param(1, False, 0, id="before manifest"),
        pytest.param(2, True, 0, id="after manifest"),
        *(pytest.param(2 + moved, True, moved, id=f"after {moved} of {FILES} files") for moved in range(1, FILES + 1)),
        pytest.param(3 + FILES, True, FILES, id="before staging is removed"),
        pytest.param(4 + FILES, True, FILES, id="at the end"),
    ],
)
def test_load_killed_in_commit_is_completed_by_next(
    staged: tuple[Workspace, Load], tmp_path: Path, step: int, is_committed: bool, moved_files: int
) -> None:
    workspace, load = staged
    (tmp_path / "load.json").write_text(json.dumps(asdict(load)))
    _run_killed("commit", workspace.lake, tmp_path / "load.json", step)
    assert bool(exports.read_files(workspace.lake, "_exports")) == is_committed
    assert len(exports.read_files(workspace.lake, "events")) == moved_files
    assert (workspace.load() is None) == is_committed
    _assert_complete(workspace)


@pytest.mark.parametrize("files", [1, 2])
def test_load_killed_while_writing_is_repeated(workspace: Workspace, files: int) -> None:
    exports.full_export(workspace.exports, "01-full", COMMITS)
    _run_killed("load", workspace.exports, workspace.lake, files)
    assert exports.read_files(workspace.lake, "_aside")
    assert not exports.read_files(workspace.lake, "events")
    assert not exports.read_files(workspace.lake, "_exports")
    workspace.load()
    _assert_complete(workspace)


def test_staged_files_without_manifest_are_discarded(staged: tuple[Workspace, Load]) -> None:
    workspace, _ = staged
    assert len(exports.read_files(workspace.lake, "_aside")) == FILES
    workspace.load()
    _assert_complete(workspace)


def test_staged_files_with_manifest_are_moved(staged: tuple[Workspace, Load]) -> None:
    workspace, load = staged
    (workspace.lake / "_exports").mkdir()
    (workspace.lake / "_exports/00000001.json").write_text(json.dumps(asdict(load)))
    assert workspace.load() is None
    _assert_complete(workspace)


def test_staged_files_are_moved_without_their_exports(staged: tuple[Workspace, Load]) -> None:
    workspace, load = staged
    (workspace.lake / "_exports").mkdir()
    (workspace.lake / "_exports/00000001.json").write_text(json.dumps(asdict(load)))
    shutil.rmtree(workspace.exports)
    assert workspace.load() is None
    _assert_complete(workspace)


def test_partial_manifest_is_ignored(staged: tuple[Workspace, Load]) -> None:
    workspace, load = staged
    (workspace.lake / "_exports").mkdir()
    (workspace.lake / "_exports/00000001.json.new").write_text(json.dumps(asdict(load))[:100])
    workspace.load()
    _assert_complete(workspace)


@pytest.mark.parametrize("path", ["7/events/server=1/day=2026-11-01/x.parquet", "00000009/x", "rubbish/x", "rubbish"])
def test_other_staged_files_are_removed(loaded: Workspace, path: str) -> None:
    before = exports.read_files(loaded.lake)
    leftover = loaded.lake / "_aside" / path
    leftover.parent.mkdir(parents=True, exist_ok=True)
    leftover.write_bytes(b"rubbish")
    assert loaded.load() is None
    assert exports.read_files(loaded.lake) == before


def test_load_after_refused_one_succeeds(loaded: Workspace) -> None:
    bad = exports.with_item(make_commits(2, [1])[0], n={"N": "7"})
    good = [exports.full(commit) for commit in make_commits(1, range(4, 40))]
    (path,) = exports.export(loaded.exports, "02-bad", [[*good, bad]])
    with pytest.raises(Exception, match="session 1"):
        loaded.load()
    shutil.rmtree(path.parents[1])
    assert loaded.load() is None
    exports.export(loaded.exports, "03-good", [good])
    loaded.load()
    assert loaded.rows == expected_rows(make_commits(1, range(1, 40)))
    assert exports.read_files(loaded.lake, "_aside") == {}


def test_refused_load_leaves_no_staged_files(loaded: Workspace) -> None:
    bad = exports.with_item(make_commits(2, [1])[0], n={"N": "7"})
    exports.export(loaded.exports, "02-bad", [[*map(exports.full, make_commits(1, range(4, 40))), bad]])
    before = exports.read_files(loaded.lake)
    with pytest.raises(Exception, match="session 1"):
        loaded.load()
    assert exports.read_files(loaded.lake) == before
