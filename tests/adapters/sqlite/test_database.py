"""A database file: errors and threads."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from chalicelib.adapters.sqlite.database import MAX_IDLE_READERS, Database
from chalicelib.domain.errors import Unavailable, Unusable


def test_text_that_is_not_utf8_is_reported_as_damage(tmp_path: Path) -> None:
    database = Database(tmp_path / "annals.sqlite")
    database.write(
        "INSERT INTO log (place, at, n, prev, req, body) VALUES (1, 1, 1, 0, 'r', CAST(x'5bff5d' AS TEXT))", ()
    )
    with pytest.raises(Unusable, match="is damaged: 'utf-8' codec can't decode byte 0xff"):
        database.query("SELECT body FROM log")
    assert database.query("SELECT place FROM log") == [(1,)]
    database.close()


def test_write_while_another_process_holds_the_lock_raises(tmp_path: Path) -> None:
    holder, database = (Database(tmp_path / "annals.sqlite", busy_timeout_s=0.01) for _ in range(2))
    with holder.transaction():
        with pytest.raises(Unavailable, match="the database does not answer: database is locked"):
            database.write("DELETE FROM log", ())
        with pytest.raises(Unavailable, match="database is locked"), database.transaction():
            pass
    database.write("DELETE FROM log", ())
    holder.close()
    database.close()


def test_threads_share_a_database(tmp_path: Path) -> None:
    """More threads than idle connections read while others write."""
    database = Database(tmp_path / "annals.sqlite", durable=False)
    insert = "INSERT INTO log (place, at, n, prev, req, body) VALUES (?, 1, 1, 0, 'r', '[]')"

    def work(number: int) -> bool:
        database.write(insert, (number,))
        with database.transaction() as connection:
            connection.execute(insert, (-number,))
        return bool(database.query("SELECT count(*) FROM log WHERE place IN (?, ?)", (number, -number))[0][0] == 2)

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(work, range(1, 400)))
    assert database.query("SELECT count(*) FROM log") == [(2 * 399,)]
    database.close()


def test_queries_leave_a_limited_number_of_open_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query runs within the previous one, so that each needs a connection of its own."""

    def run_nested_query(*arguments: Any) -> int:
        (depth,) = arguments
        return depth if depth == 0 else int(database.query("SELECT nested(?)", (depth - 1,))[0][0])

    def add_function(connection: apsw.Connection) -> None:
        connection.create_scalar_function("nested", run_nested_query, 1)

    monkeypatch.setattr(apsw, "connection_hooks", [add_function])
    database = Database(tmp_path / "annals.sqlite")
    assert run_nested_query(MAX_IDLE_READERS + 4) == 0
    names = [connection.filename for connection in apsw.connections()]
    assert names.count(str(tmp_path / "annals.sqlite")) == 1 + MAX_IDLE_READERS
    database.close()


def test_old_file_is_upgraded_once_when_it_is_opened(tmp_path: Path) -> None:
    path, runs = tmp_path / "data.sqlite", []

    def add_size(connection: apsw.Connection) -> None:
        runs.append("size")
        connection.execute("ALTER TABLE thing ADD COLUMN size INTEGER")

    def add_tag(connection: apsw.Connection) -> None:
        runs.append("tag")
        connection.execute("CREATE TABLE tag (name TEXT)")

    first, second = "CREATE TABLE thing (name TEXT);", "CREATE TABLE thing (name TEXT, size INTEGER);"
    with closing(Database(path, first)) as database:
        database.write("INSERT INTO thing VALUES ('a')", ())
    for _ in range(2):
        with closing(
            Database(path, f"{second} CREATE TABLE tag (name TEXT);", upgrades=(add_size, add_tag))
        ) as database:
            assert database.query("SELECT * FROM thing") == [("a", None)]
            assert database.query("SELECT * FROM tag") == []
    assert runs == ["size", "tag"]
    with pytest.raises(Unusable, match=r"newer version of Annals \(format 3\)"):
        Database(path, second, upgrades=(add_size,))


def test_upgrade_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    path = tmp_path / "data.sqlite"

    def fail(connection: apsw.Connection) -> None:
        connection.execute("DROP TABLE thing")
        raise Unusable("no")

    Database(path, "CREATE TABLE thing (name TEXT);").close()
    with pytest.raises(Unusable, match="no"):
        Database(path, "CREATE TABLE thing (name TEXT);", upgrades=(lambda _: None, fail))
    with closing(Database(path, "CREATE TABLE thing (name TEXT);", upgrades=(lambda _: None,))) as database:
        assert (database.query("SELECT * FROM thing"), database.query("PRAGMA user_version")) == ([], [(2,)])
