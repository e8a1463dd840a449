"""Exports of all shapes: unfinished, empty, in many files, without manifests, compressed in parts, large."""

import gzip
import hashlib
import random
from pathlib import Path

import pytest

from glue_jobs.errors import BrokenExport
from glue_jobs.exports.manifest import DataFile, find_exports
from glue_jobs.exports.reader import BLOCK_BYTES, READ_BYTES, items
from glue_jobs.lake.storage import Storage
from glue_jobs.transforms import commits as transforms
from tests.glue.history import exports
from tests.glue.history.conftest import Place
from tests.glue.history.exports import FILES, FOLDER, SUMMARY, Commit, Event, commits_of, rows_of


def test_an_export_without_a_summary_is_passed_over_until_it_is_complete(loaded: Place) -> None:
    exports.full_export(loaded.exports, "02-more", commits_of(1, range(1, 9)))
    summary = loaded.exports / FOLDER / "02-more" / SUMMARY
    content = summary.read_bytes()
    summary.unlink()
    before = exports.files_in(loaded.lake)
    assert loaded.load() is None
    assert exports.files_in(loaded.lake) == before
    summary.write_bytes(content)
    load = loaded.load()
    assert load is not None
    assert load.exports == ["02-more"]
    assert loaded.rows == rows_of(commits_of(1, range(1, 9)))


@pytest.mark.parametrize("left", [["data"], ["data", FILES], ["_started"], []])
def test_an_unfinished_export_does_not_stop_those_beside_it(loaded: Place, left: list[str]) -> None:
    unfinished = loaded.exports / FOLDER / "02-unfinished"
    (unfinished / "data").mkdir(parents=True)
    for name in left:
        path = unfinished / "data/x.json.gz" if name == "data" else unfinished / name
        path.write_bytes(b"not yet whole")
    exports.full_export(loaded.exports, "03-more", commits_of(1, range(4, 6)))
    loaded.load()
    assert loaded.rows == rows_of(commits_of(1, range(1, 6)))


def test_an_unfinished_export_alone_is_nothing_new(place: Place) -> None:
    (path,) = exports.full_export(place.exports, "01-first", commits_of(1, range(1, 4)))
    for name in (SUMMARY, FILES):
        (place.exports / FOLDER / "01-first" / name).unlink()
    path.write_bytes(path.read_bytes()[:-10])
    assert place.load() is None


def test_a_first_export_that_is_still_written_aside_is_nothing_new(place: Place) -> None:
    path = place.exports / ".unfinished/01-first/data/00000-1a2b3c4d.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(exports.full(Commit(1, 1)))[:-10])
    assert place.load() is None


def test_data_files_without_any_manifest_are_loaded(place: Place) -> None:
    commits = commits_of(1, range(1, 9))
    for number, commit in enumerate(commits):
        path = place.exports / f"some/where/{number}.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(exports.full(commit)))
    (place.exports / "README.txt").write_text("not a data file")
    place.load()
    assert place.rows == rows_of(commits)
    assert place.load() is None


def test_another_data_file_without_a_manifest_is_loaded_too(place: Place) -> None:
    place.exports.mkdir()
    for session in (1, 2):
        (place.exports / f"{session}.json.gz").write_bytes(gzip.compress(exports.full(Commit(1, session))))
        place.load()
    assert place.rows == rows_of([Commit(1, 1), Commit(1, 2)])


@pytest.mark.parametrize("files", [[], [[]], [[], [], []]], ids=["no file", "an empty file", "empty files"])
def test_an_export_without_items_is_loaded_once(loaded: Place, files: list[list[bytes]]) -> None:
    before = exports.files_in(loaded.lake, "events")
    exports.export(loaded.exports, "02-empty", files)
    load = loaded.load()
    assert load is not None
    assert (load.exports, load.files) == (["02-empty"], [])
    assert exports.files_in(loaded.lake, "events") == before
    assert loaded.load() is None


def test_empty_files_among_others_do_no_harm(place: Place) -> None:
    one, two = commits_of(1, range(1, 3))
    exports.export(place.exports, "01", [[], [exports.full(one)], [], [exports.full(two)], []])
    place.load()
    assert place.rows == rows_of([one, two])


def test_many_small_files_are_loaded(place: Place) -> None:
    exports.full_export(place.exports, "01-full", commits_of(1, range(1, 31)), file_items=1)
    place.load()
    assert place.rows == rows_of(commits_of(1, range(1, 31)))


@pytest.mark.parametrize("per_member", [1, 3, 100])
def test_a_file_of_several_gzip_members_is_one_file(place: Place, per_member: int) -> None:
    commits = commits_of(1, range(1, 20))
    text = b"".join(map(exports.full, commits))
    size = len(text) // per_member
    members = [gzip.compress(text[begin : begin + size]) for begin in range(0, len(text), size)]
    exports.raw_export(place.exports, "01", [(b"".join([*members, gzip.compress(b"")]), len(commits))])
    place.load()
    assert place.rows == rows_of(commits)


def test_a_last_line_without_its_end_is_read(place: Place) -> None:
    commits = commits_of(1, range(1, 3))
    content = b"".join(map(exports.full, commits)).rstrip(b"\n")
    exports.raw_export(place.exports, "01", [(gzip.compress(content), 2)])
    place.load()
    assert place.rows == rows_of(commits)


def test_empty_lines_are_no_items(place: Place) -> None:
    commits = commits_of(1, range(1, 3))
    content = b"\n\n" + b"\n\r\n".join(map(exports.full, commits)) + b"\n \n"
    exports.raw_export(place.exports, "01", [(gzip.compress(content), 2)])
    place.load()
    assert place.rows == rows_of(commits)


def test_an_export_that_was_copied_from_elsewhere_is_found(tmp_path: Path) -> None:
    exports.full_export(tmp_path, "01", [Commit(1, 1)])
    (found,) = find_exports(Storage(str(tmp_path)))
    assert [file.path for file in found.files] == ["AWSDynamoDB/01/data/01-000.json.gz"]


def test_a_checksum_may_be_written_in_hexadecimal_and_end_in_a_newline(loaded: Place) -> None:
    exports.full_export(loaded.exports, "02", commits_of(1, range(4, 6)))
    for name in (SUMMARY, FILES):
        path = loaded.exports / FOLDER / "02" / name
        path.with_suffix(".checksum").write_text(hashlib.md5(path.read_bytes()).hexdigest() + "\n")
    loaded.load()
    assert loaded.rows == rows_of(commits_of(1, range(1, 6)))


def test_manifests_without_checksums_are_believed(loaded: Place) -> None:
    exports.full_export(loaded.exports, "02", commits_of(1, range(4, 6)))
    for name in (SUMMARY, FILES):
        (loaded.exports / FOLDER / "02" / name).with_suffix(".checksum").unlink()
    loaded.load()
    assert loaded.rows == rows_of(commits_of(1, range(1, 6)))


def _large(path: Path, count: int, size: int) -> DataFile:
    """A file of items that hardly compress."""
    chance = random.Random(5)
    lines = [
        exports.full(Commit(1, n, (Event(payload=f'"{chance.randbytes(size // 2).hex()}"'),))) for n in range(count)
    ]
    path.write_bytes(gzip.compress(b"".join(lines), compresslevel=1))
    return DataFile(path.name, count)


def test_a_large_file_comes_in_parts_that_together_are_all_of_it(tmp_path: Path) -> None:
    file = _large(tmp_path / "large.json.gz", count=2_000, size=10_000)
    batches = list(items(Storage(str(tmp_path)), file))
    sessions = [n for batch in batches for n in transforms.commits_of(batch, file.path).column("session").to_pylist()]
    assert sessions == list(range(2_000))
    assert len(batches) >= 2_000 * 10_000 // (BLOCK_BYTES + 4 * READ_BYTES)
    assert max(batch.nbytes for batch in batches) < 2 * BLOCK_BYTES + 4 * READ_BYTES


def test_a_line_longer_than_what_is_parsed_at_once_is_one_item(tmp_path: Path) -> None:
    file = _large(tmp_path / "long.json.gz", count=3, size=2 * BLOCK_BYTES)
    batches = list(items(Storage(str(tmp_path)), file))
    assert sum(len(batch) for batch in batches) == 3


def test_the_first_part_is_there_before_the_last_was_read(tmp_path: Path) -> None:
    file = _large(tmp_path / "large.json.gz", count=2_000, size=10_000)
    path = tmp_path / file.path
    path.write_bytes(path.read_bytes()[:-100])
    parts = items(Storage(str(tmp_path)), file)
    assert len(next(parts)) > 0
    with pytest.raises(BrokenExport, match=r"large\.json\.gz: .*cut off"):
        list(parts)


def test_an_export_that_was_loaded_and_is_being_removed_stops_nobody(loaded: Place) -> None:
    """S3 lets files expire one after the other."""
    (listed,) = loaded.exports.rglob(FILES)
    listed.unlink()
    exports.full_export(loaded.exports, "02", commits_of(1, range(4, 6)))
    loaded.load()
    assert loaded.rows == rows_of(commits_of(1, range(1, 6)))
