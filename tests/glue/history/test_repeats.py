"""Exports may overlap, repeat and arrive in any order: each event is in the history once."""

import base64
import shutil
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from glue_jobs.history import WriteEvents, write_with_spark
from tests.glue.history import exports
from tests.glue.history.conftest import Workspace
from tests.glue.history.exports import FOLDER, Commit, expected_rows, make_commits

Write = Callable[[Path, str, list[Commit]], object]
WRITERS: list[Write] = [exports.full_export, exports.incremental_export]


@pytest.fixture
def write_events(spark: SparkSession) -> WriteEvents:  # noqa: ARG001
    """Write with Spark, which brings duplicates together."""
    return write_with_spark


def test_load_without_exports_does_nothing(workspace: Workspace) -> None:
    assert workspace.load() is None
    assert exports.read_files(workspace.lake) == {}


def test_load_skips_loaded_export(loaded: Workspace) -> None:
    before = exports.read_files(loaded.lake)
    assert loaded.load() is None
    assert exports.read_files(loaded.lake) == before


@pytest.mark.parametrize("write", WRITERS)
def test_load_same_content_with_other_id_adds_nothing(loaded: Workspace, write: Write) -> None:
    before = exports.read_files(loaded.lake, "events")
    write(loaded.exports, "02-again", make_commits(1, range(1, 4)))
    load = loaded.load()
    assert load is not None
    assert (load.number, load.exports, load.files) == (2, ["02-again"], [])
    assert exports.read_files(loaded.lake, "events") == before
    assert loaded.load() is None


@pytest.mark.parametrize("write", WRITERS)
def test_load_overlapping_export_adds_new_commits_only(loaded: Workspace, write: Write) -> None:
    before = exports.read_files(loaded.lake, "events")
    write(loaded.exports, "02-more", make_commits(1, range(2, 8)) + make_commits(2, range(1, 3)))
    load = loaded.load()
    after = exports.read_files(loaded.lake, "events")
    assert load is not None
    assert sum(file.events for file in load.files) == 2 * (4 + 2)
    assert {path: content for path, content in after.items() if path in before} == before
    assert loaded.rows == expected_rows(make_commits(1, range(1, 8)) + make_commits(2, range(1, 3)))


@pytest.mark.parametrize("times", [2, 5])
def test_commit_in_several_exports_is_added_once(workspace: Workspace, times: int) -> None:
    for number in range(times):
        WRITERS[number % 2](workspace.exports, f"{number}", make_commits(1, range(1 + number, 20 + number)))
    workspace.load()
    assert workspace.rows == expected_rows(make_commits(1, range(1, 19 + times)))


def test_commit_repeated_in_one_file_is_added_once(workspace: Workspace) -> None:
    first, second = make_commits(1, range(1, 3))
    exports.export(
        workspace.exports, "01", [[exports.full(first), exports.changed(second), exports.changed(first)] * 3]
    )
    workspace.load()
    assert workspace.rows == expected_rows([first, second])


def test_commit_plain_and_deflated_is_the_same(workspace: Workspace) -> None:
    plain, deflated = (replace(make_commits(1, [1])[0], deflated=deflated) for deflated in (False, True))
    exports.full_export(workspace.exports, "01", [plain])
    exports.full_export(workspace.exports, "02", [deflated])
    workspace.load()
    assert workspace.rows == expected_rows([plain])


def test_commit_deflated_in_two_ways_is_the_same(workspace: Workspace) -> None:
    commit = replace(make_commits(1, [1])[0], deflated=True)
    for level in (0, 9):
        z = base64.b64encode(zlib.compress(commit.body.encode(), level)).decode()
        exports.export(workspace.exports, f"{level}", [[exports.with_item(commit, z={"B": z})]])
    workspace.load()
    assert workspace.rows == expected_rows([commit])


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (3, 1, 2)])
def test_load_exports_in_any_order(workspace: Workspace, order: tuple[int, ...]) -> None:
    for run, part in enumerate(order):
        exports.incremental_export(workspace.exports, f"{part}", make_commits(1, range(10 * part, 10 * part + 13)))
        load = workspace.load()
        assert load is not None
        assert load.number == run + 1
    assert workspace.rows == expected_rows(make_commits(1, range(10, 43)))


def test_load_fills_gaps_between_loaded_sessions(workspace: Workspace) -> None:
    exports.full_export(workspace.exports, "01-odd", make_commits(1, range(1, 40, 2)))
    workspace.load()
    exports.full_export(workspace.exports, "02-all", make_commits(1, range(1, 41)))
    load = workspace.load()
    assert load is not None
    assert sum(file.events for file in load.files) == 2 * 20
    assert workspace.rows == expected_rows(make_commits(1, range(1, 41)))


def test_load_separates_servers(workspace: Workspace) -> None:
    exports.full_export(workspace.exports, "01", make_commits(1, range(1, 10)) + make_commits(3, range(5, 10)))
    workspace.load()
    exports.full_export(workspace.exports, "02", make_commits(2, range(1, 10)) + make_commits(3, range(1, 10)))
    workspace.load()
    assert workspace.rows == expected_rows(
        [commit for server in (1, 2, 3) for commit in make_commits(server, range(1, 10))]
    )


def test_load_after_loaded_export_was_removed(loaded: Workspace) -> None:
    shutil.rmtree(loaded.exports / FOLDER / "01-first")
    exports.incremental_export(loaded.exports, "02-more", make_commits(1, range(4, 6)))
    loaded.load()
    assert loaded.rows == expected_rows(make_commits(1, range(1, 6)))


def test_manifest_lists_all_files_of_load(loaded: Workspace) -> None:
    exports.full_export(loaded.exports, "02-more", make_commits(1, range(1, 60)) + make_commits(2, range(1, 3)))
    load = loaded.load()
    assert load is not None
    files = {path for path in exports.read_files(loaded.lake, "events") if "/day=" in path}
    first = {path for path in files if path not in {file.path for file in load.files}}
    assert len(files) == len(first) + len(load.files)
    assert load.days == {
        (row[0], row[1]) for row in expected_rows(make_commits(1, range(4, 60)) + make_commits(2, range(1, 3)))
    }


POOL = [commit for server in (1, 2) for commit in make_commits(server, [1, 2, 3, 4, 5, 9_999, 10_000])]
PARTS = st.lists(st.sampled_from(POOL), max_size=8)
RUNS = st.lists(st.lists(st.tuples(st.sampled_from(WRITERS), PARTS), min_size=1, max_size=3), min_size=1, max_size=3)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=RUNS)
def test_history_does_not_depend_on_split_of_commits(
    spark: SparkSession,  # noqa: ARG001
    runs: list[list[tuple[Write, list[Commit]]]],
) -> None:
    with tempfile.TemporaryDirectory() as root:
        workspace = Workspace(Path(root) / "exports", Path(root) / "lake")
        commits_by_id: dict[tuple[int, int], Commit] = {}
        for run, batch in enumerate(runs):
            for number, (write, commits) in enumerate(batch):
                write(workspace.exports, f"{run}-{number}", commits)
                commits_by_id |= {(commit.server, commit.session): commit for commit in commits}
            workspace.load()
            assert workspace.rows == expected_rows(commits_by_id.values())
