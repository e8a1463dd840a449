"""Exports may overlap, be repeated and come in any order: each event is in the history exactly once."""

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

from glue_jobs.history import Writing, by_spark
from tests.glue.history import exports
from tests.glue.history.conftest import Place
from tests.glue.history.exports import FOLDER, Commit, commits_of, rows_of

Write = Callable[[Path, str, list[Commit]], object]
WRITERS: list[Write] = [exports.full_export, exports.incremental_export]


@pytest.fixture
def writing(spark: SparkSession) -> Writing:  # noqa: ARG001
    """Here it is Spark that brings together what belongs together."""
    return by_spark


def test_nothing_at_all_is_loaded_without_exports(place: Place) -> None:
    assert place.load() is None
    assert exports.files_in(place.lake) == {}


def test_an_export_that_was_loaded_is_passed_over(loaded: Place) -> None:
    before = exports.files_in(loaded.lake)
    assert loaded.load() is None
    assert exports.files_in(loaded.lake) == before


@pytest.mark.parametrize("write", WRITERS)
def test_the_same_export_under_another_id_adds_nothing(loaded: Place, write: Write) -> None:
    before = exports.files_in(loaded.lake, "events")
    write(loaded.exports, "02-again", commits_of(1, range(1, 4)))
    load = loaded.load()
    assert load is not None
    assert (load.number, load.exports, load.files) == (2, ["02-again"], [])
    assert exports.files_in(loaded.lake, "events") == before
    assert loaded.load() is None


@pytest.mark.parametrize("write", WRITERS)
def test_of_an_export_that_overlaps_only_the_new_is_added(loaded: Place, write: Write) -> None:
    before = exports.files_in(loaded.lake, "events")
    write(loaded.exports, "02-more", commits_of(1, range(2, 8)) + commits_of(2, range(1, 3)))
    load = loaded.load()
    after = exports.files_in(loaded.lake, "events")
    assert load is not None
    assert sum(file.events for file in load.files) == 2 * (4 + 2)
    assert {path: content for path, content in after.items() if path in before} == before
    assert loaded.rows == rows_of(commits_of(1, range(1, 8)) + commits_of(2, range(1, 3)))


@pytest.mark.parametrize("times", [2, 5])
def test_a_commit_that_is_in_several_exports_of_one_load_is_added_once(place: Place, times: int) -> None:
    for number in range(times):
        WRITERS[number % 2](place.exports, f"{number}", commits_of(1, range(1 + number, 20 + number)))
    place.load()
    assert place.rows == rows_of(commits_of(1, range(1, 19 + times)))


def test_a_commit_that_is_several_times_in_one_file_is_added_once(place: Place) -> None:
    one, two = commits_of(1, range(1, 3))
    exports.export(place.exports, "01", [[exports.full(one), exports.changed(two), exports.changed(one)] * 3])
    place.load()
    assert place.rows == rows_of([one, two])


def test_a_commit_that_is_plain_in_one_export_and_deflated_in_another_is_the_same(place: Place) -> None:
    plain, deflated = (replace(commits_of(1, [1])[0], deflated=deflated) for deflated in (False, True))
    exports.full_export(place.exports, "01", [plain])
    exports.full_export(place.exports, "02", [deflated])
    place.load()
    assert place.rows == rows_of([plain])


def test_a_commit_that_was_deflated_in_two_ways_is_the_same(place: Place) -> None:
    commit = replace(commits_of(1, [1])[0], deflated=True)
    for level in (0, 9):
        z = base64.b64encode(zlib.compress(commit.body.encode(), level)).decode()
        exports.export(place.exports, f"{level}", [[exports.with_item(commit, z={"B": z})]])
    place.load()
    assert place.rows == rows_of([commit])


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (3, 1, 2)])
def test_exports_come_in_any_order(place: Place, order: tuple[int, ...]) -> None:
    for run, part in enumerate(order):
        exports.incremental_export(place.exports, f"{part}", commits_of(1, range(10 * part, 10 * part + 13)))
        load = place.load()
        assert load is not None
        assert load.number == run + 1
    assert place.rows == rows_of(commits_of(1, range(10, 43)))


def test_a_gap_between_what_is_known_is_filled(place: Place) -> None:
    exports.full_export(place.exports, "01-odd", commits_of(1, range(1, 40, 2)))
    place.load()
    exports.full_export(place.exports, "02-all", commits_of(1, range(1, 41)))
    load = place.load()
    assert load is not None
    assert sum(file.events for file in load.files) == 2 * 20
    assert place.rows == rows_of(commits_of(1, range(1, 41)))


def test_what_one_server_has_is_not_known_of_another(place: Place) -> None:
    exports.full_export(place.exports, "01", commits_of(1, range(1, 10)) + commits_of(3, range(5, 10)))
    place.load()
    exports.full_export(place.exports, "02", commits_of(2, range(1, 10)) + commits_of(3, range(1, 10)))
    place.load()
    assert place.rows == rows_of([commit for server in (1, 2, 3) for commit in commits_of(server, range(1, 10))])


def test_exports_may_be_removed_once_they_are_loaded(loaded: Place) -> None:
    shutil.rmtree(loaded.exports / FOLDER / "01-first")
    exports.incremental_export(loaded.exports, "02-more", commits_of(1, range(4, 6)))
    loaded.load()
    assert loaded.rows == rows_of(commits_of(1, range(1, 6)))


def test_the_book_says_what_is_in_the_lake(loaded: Place) -> None:
    exports.full_export(loaded.exports, "02-more", commits_of(1, range(1, 60)) + commits_of(2, range(1, 3)))
    load = loaded.load()
    assert load is not None
    there = {path for path in exports.files_in(loaded.lake, "events") if "/day=" in path}
    first = {path for path in there if path not in {file.path for file in load.files}}
    assert len(there) == len(first) + len(load.files)
    assert load.days == {(row[0], row[1]) for row in rows_of(commits_of(1, range(4, 60)) + commits_of(2, range(1, 3)))}


POOL = [commit for server in (1, 2) for commit in commits_of(server, [1, 2, 3, 4, 5, 9_999, 10_000])]
PARTS = st.lists(st.sampled_from(POOL), max_size=8)
RUNS = st.lists(st.lists(st.tuples(st.sampled_from(WRITERS), PARTS), min_size=1, max_size=3), min_size=1, max_size=3)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=RUNS)
def test_however_commits_come_the_history_is_the_same(
    spark: SparkSession,  # noqa: ARG001
    runs: list[list[tuple[Write, list[Commit]]]],
) -> None:
    with tempfile.TemporaryDirectory() as root:
        place = Place(Path(root) / "exports", Path(root) / "lake")
        told: dict[tuple[int, int], Commit] = {}
        for run, together in enumerate(runs):
            for number, (write, commits) in enumerate(together):
                write(place.exports, f"{run}-{number}", commits)
                told |= {(commit.server, commit.session): commit for commit in commits}
            place.load()
            assert place.rows == rows_of(told.values())
