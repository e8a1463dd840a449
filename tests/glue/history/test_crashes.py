"""Whenever a load dies, the next one makes it right: each event is in the history once, and nothing is left over."""

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
from tests.glue.history.conftest import Place
from tests.glue.history.exports import commits_of, rows_of

ROOT = Path(__file__).parents[3]
COMMITS = commits_of(1, [1, 2, 30, 31, 60]) + commits_of(2, [1, 40])
FILES = 5
"""So many files they become: three days of one server, two of the other."""


class Halted(Exception):
    """A load has come to the point where it would be entered in the book."""


@dataclass(frozen=True, slots=True)
class Halting(Lake):
    """A lake in which nothing is entered."""

    entries: list[Load]

    def keep(self, load: Load) -> None:
        """Remember the load, and no more."""
        self.entries.append(load)
        raise Halted


@pytest.fixture(scope="session")
def _aside(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Place, Load]:  # noqa: ARG001
    root = tmp_path_factory.mktemp("aside")
    lake = Halting(str(root / "lake"), [])
    exports.full_export(root / "exports", "01-full", COMMITS)
    with pytest.raises(Halted):
        load_exports(Storage(str(root / "exports")), lake)
    return Place(root / "exports", root / "lake"), lake.entries[0]


@pytest.fixture
def aside(tmp_path: Path, _aside: tuple[Place, Load]) -> tuple[Place, Load]:
    """A lake in which a load is written aside, and that load."""
    place, load = _aside
    copy = Place(shutil.copytree(place.exports, tmp_path / "exports"), shutil.copytree(place.lake, tmp_path / "lake"))
    return copy, load


def _is_right(place: Place) -> None:
    assert place.rows == rows_of(COMMITS)
    entries = exports.files_in(place.lake, "_exports")
    assert list(entries) == ["_exports/00000001.json"]
    listed = {file.path for load in Lake(str(place.lake)).loads() for file in load.files}
    assert set(exports.files_in(place.lake)) == {"_exports/00000001.json"} | listed


def _killed(*args: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.glue.history.killed", *map(str, args)], cwd=ROOT, check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize(
    ("step", "is_entered", "in_place"),
    [
        pytest.param(1, False, 0, id="before the entry"),
        pytest.param(2, True, 0, id="after the entry"),
        *(pytest.param(2 + moved, True, moved, id=f"after {moved} of {FILES} files") for moved in range(1, FILES + 1)),
        pytest.param(3 + FILES, True, FILES, id="before what is aside is removed"),
        pytest.param(4 + FILES, True, FILES, id="after all of it"),
    ],
)
def test_a_load_that_is_killed_is_brought_to_its_end_by_the_next(
    aside: tuple[Place, Load], tmp_path: Path, step: int, is_entered: bool, in_place: int
) -> None:
    place, load = aside
    (tmp_path / "load.json").write_text(json.dumps(asdict(load)))
    _killed("keep", place.lake, tmp_path / "load.json", step)
    assert bool(exports.files_in(place.lake, "_exports")) == is_entered
    assert len(exports.files_in(place.lake, "events")) == in_place
    assert (place.load() is None) == is_entered
    _is_right(place)


@pytest.mark.parametrize("files", [1, 2])
def test_a_load_that_is_killed_while_it_writes_is_done_again(place: Place, files: int) -> None:
    exports.full_export(place.exports, "01-full", COMMITS)
    _killed("load", place.exports, place.lake, files)
    assert exports.files_in(place.lake, "_aside")
    assert not exports.files_in(place.lake, "events")
    assert not exports.files_in(place.lake, "_exports")
    place.load()
    _is_right(place)


def test_files_aside_without_an_entry_are_rubbish(aside: tuple[Place, Load]) -> None:
    place, _ = aside
    assert len(exports.files_in(place.lake, "_aside")) == FILES
    place.load()
    _is_right(place)


def test_files_aside_with_an_entry_are_put_in_place_although_no_export_is_new(aside: tuple[Place, Load]) -> None:
    place, load = aside
    (place.lake / "_exports").mkdir()
    (place.lake / "_exports/00000001.json").write_text(json.dumps(asdict(load)))
    assert place.load() is None
    _is_right(place)


def test_files_aside_with_an_entry_are_put_in_place_although_the_exports_are_gone(aside: tuple[Place, Load]) -> None:
    place, load = aside
    (place.lake / "_exports").mkdir()
    (place.lake / "_exports/00000001.json").write_text(json.dumps(asdict(load)))
    shutil.rmtree(place.exports)
    assert place.load() is None
    _is_right(place)


def test_half_an_entry_is_none(aside: tuple[Place, Load]) -> None:
    place, load = aside
    (place.lake / "_exports").mkdir()
    (place.lake / "_exports/00000001.json.new").write_text(json.dumps(asdict(load))[:100])
    place.load()
    _is_right(place)


@pytest.mark.parametrize("path", ["7/events/server=1/day=2026-11-01/x.parquet", "00000009/x", "rubbish/x", "rubbish"])
def test_whatever_is_left_aside_is_removed(loaded: Place, path: str) -> None:
    before = exports.files_in(loaded.lake)
    left = loaded.lake / "_aside" / path
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"rubbish")
    assert loaded.load() is None
    assert exports.files_in(loaded.lake) == before


def test_a_load_after_one_that_was_refused_is_not_disturbed_by_it(loaded: Place) -> None:
    bad = exports.with_item(commits_of(2, [1])[0], n={"N": "7"})
    good = [exports.full(commit) for commit in commits_of(1, range(4, 40))]
    (path,) = exports.export(loaded.exports, "02-bad", [[*good, bad]])
    with pytest.raises(Exception, match="session 1"):
        loaded.load()
    shutil.rmtree(path.parents[1])
    assert loaded.load() is None
    exports.export(loaded.exports, "03-good", [good])
    loaded.load()
    assert loaded.rows == rows_of(commits_of(1, range(1, 40)))
    assert exports.files_in(loaded.lake, "_aside") == {}


def test_a_load_that_was_refused_leaves_nothing_aside(loaded: Place) -> None:
    bad = exports.with_item(commits_of(2, [1])[0], n={"N": "7"})
    exports.export(loaded.exports, "02-bad", [[*map(exports.full, commits_of(1, range(4, 40))), bad]])
    before = exports.files_in(loaded.lake)
    with pytest.raises(Exception, match="session 1"):
        loaded.load()
    assert exports.files_in(loaded.lake) == before
