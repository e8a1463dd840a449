"""A database refuses writes after its files were moved, deleted or replaced."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.files import create_directory
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import Unwritable
from tests.builders import a_commit

LONG_AGO_NS = 1_700_000_000_123_456_789
WHOLE_SECONDS_NS = 1_700_000_000_000_000_000

MESSAGE = "log.sqlite was moved, deleted or replaced: nothing was written. Restart the server"


def moved_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.aside")


def move_file(name: str) -> Callable[[Path], None]:
    def move(folder: Path) -> None:
        (folder / name).rename(moved_path(folder / name))

    return move


def replace_file_with_copy(name: str) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        shutil.copy(folder / name, moved_path(folder / name))
        moved_path(folder / name).rename(folder / name)

    return replace


def move_folder(folder: Path) -> None:
    folder.rename(moved_path(folder))


def replace_folder_with_copy(folder: Path) -> None:
    folder.rename(moved_path(folder))
    shutil.copytree(moved_path(folder), folder)


CHANGES = {
    "file moved": move_file("log.sqlite"),
    "write-ahead log moved": move_file("log.sqlite-wal"),
    "file replaced": replace_file_with_copy("log.sqlite"),
    "write-ahead log replaced": replace_file_with_copy("log.sqlite-wal"),
    "folder moved": move_folder,
    "folder replaced": replace_folder_with_copy,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data_folder = tmp_path / "data"
    data_folder.mkdir()
    return data_folder


@pytest.fixture
def log(folder: Path) -> Iterator[SqliteLog]:
    database = Database(folder / "log.sqlite")
    yield SqliteLog(database)
    database.close()


def write(log: SqliteLog, session: int) -> None:
    log.append([a_commit(session)])


def assert_refused(log: SqliteLog, session: int) -> None:
    with pytest.raises(Unwritable) as refused:
        write(log, session)
    assert str(refused.value) == MESSAGE


@pytest.mark.parametrize("changed_ns", [LONG_AGO_NS, WHOLE_SECONDS_NS], ids=["fine timestamps", "whole seconds"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_write_after_files_moved_raises_unwritable(
    log: SqliteLog, folder: Path, change: Callable[[Path], None], changed_ns: int
) -> None:
    os.utime(folder, ns=(changed_ns, changed_ns))
    write(log, 1)
    write(log, 2)
    change(folder)
    assert_refused(log, 3)


@pytest.mark.parametrize("now_ns", [WHOLE_SECONDS_NS, None], ids=["whole seconds", "ticks"])
def test_write_after_move_with_same_folder_time_raises(log: SqliteLog, folder: Path, now_ns: int | None) -> None:
    """File systems count time in seconds or in ticks, so two changes may have the same time."""
    now_ns = now_ns or time.time_ns() + 10_000_000_000 | 1
    os.utime(folder, ns=(now_ns, now_ns))
    write(log, 1)
    write(log, 2)
    move_file("log.sqlite")(folder)
    os.utime(folder, ns=(now_ns, now_ns))
    assert_refused(log, 3)


def test_write_after_files_moved_back_succeeds(log: SqliteLog, folder: Path) -> None:
    os.utime(folder, ns=(LONG_AGO_NS, LONG_AGO_NS))
    write(log, 1)
    move_file("log.sqlite")(folder)
    assert_refused(log, 2)
    moved_path(folder / "log.sqlite").rename(folder / "log.sqlite")
    write(log, 2)
    assert log.head(1).session == 2


def test_write_after_replaced_link_target_raises_unwritable(tmp_path: Path, folder: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "real.sqlite").touch()
    (folder / "log.sqlite").symlink_to(elsewhere / "real.sqlite")
    os.utime(folder, ns=(LONG_AGO_NS, LONG_AGO_NS))
    database = Database(folder / "log.sqlite")
    log = SqliteLog(database)
    write(log, 1)
    replace_file_with_copy("real.sqlite")(elsewhere)
    assert_refused(log, 2)
    database.close()


def test_create_directory_leaves_no_file_open(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    create_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert len(list(descriptors.iterdir())) == before
