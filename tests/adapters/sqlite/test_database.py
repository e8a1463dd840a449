"""A database file: errors and threads."""

from concurrent.futures import ThreadPoolExecutor
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
