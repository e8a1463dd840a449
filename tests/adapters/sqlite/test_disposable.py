"""Views in a file that is emptied when it is damaged."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.disposable import DisposableDatabase
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import Unusable, ViewsReset
from chalicelib.domain.views.record import ConditionalWrite, Record

VIEW = "1.5.1/object:job"
RECORDS = [Record(VIEW, f"/{n:04d}", 1, "x" * 200) for n in range(200)]
PAGE = 4096


@pytest.fixture(name="path")
def a_file(tmp_path: Path) -> Path:
    """A file with records."""
    path = tmp_path / "views.sqlite"
    with closing(DisposableDatabase(path, SCHEMA)) as database:
        assert SqliteViews(database).put([ConditionalWrite(record, None) for record in RECORDS]) == []
    return path


@pytest.fixture(name="views")
def damaged_views(path: Path) -> Iterator[SqliteViews]:
    """Views in a file of which a page is damaged after it was opened."""
    with closing(DisposableDatabase(path, SCHEMA)) as database:
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // PAGE // 2 * PAGE + PAGE // 2)
            file.write(b"?")
        yield SqliteViews(database)


def test_undamaged_file_keeps_its_records(path: Path) -> None:
    with closing(DisposableDatabase(path, SCHEMA)) as database:
        assert list(SqliteViews(database).range(VIEW, "", "0")) == RECORDS


def test_read_of_damaged_page_empties_the_file(views: SqliteViews, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ViewsReset):
        list(views.range(VIEW, "", "0"))
    assert list(views.range(VIEW, "", "0")) == []
    assert "views.sqlite is emptied and rebuilt from the log" in caplog.text
    assert views.put([ConditionalWrite(RECORDS[0], None)]) == []
    assert views.get(VIEW, [RECORDS[0].item]) == {RECORDS[0].item: RECORDS[0]}


def test_write_after_another_process_emptied_it_is_refused(views: SqliteViews, path: Path) -> None:
    """A record that was read before would be stored without the events that another one had."""
    with closing(DisposableDatabase(path, SCHEMA)) as other:
        with pytest.raises(ViewsReset):
            list(SqliteViews(other).range(VIEW, "", "0"))
        with pytest.raises(ViewsReset):
            views.put([ConditionalWrite(RECORDS[0], None)])
        assert views.put([ConditionalWrite(RECORDS[1], None)]) == []
        assert list(SqliteViews(other).range(VIEW, "", "0")) == [RECORDS[1]]


def test_each_reset_by_another_process_is_noticed(views: SqliteViews, path: Path) -> None:
    with closing(DisposableDatabase(path, SCHEMA)) as other:
        for _ in range(2):
            with pytest.raises(ViewsReset):
                raise other._reset(Unusable("damaged"))
            with pytest.raises(ViewsReset):
                views.put([ConditionalWrite(RECORDS[0], None)])


def test_reset_while_another_process_reads_creates_the_tables(path: Path) -> None:
    with closing(DisposableDatabase(path, SCHEMA)) as database, closing(apsw.Connection(str(path))) as reader:
        database._empty(Unusable("damaged"))
        reader.execute("BEGIN; SELECT count(*) FROM sqlite_master")
        views = SqliteViews(database)
        with pytest.raises(ViewsReset):
            list(views.range(VIEW, "", "0"))
        assert views.put([ConditionalWrite(RECORDS[0], None)]) == []


def test_file_of_first_release_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "views.sqlite"
    schema = 'CREATE TABLE record (view TEXT, item TEXT, "to" INTEGER, data TEXT, PRIMARY KEY (view, item))'
    with closing(Database(path, schema)) as first_release:
        first_release.write("INSERT INTO record VALUES (?, ?, ?, ?)", (VIEW, "/a", 1, "x"))
    for _ in range(2):
        with closing(DisposableDatabase(path, SCHEMA)) as database:
            assert SqliteViews(database).get(VIEW, ["/a"]) == {}


@pytest.mark.parametrize("content", [b"", b"x", b"Dear diary, " * 1_000], ids=["empty", "short", "text"])
def test_file_that_is_no_database_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "views.sqlite"
    path.write_bytes(content)
    with closing(DisposableDatabase(path, SCHEMA)) as database:
        assert SqliteViews(database).put([ConditionalWrite(RECORDS[0], None)]) == []
