"""The SQLite library: no process uses one with the WAL-reset bug."""

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.library import check_library
from chalicelib.domain.errors import Unusable
from tests.serving import JWT_KEY, ROOT, TIMEOUT_S

OLD_SERVER = """
import apsw, runpy
apsw.sqlite_lib_version = lambda: "3.51.2"
runpy.run_module("infra.server", run_name="__main__")
"""


def test_database_uses_a_library_without_wal_reset_bug(tmp_path: Path) -> None:
    database = Database(tmp_path / "annals.sqlite")
    [(version,)] = database.query("SELECT sqlite_version()")
    database.close()
    assert tuple(map(int, version.split("."))) >= (3, 51, 3)


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2"])
def test_library_with_wal_reset_bug_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(Unusable, match=f"SQLite {version} can corrupt the log"):
        check_library(allow_old=False)
    check_library(allow_old=True)


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "3.54.1", "4.0.0"])
def test_library_without_wal_reset_bug_is_accepted(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    check_library(allow_old=False)


def test_server_refuses_to_start_on_old_library(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OLD_SERVER],
        cwd=ROOT,
        env={"DATA_DIR": str(tmp_path / "data"), "PORT": "0", "JWT_KEY": JWT_KEY},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("annals: SQLite 3.51.2 can corrupt the log when several processes write to it")
    assert done.stderr.endswith("To take the risk, set ALLOW_OLD_SQLITE=yes\n")
    assert not (tmp_path / "data").exists()
