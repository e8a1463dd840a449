"""Damaged files: a failed start prints the reason, and a running server serves all readable commits."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib import wiring
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import Append
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.wiring import Components
from infra.server.startup import open_components, rewind_consumers
from tests.builders import a_text
from tests.faults.damage import (
    ACME,
    COMMITS,
    DAMAGE_VIEWS,
    DELETE_LAST_COMMITS,
    OTHER,
    PAGE,
    REPLACE_BY_TEXT,
    SET_NEWER_FORMAT,
    ZERO_PAGES,
    Damage,
    build_components,
    catch_up_all,
    commit_condition,
    overwrite,
    replace_file,
    run_sql,
    truncate,
    use_foreign_database,
)
from tests.faults.disks import mount_read_only, mount_small_disk
from tests.notifications.fake_channels import eventually
from tests.serving import ROOT, TIMEOUT_S, Member, Server, run_server


def replace_by_directory(data_dir: Path) -> None:
    (data_dir / "annals.sqlite").unlink()
    (data_dir / "annals.sqlite").mkdir()


def delete_log(data_dir: Path) -> None:
    (data_dir / "annals.sqlite").unlink()


UNUSABLE: dict[str, tuple[Damage, str]] = {
    "a shorter file": (truncate, "annals.sqlite is damaged: database disk image is malformed. Run `annals check`"),
    "another header": (
        overwrite(0, b"\xff" * 100),
        "annals.sqlite is damaged: file is not a database. Run `annals check",
    ),
    "no database": (
        REPLACE_BY_TEXT,
        "annals.sqlite is damaged: file is not a database. Run `annals check` to see where, then",
    ),
    "another application's": (
        use_foreign_database,
        "annals.sqlite is a database of another application. Set DATA_DIR to",
    ),
    "a newer format": (
        SET_NEWER_FORMAT,
        "annals.sqlite was written by a newer version of Annals (format 9). Use that version",
    ),
    "a directory": (replace_by_directory, "annals.sqlite is a directory, not a database file. Set DATA_DIR to anothe"),
    "no log": (delete_log, "annals.sqlite is missing, but "),
    "an empty log": (replace_file(b""), "annals.sqlite is missing, but "),
    "no outbox": (replace_file(b"x" * PAGE, "outbox.sqlite"), "outbox.sqlite is damaged: file is not a database."),
}


@pytest.fixture(name="process_data_dir")
def fixture_process_data_dir(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data directory of this process, with no components yet."""
    monkeypatch.setenv("DATA_DIR", str(data_dir))
    wiring.get_components.cache_clear()
    yield data_dir
    wiring.get_components.cache_clear()


@pytest.mark.parametrize("damage", UNUSABLE)
def test_unusable_file_is_refused_with_its_path(damage: str, process_data_dir: Path) -> None:
    damage_files, expected = UNUSABLE[damage]
    damage_files(process_data_dir)
    with pytest.raises(SystemExit) as refusal:
        open_components()
    assert str(refusal.value).startswith(f"annals: {process_data_dir}/{expected}")


def failed_start_output(data_dir: Path) -> str:
    """The error output of a server that does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "infra.server"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(data_dir), "PORT": "0", "PRIVATE_DATA": "no"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False)
    return done.stderr


def test_failed_start_prints_one_line_without_traceback(data_dir: Path) -> None:
    REPLACE_BY_TEXT(data_dir)
    assert failed_start_output(data_dir) == (
        f"annals: {data_dir}/annals.sqlite is damaged: file is not a database. "
        "Run `annals check` to see where, then restore it from a backup (docs/operations.md)\n"
    )


def test_read_only_data_directory_is_refused(process_data_dir: Path) -> None:
    with mount_read_only(process_data_dir), pytest.raises(SystemExit) as refusal:
        open_components()
    expected = f"annals: {process_data_dir} is not writable. Make it writable, or set DATA_DIR to another directory"
    assert str(refusal.value) == expected


def test_new_directory_on_read_only_disk_is_refused(tmp_path: Path) -> None:
    with mount_read_only(tmp_path):
        output = failed_start_output(tmp_path / "data")
    assert output.startswith(f"annals: {tmp_path}/data cannot be created: Read-only file system")


def test_full_disk_at_start_is_reported(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mount_small_disk(tmp_path / "small", 2) as small:
        shutil.copytree(original, small.path / "data")
        small.fill()
        monkeypatch.setenv("DATA_DIR", str(small.path / "data"))
        wiring.get_components.cache_clear()
        with pytest.raises(SystemExit, match=r"^annals: the disk is full: .*annals.sqlite cannot be opened. Free some"):
            open_components()


def sessions_of(components: Components, key: str) -> list[int]:
    """The sessions with events of a key, according to the views."""
    commits = components.log.reader.commits_before(components.stores.log.head(ACME), Selection(keys=(key,)))
    return sorted(commit.session for commit in commits)


def test_unusable_views_are_rebuilt(data_dir: Path) -> None:
    DAMAGE_VIEWS(data_dir)
    components = build_components(data_dir)
    catch_up_all(components)
    assert sessions_of(components, "/job/3") == [number for number in range(1, COMMITS + 1) if number % 7 == 4]
    components.close()


def test_shortened_log_rewinds_consumers_and_outbox(data_dir: Path) -> None:
    """New commits reuse session numbers. Consumers and the outbox must not take them for the lost ones."""
    before = build_components(data_dir)
    lost = Id(ACME, 51, 1)
    before.stores.outbox.put([Delivery(f"{lost}/ops", ACME, "ops", lost, "", "ops@example.org")])
    before.close()
    DELETE_LAST_COMMITS(data_dir)
    components = build_components(data_dir)
    rewind_consumers(components)
    components.log.appender.append(Append(ACME, (a_text("/job/new"),), "new"))
    catch_up_all(components)
    assert components.stores.outbox.counts(ACME, "ops")["waiting"] == 0
    assert sessions_of(components, "/job/new") == [51]
    assert sessions_of(components, "/job/3") == [number for number in range(1, 51) if number % 7 == 4]
    components.close()


@pytest.mark.parametrize(
    "damage",
    [overwrite(-1, b"\xff" * 100, "annals.sqlite-wal"), lambda d: (d / "annals.sqlite-wal").unlink()],
    ids=["damaged", "missing"],
)
def test_damaged_write_ahead_log_loses_only_the_last_commits(damage: Damage, data_dir: Path, tmp_path: Path) -> None:
    """The files of a killed server, damaged before the next start."""
    running = build_components(data_dir)
    written = [running.log.appender.append(Append(ACME, (a_text(f"/late/{n}"),), f"l{n}")).commit for n in range(30)]
    catch_up_all(running)
    shutil.copytree(data_dir, tmp_path / "crashed")
    running.close()
    damage(tmp_path / "crashed")
    components = build_components(tmp_path / "crashed")
    rewind_consumers(components)
    left = list(components.stores.log.read(ACME, COMMITS))
    assert left == written[: len(left)]
    assert len(left) < len(written)
    new = components.log.appender.append(Append(ACME, (a_text("/new"),), "new")).commit
    catch_up_all(components)
    assert sessions_of(components, "/new") == [new.session]
    assert sessions_of(components, f"/late/{len(left)}") == []
    components.close()


@pytest.fixture(scope="module", name="damaged")
def fixture_damaged(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data_dir = tmp_path_factory.mktemp("damaged") / "data"
    shutil.copytree(original, data_dir)
    ZERO_PAGES(data_dir)
    run_sql(
        f"UPDATE log SET prev = 7 WHERE {commit_condition(10, OTHER)}",
        f"UPDATE log SET n = 9 WHERE {commit_condition(20, OTHER)}",
    )(data_dir)
    run_sql(f"UPDATE log SET body = CAST(x'5bff5d' AS TEXT) WHERE {commit_condition(30, OTHER)}")(data_dir)
    (data_dir / "views.sqlite").unlink()
    with run_server(data_dir) as server:
        yield server


def read(member: Member, after: int, limit: int) -> tuple[int, str]:
    """The status and problem of a server query after a session."""
    answer = member.get("/events/server", params={"lastEventId": f"{member.create()}.{after}.1", "maxResults": limit})
    return answer.status_code, answer.json().get("detail", "")


def test_damaged_log_serves_readable_commits(damaged: Server) -> None:
    acme, other = damaged.member("acme"), damaged.member("other")
    assert read(acme, 1, 5) == (200, "")
    status, problem = read(acme, 1, 4096)
    assert (status, problem) == (
        500,
        "annals.sqlite is damaged: database disk image is malformed. Run `annals check` to see where",
    )
    assert read(acme, COMMITS - 5, 5) == (200, "")
    assert acme.publish("after")[0]["id"]["session"] == COMMITS + 1
    assert read(other, 1, 5) == (200, "")
    assert read(other, 8, 5) == (500, "session 10 of server 2 is damaged: its checksum is wrong")
    assert read(other, 18, 5) == (500, "session 20 of server 2 is damaged: its checksum is wrong")
    assert read(other, 28, 5)[0] == 500
    assert read(other, COMMITS - 5, 5) == (200, "")


def test_damaged_log_does_not_block_other_consumers(damaged: Server) -> None:
    member = damaged.organization()
    member.publish("a")
    eventually(
        lambda: member.get("/system").json()["consumers"],
        lambda consumers: all(consumer["behind"] == 0 for consumer in consumers),
    )
    assert "Traceback" not in damaged.output
    assert damaged.output.count("consumer-worker: ") < 10


def test_moved_log_file_refuses_appends(original: Path, tmp_path: Path) -> None:
    """Data written to a deleted file would be lost with the process."""
    data_dir = tmp_path / "data"
    shutil.copytree(original, data_dir)
    with run_server(data_dir) as server:
        acme = server.member("acme")
        acme.publish("before")
        (data_dir / "annals.sqlite").rename(tmp_path / "aside")
        refused = acme.post({"events": [{"type": ["lost"]}]})
        assert (refused.status_code, refused.json()["detail"]) == (
            503,
            "annals.sqlite was moved, deleted or replaced: nothing was written. Restart the server",
        )
        assert not (data_dir / "annals.sqlite").exists()
        (tmp_path / "aside").rename(data_dir / "annals.sqlite")
        assert acme.publish("after")[0]["id"]["session"] == COMMITS + 2
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
