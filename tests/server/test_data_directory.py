"""The data directory: only the user who runs the server can access it, and it survives a power failure."""

import os
import stat
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.files import create_directory
from infra.server.data_directory import open_data_directory
from tests.notifications.fake_channels import eventually
from tests.serving import run_server


def modes(folder: Path) -> dict[str, int]:
    """Permissions of all files below a directory."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def test_new_directory_is_private(tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "data"
    with run_server(tmp_path / "output", DATA_DIR=str(data_dir), JWT_KEY="") as server:
        eventually(lambda: modes(data_dir), lambda files: {"views.sqlite-wal", "outbox.sqlite-wal"} <= files.keys())
        assert server.output == ""
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    files = modes(data_dir)
    assert {"annals.sqlite", "annals.sqlite-wal", "annals.sqlite-shm", "jwt.key"} <= files.keys()
    assert set(files.values()) == {0o600}


def test_access_of_others_is_removed_at_start(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with run_server(tmp_path / "output", DATA_DIR=str(data_dir), PRIVATE_DATA="no"):
        pass
    data_dir.chmod(0o755)
    for path in data_dir.glob("*.sqlite*"):
        path.chmod(0o644)
    with run_server(tmp_path / "again", DATA_DIR=str(data_dir)) as server:
        assert f"removed the access of other users to {data_dir} (mode 0755), " in server.output
        assert f", {data_dir / 'annals.sqlite'} (mode 0644)" in server.output
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert set(modes(data_dir).values()) == {0o600}


def test_permissions_are_kept_if_configured(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    data_dir.chmod(0o750)
    with run_server(tmp_path / "output", DATA_DIR=str(data_dir), PRIVATE_DATA="no") as server:
        assert server.output == ""
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o750


def test_shared_directory_keeps_its_mode(tmp_path: Path) -> None:
    """Like /tmp: other programs need it."""
    umask = os.umask(0)
    try:
        tmp_path.chmod(0o1777)
        (tmp_path / "annals.sqlite").touch(0o644)
        open_data_directory(tmp_path, is_private=True)
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
        assert modes(tmp_path) == {"annals.sqlite": 0o600}
    finally:
        os.umask(umask)


def test_entries_of_new_directories_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    create_directory(tmp_path / "a" / "b")
    create_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path.stat().st_ino, (tmp_path / "a").stat().st_ino]
