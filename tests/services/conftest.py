"""A log on disk and clocks that the tests move."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from tests.services.worlds import World


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "annals.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def log(database: Database) -> SqliteLog:
    return SqliteLog(database)


@pytest.fixture
def world() -> World:
    return World()
