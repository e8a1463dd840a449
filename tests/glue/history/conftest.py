"""Directories for exports and lakes."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from glue_jobs.history import WriteEvents, load_exports
from glue_jobs.lake.lake import Lake, Load
from glue_jobs.lake.storage import Storage
from tests.glue import without_spark
from tests.glue.history.exports import Row, full_export, make_commits, read_rows


@dataclass(frozen=True, slots=True)
class Workspace:
    """Directories of exports and of a lake."""

    exports: Path
    lake: Path
    write: WriteEvents = without_spark.write

    def load(self) -> Load | None:
        """Load new exports."""
        return load_exports(Storage(str(self.exports)), Lake(str(self.lake)), self.write)

    @property
    def rows(self) -> list[Row]:
        """All rows of the history."""
        return read_rows(self.lake)


@pytest.fixture
def write_events() -> WriteEvents:
    """How the history is written: without Spark, unless a module overrides this fixture."""
    return without_spark.write


@pytest.fixture
def workspace(tmp_path: Path, write_events: WriteEvents) -> Workspace:
    """A workspace without exports and lake."""
    return Workspace(tmp_path / "exports", tmp_path / "lake", write_events)


@pytest.fixture(scope="session")
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("loaded")
    workspace = Workspace(root / "exports", root / "lake")
    full_export(workspace.exports, "01-first", make_commits(1, range(1, 4)))
    workspace.load()
    return workspace


@pytest.fixture
def loaded(tmp_path: Path, _loaded: Workspace, write_events: WriteEvents) -> Workspace:
    """A workspace with sessions 1 to 3 of server 1 in the lake, from the export `01-first`."""
    exports = shutil.copytree(_loaded.exports, tmp_path / "exports")
    return Workspace(exports, shutil.copytree(_loaded.lake, tmp_path / "lake"), write_events)
