"""A copy of one data directory for each test."""

import shutil
from pathlib import Path

import pytest

from tests.faults.damage import fill_data_directory


@pytest.fixture(scope="session", name="original")
def fixture_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original")
    fill_data_directory(path)
    return path


@pytest.fixture(name="data_dir")
def fixture_data_dir(original: Path, tmp_path: Path) -> Path:
    path = tmp_path / "data"
    shutil.copytree(original, path)
    return path
