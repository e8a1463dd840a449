"""A data directory for each test, filled once for all."""

import shutil
from pathlib import Path

import pytest

from tests.faults.damage import fill


@pytest.fixture(scope="session", name="original")
def a_data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original")
    fill(path)
    return path


@pytest.fixture(name="data_dir")
def a_copy_of_it(original: Path, tmp_path: Path) -> Path:
    path = tmp_path / "data"
    shutil.copytree(original, path)
    return path
