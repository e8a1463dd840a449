"""Exports of all forms: incomplete, empty, many files, without manifests, multi-member gzip, large."""

import gzip
import hashlib
import random
from pathlib import Path

import pytest

from glue_jobs.errors import BrokenExport
from glue_jobs.exports.manifest import DataFile, find_exports
from glue_jobs.exports.reader import BLOCK_BYTES, READ_BYTES, read_items
from glue_jobs.lake.storage import Storage
from glue_jobs.transforms import commits as transforms
from tests.glue.history import exports
from tests.glue.history.conftest import Workspace
from tests.glue.history.exports import FILES, FOLDER, SUMMARY, Commit, Event, expected_rows, make_commits


def test_export_without_summary_is_skipped_until_complete(loaded: Workspace) -> None:
    exports.full_export(loaded.exports, "02-more", make_commits(1, range(1, 9)))
    summary = loaded.exports / FOLDER / "02-more" / SUMMARY
    content = summary.read_bytes()
    summary.unlink()
    before = exports.read_files(loaded.lake)
    assert loaded.load() is None
    assert exports.read_files(loaded.lake) == before
    summary.write_bytes(content)
    load = loaded.load()
    assert load is not None
    assert load.exports == ["02-more"]
    assert loaded.rows == expected_rows(make_commits(1, range(1, 9)))


@pytest.mark.parametrize("left", [["data"], ["data", FILES], ["_started"], []])
def test_incomplete_export_does_not_block_others(loaded: Workspace, left: list[str]) -> None:
    unfinished = loaded.exports / FOLDER / "02-unfinished"
    (unfinished / "data").mkdir(parents=True)
    for name in left:
        path = unfinished / "data/x.json.gz" if name == "data" else unfinished / name
        path.write_bytes(b"not yet whole")
    exports.full_export(loaded.exports, "03-more", make_commits(1, range(4, 6)))
    loaded.load()
    assert loaded.rows == expected_rows(make_commits(1, range(1, 6)))


def test_incomplete_export_alone_loads_nothing(workspace: Workspace) -> None:
    (path,) = exports.full_export(workspace.exports, "01-first", make_commits(1, range(1, 4)))
    for name in (SUMMARY, FILES):
        (workspace.exports / FOLDER / "01-first" / name).unlink()
    path.write_bytes(path.read_bytes()[:-10])
    assert workspace.load() is None


def test_hidden_export_loads_nothing(workspace: Workspace) -> None:
    path = workspace.exports / ".unfinished/01-first/data/00000-1a2b3c4d.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(exports.full(Commit(1, 1)))[:-10])
    assert workspace.load() is None


def test_data_files_without_manifest_are_loaded(workspace: Workspace) -> None:
    commits = make_commits(1, range(1, 9))
    for number, commit in enumerate(commits):
        path = workspace.exports / f"some/where/{number}.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(exports.full(commit)))
    (workspace.exports / "README.txt").write_text("not a data file")
    workspace.load()
    assert workspace.rows == expected_rows(commits)
    assert workspace.load() is None


def test_additional_file_without_manifest_is_loaded(workspace: Workspace) -> None:
    workspace.exports.mkdir()
    for session in (1, 2):
        (workspace.exports / f"{session}.json.gz").write_bytes(gzip.compress(exports.full(Commit(1, session))))
        workspace.load()
    assert workspace.rows == expected_rows([Commit(1, 1), Commit(1, 2)])


@pytest.mark.parametrize("files", [[], [[]], [[], [], []]], ids=["no file", "an empty file", "empty files"])
def test_export_without_items_is_loaded_once(loaded: Workspace, files: list[list[bytes]]) -> None:
    before = exports.read_files(loaded.lake, "events")
    exports.export(loaded.exports, "02-empty", files)
    load = loaded.load()
    assert load is not None
    assert (load.exports, load.files) == (["02-empty"], [])
    assert exports.read_files(loaded.lake, "events") == before
    assert loaded.load() is None


def test_empty_files_are_ignored(workspace: Workspace) -> None:
    one, two = make_commits(1, range(1, 3))
    exports.export(workspace.exports, "01", [[], [exports.full(one)], [], [exports.full(two)], []])
    workspace.load()
    assert workspace.rows == expected_rows([one, two])


def test_many_small_files_are_loaded(workspace: Workspace) -> None:
    exports.full_export(workspace.exports, "01-full", make_commits(1, range(1, 31)), file_items=1)
    workspace.load()
    assert workspace.rows == expected_rows(make_commits(1, range(1, 31)))


@pytest.mark.parametrize("per_member", [1, 3, 100])
def test_file_with_several_gzip_members_is_read(workspace: Workspace, per_member: int) -> None:
    commits = make_commits(1, range(1, 20))
    text = b"".join(map(exports.full, commits))
    size = len(text) // per_member
    members = [gzip.compress(text[begin : begin + size]) for begin in range(0, len(text), size)]
    exports.raw_export(workspace.exports, "01", [(b"".join([*members, gzip.compress(b"")]), len(commits))])
    workspace.load()
    assert workspace.rows == expected_rows(commits)


def test_last_line_without_newline_is_read(workspace: Workspace) -> None:
    commits = make_commits(1, range(1, 3))
    content = b"".join(map(exports.full, commits)).rstrip(b"\n")
    exports.raw_export(workspace.exports, "01", [(gzip.compress(content), 2)])
    workspace.load()
    assert workspace.rows == expected_rows(commits)


def test_empty_lines_are_ignored(workspace: Workspace) -> None:
    commits = make_commits(1, range(1, 3))
    content = b"\n\n" + b"\n\r\n".join(map(exports.full, commits)) + b"\n \n"
    exports.raw_export(workspace.exports, "01", [(gzip.compress(content), 2)])
    workspace.load()
    assert workspace.rows == expected_rows(commits)


def test_copied_export_is_found(tmp_path: Path) -> None:
    exports.full_export(tmp_path, "01", [Commit(1, 1)])
    (found,) = find_exports(Storage(str(tmp_path)))
    assert [file.path for file in found.files] == ["AWSDynamoDB/01/data/01-000.json.gz"]


def test_checksum_in_hex_with_newline_is_accepted(loaded: Workspace) -> None:
    exports.full_export(loaded.exports, "02", make_commits(1, range(4, 6)))
    for name in (SUMMARY, FILES):
        path = loaded.exports / FOLDER / "02" / name
        path.with_suffix(".checksum").write_text(hashlib.md5(path.read_bytes()).hexdigest() + "\n")
    loaded.load()
    assert loaded.rows == expected_rows(make_commits(1, range(1, 6)))


def test_manifest_without_checksum_is_accepted(loaded: Workspace) -> None:
    exports.full_export(loaded.exports, "02", make_commits(1, range(4, 6)))
    for name in (SUMMARY, FILES):
        (loaded.exports / FOLDER / "02" / name).with_suffix(".checksum").unlink()
    loaded.load()
    assert loaded.rows == expected_rows(make_commits(1, range(1, 6)))


def _large(path: Path, count: int, size: int) -> DataFile:
    """A file of items that hardly compress."""
    chance = random.Random(5)
    lines = [
        exports.full(Commit(1, n, (Event(payload=f'"{chance.randbytes(size // 2).hex()}"'),))) for n in range(count)
    ]
    path.write_bytes(gzip.compress(b"".join(lines), compresslevel=1))
    return DataFile(path.name, count)


def test_large_file_is_read_in_batches(tmp_path: Path) -> None:
    file = _large(tmp_path / "large.json.gz", count=2_000, size=10_000)
    batches = list(read_items(Storage(str(tmp_path)), file))
    sessions = [
        n for batch in batches for n in transforms.parse_commits(batch, file.path).column("session").to_pylist()
    ]
    assert sessions == list(range(2_000))
    assert len(batches) >= 2_000 * 10_000 // (BLOCK_BYTES + 4 * READ_BYTES)
    assert max(batch.nbytes for batch in batches) < 2 * BLOCK_BYTES + 4 * READ_BYTES


def test_line_longer_than_block_is_one_item(tmp_path: Path) -> None:
    file = _large(tmp_path / "long.json.gz", count=3, size=2 * BLOCK_BYTES)
    batches = list(read_items(Storage(str(tmp_path)), file))
    assert sum(len(batch) for batch in batches) == 3


def test_first_batch_arrives_before_last_is_read(tmp_path: Path) -> None:
    file = _large(tmp_path / "large.json.gz", count=2_000, size=10_000)
    path = tmp_path / file.path
    path.write_bytes(path.read_bytes()[:-100])
    parts = read_items(Storage(str(tmp_path)), file)
    assert len(next(parts)) > 0
    with pytest.raises(BrokenExport, match=r"large\.json\.gz: .*cut off"):
        list(parts)


def test_loaded_export_with_expired_files_is_ignored(loaded: Workspace) -> None:
    """S3 expires the files one after the other."""
    (listed,) = loaded.exports.rglob(FILES)
    listed.unlink()
    exports.full_export(loaded.exports, "02", make_commits(1, range(4, 6)))
    loaded.load()
    assert loaded.rows == expected_rows(make_commits(1, range(1, 6)))
