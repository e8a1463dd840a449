"""A database whose files are no longer where they were takes nothing any more, however they got away."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import Unwritable
from tests.builders import a_commit

LONG_AGO_NS = 1_700_000_000_123_456_789
WHOLE_SECONDS_NS = 1_700_000_000_000_000_000

REFUSED = "log.sqlite was moved, deleted or replaced: nothing was written; start again"


def beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.aside")


def put_aside(name: str) -> Callable[[Path], None]:
    def move(folder: Path) -> None:
        (folder / name).rename(beside(folder / name))

    return move


def replaced_by_a_copy(name: str) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        shutil.copy(folder / name, beside(folder / name))
        beside(folder / name).rename(folder / name)

    return replace


def folder_put_aside(folder: Path) -> None:
    folder.rename(beside(folder))


def folder_replaced_by_a_copy(folder: Path) -> None:
    folder.rename(beside(folder))
    shutil.copytree(beside(folder), folder)


AWAY = {
    "the file moved": put_aside("log.sqlite"),
    "its log of writes moved": put_aside("log.sqlite-wal"),
    "the file replaced": replaced_by_a_copy("log.sqlite"),
    "its log of writes replaced": replaced_by_a_copy("log.sqlite-wal"),
    "the folder moved": folder_put_aside,
    "the folder replaced": folder_replaced_by_a_copy,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    return made


@pytest.fixture
def log(folder: Path) -> Iterator[SqliteLog]:
    database = Database(folder / "log.sqlite")
    yield SqliteLog(database)
    database.close()


def write(log: SqliteLog, session: int) -> None:
    log.append([a_commit(session)], [], 0)


def assert_refused(log: SqliteLog, session: int) -> None:
    with pytest.raises(Unwritable) as refused:
        write(log, session)
    assert str(refused.value) == REFUSED


@pytest.mark.parametrize("changed_ns", [LONG_AGO_NS, WHOLE_SECONDS_NS], ids=["settled", "in whole seconds"])
@pytest.mark.parametrize("go_away", AWAY.values(), ids=list(AWAY))
def test_files_that_got_away_are_noticed(
    log: SqliteLog, folder: Path, go_away: Callable[[Path], None], changed_ns: int
) -> None:
    os.utime(folder, ns=(changed_ns, changed_ns))
    write(log, 1)
    write(log, 2)
    go_away(folder)
    assert_refused(log, 3)


@pytest.mark.parametrize("now_ns", [WHOLE_SECONDS_NS, None], ids=["in whole seconds", "in ticks"])
def test_a_change_that_the_folders_time_does_not_show_is_noticed(
    log: SqliteLog, folder: Path, now_ns: int | None
) -> None:
    """File systems count time in whole seconds, or in ticks: two changes may have the same time."""
    now_ns = now_ns or time.time_ns() + 10_000_000_000 | 1
    os.utime(folder, ns=(now_ns, now_ns))
    write(log, 1)
    write(log, 2)
    put_aside("log.sqlite")(folder)
    os.utime(folder, ns=(now_ns, now_ns))
    assert_refused(log, 3)


def test_files_that_come_back_are_written_again(log: SqliteLog, folder: Path) -> None:
    os.utime(folder, ns=(LONG_AGO_NS, LONG_AGO_NS))
    write(log, 1)
    put_aside("log.sqlite")(folder)
    assert_refused(log, 2)
    beside(folder / "log.sqlite").rename(folder / "log.sqlite")
    write(log, 2)
    assert log.head(1).session == 2


def test_a_file_behind_a_link_is_noticed_too(tmp_path: Path, folder: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "real.sqlite").touch()
    (folder / "log.sqlite").symlink_to(elsewhere / "real.sqlite")
    os.utime(folder, ns=(LONG_AGO_NS, LONG_AGO_NS))
    database = Database(folder / "log.sqlite")
    log = SqliteLog(database)
    write(log, 1)
    replaced_by_a_copy("real.sqlite")(elsewhere)
    assert_refused(log, 2)
    database.close()
