"""A database file: durability of its transactions."""

from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database

NORMAL, FULL = 1, 2
"""Values of SQLite's `synchronous`. In WAL mode only FULL waits for the disk at each COMMIT."""


@pytest.mark.parametrize(("durable", "synchronous"), [(True, FULL), (False, NORMAL)])
def test_commit_of_durable_database_waits_for_the_disk(durable: bool, synchronous: int, tmp_path: Path) -> None:
    database = Database(tmp_path / "annals.sqlite", durable=durable)
    with database.transaction() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def test_database_is_durable_by_default(tmp_path: Path) -> None:
    database = Database(tmp_path / "annals.sqlite")
    with database.transaction() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (FULL,)
    database.close()
