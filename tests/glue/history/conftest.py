"""Directories for exports and lakes."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from glue_jobs.history import Writing, load_exports
from glue_jobs.lake.lake import Lake, Load
from glue_jobs.lake.storage import Storage
from tests.glue import without_spark
from tests.glue.history.exports import Row, commits_of, full_export, rows_in


@dataclass(frozen=True, slots=True)
class Place:
    """Where exports come in and the history comes out."""

    exports: Path
    lake: Path
    write: Writing = without_spark.write

    def load(self) -> Load | None:
        """Load what is new."""
        return load_exports(Storage(str(self.exports)), Lake(str(self.lake)), self.write)

    @property
    def rows(self) -> list[Row]:
        """What the history says."""
        return rows_in(self.lake)


@pytest.fixture
def writing() -> Writing:
    """How the history is written: in this process, unless a module says otherwise."""
    return without_spark.write


@pytest.fixture
def place(tmp_path: Path, writing: Writing) -> Place:
    """Without any export, and without a lake."""
    return Place(tmp_path / "exports", tmp_path / "lake", writing)


@pytest.fixture(scope="session")
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> Place:
    root = tmp_path_factory.mktemp("loaded")
    found = Place(root / "exports", root / "lake")
    full_export(found.exports, "01-first", commits_of(1, range(1, 4)))
    found.load()
    return found


@pytest.fixture
def loaded(tmp_path: Path, _loaded: Place, writing: Writing) -> Place:
    """With sessions 1 to 3 of server 1 in the lake, out of the export `01-first`."""
    exports = shutil.copytree(_loaded.exports, tmp_path / "exports")
    return Place(exports, shutil.copytree(_loaded.lake, tmp_path / "lake"), writing)
