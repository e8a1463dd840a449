"""A power cut: the disk has only the bytes that were synced. Acknowledged events and deliveries are among them."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.commit import verify_contiguous
from chalicelib.domain.notifications.delivery import Delivery
from tests.builders import a_commit, a_text
from tests.faults.damage import ACME, build_components

COMMITS = 12
LARGE = "x" * 400_000
"""With commits of this size SQLite copies the write-ahead log to the database file before the last one."""

DiskState = Mapping[Path, bytes]
"""Contents of the files."""


class RecordingDisk(apsw.VFS):
    """The default file system of SQLite, until it is unregistered. Remembers what is on the disk after each sync."""

    def __init__(self) -> None:
        self.file_system = apsw.vfs_names()[0]
        self.states: list[DiskState] = [{}]
        super().__init__("recording-disk", self.file_system, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.states.append({path: content for path, content in self.states[-1].items() if path != Path(filename)})

    def record_sync(self, path: Path, content: bytes) -> None:
        self.states.append({**self.states[-1], path: content})


class RecordedFile(apsw.VFSFile):
    """A file whose whole content is on the disk after a sync, and not before."""

    def __init__(self, disk: RecordingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        super().__init__(disk.file_system, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._disk.record_sync(self._path, self.xRead(self.xFileSize(), 0))


@pytest.fixture(name="disk")
def fixture_disk() -> Iterator[RecordingDisk]:
    disk = RecordingDisk()
    yield disk
    disk.unregister()


def restore(state: DiskState, source: Path, target: Path) -> Path:
    """Write the files of a directory as they are on the disk to another directory."""
    target.mkdir(mode=0o700)
    for path, content in state.items():
        if path.parent == source:
            (target / path.name).write_bytes(content)
    return target


@pytest.mark.parametrize(("durable", "surviving"), [(True, [1, 2]), (False, [])])
def test_power_cut_keeps_commits_of_durable_database(
    durable: bool, surviving: list[int], disk: RecordingDisk, tmp_path: Path
) -> None:
    """A database that is not durable shows that the recorded disk does lose commits."""
    database = Database(tmp_path / "annals.sqlite", durable=durable)
    log = SqliteLog(database)
    log.append([a_commit(1)])
    log.append([a_commit(2)])
    state = disk.states[-1]
    database.close()
    with closing(Database(restore(state, tmp_path, tmp_path / "restored") / "annals.sqlite")) as restored:
        assert [commit.session for commit in SqliteLog(restored).read(ACME, 0)] == surviving


def test_power_cut_at_any_sync_keeps_acknowledged_events(disk: RecordingDisk, tmp_path: Path) -> None:
    data = tmp_path / "data"
    components = build_components(data)
    states: list[tuple[int, DiskState]] = []
    """With the number of commits that were acknowledged before."""
    for number in range(COMMITS):
        key = f"k{number}" if number % 2 else None  # Appends with a key are written by another kind of transaction.
        first_state = len(disk.states)
        components.log.appender.append(Append(ACME, (a_text(LARGE),), f"r{number}", idempotency_key=key))
        states += [(number, state) for state in disk.states[first_state:-1]]
        states.append((number + 1, disk.states[-1]))
    components.close()
    assert len(states[-1][1][data / "annals.sqlite"]) > len(LARGE)  # SQLite has copied the write-ahead log.
    for folder, (acknowledged, state) in enumerate(states):
        restored = build_components(restore(state, data, tmp_path / str(folder)))
        commits = list(verify_contiguous(Head(ACME), restored.stores.log.read(ACME, 0)))
        assert len(commits) in (acknowledged, acknowledged + 1)
        restored.close()


def test_power_cut_keeps_deliveries_of_outbox(disk: RecordingDisk, tmp_path: Path) -> None:
    data = tmp_path / "data"
    components = build_components(data)
    delivery = Delivery("1.1.1/ops", ACME, "ops", Id(ACME, 1, 1), "/job", "ops@example.org")
    components.stores.outbox.put([delivery])
    state = disk.states[-1]
    components.close()
    restored = build_components(restore(state, data, tmp_path / "restored"))
    assert restored.stores.outbox.counts(ACME, "ops")["waiting"] == 1
    restored.close()
