"""Fixtures: a log on disk and a clock that tests control."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from tests.services.fakes import World


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "annals.sqlite")
    yield database
    database.close()


@pytest.fixture
def log(database: Database) -> SqliteLog:
    return SqliteLog(database)


@pytest.fixture
def world() -> World:
    return World()
