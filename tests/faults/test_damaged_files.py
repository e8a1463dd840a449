"""Damaged files: a start that is refused says why in a sentence, and what runs serves what can still be read."""

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
from chalicelib.wiring import Annals
from infra.server.startup import opened, step_back, throw_away_unusable_views
from tests.builders import a_text
from tests.faults.damage import (
    ACME,
    BEHIND,
    COMMITS,
    NEWER,
    NO_VIEWS,
    NOT_A_DATABASE,
    OTHER,
    PAGE,
    ZEROED,
    Damage,
    catch_up_all,
    of_another_application,
    overwritten,
    parts_of,
    replaced,
    row,
    sql,
    truncated,
)
from tests.faults.disks import disk, read_only
from tests.notifications.outside import eventually
from tests.serving import PATIENCE_S, ROOT, Member, Server, serving


def is_a_directory(data_dir: Path) -> None:
    (data_dir / "annals.sqlite").unlink()
    (data_dir / "annals.sqlite").mkdir()


def gone(data_dir: Path) -> None:
    (data_dir / "annals.sqlite").unlink()


REFUSED: dict[str, tuple[Damage, str]] = {
    "a shorter file": (truncated, "annals.sqlite is damaged: database disk image is malformed. `annals check` says wh"),
    "another header": (
        overwritten(0, b"\xff" * 100),
        "annals.sqlite is damaged: file is not a database. `annals check",
    ),
    "no database": (
        NOT_A_DATABASE,
        "annals.sqlite is damaged: file is not a database. `annals check` says where; then",
    ),
    "another application's": (of_another_application, "annals.sqlite is a database of something else. Set DATA_DIR to"),
    "a newer format": (NEWER, "annals.sqlite was written by a newer Annals (format 9): use that one"),
    "a directory": (is_a_directory, "annals.sqlite is a directory, where a database should be. Set DATA_DIR to anothe"),
    "no log": (gone, "annals.sqlite is gone, but "),
    "an empty log": (replaced(b""), "annals.sqlite is gone, but "),
    "no outbox": (replaced(b"x" * PAGE, "outbox.sqlite"), "outbox.sqlite is damaged: file is not a database."),
}


@pytest.fixture(name="of_its_own")
def a_process_of_its_own(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As far as wiring can tell."""
    monkeypatch.setenv("DATA_DIR", str(data_dir))
    wiring.annals.cache_clear()
    yield data_dir
    wiring.annals.cache_clear()


@pytest.mark.parametrize("damage", REFUSED)
def test_files_that_cannot_be_used_are_refused_with_their_path(damage: str, of_its_own: Path) -> None:
    do, expected = REFUSED[damage]
    do(of_its_own)
    with pytest.raises(SystemExit) as refusal:
        opened()
    assert str(refusal.value).startswith(f"annals: {of_its_own}/{expected}")


def refused_start(data_dir: Path) -> str:
    """Why the server does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "infra.server"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(data_dir), "PORT": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False)
    return done.stderr


def test_a_server_that_cannot_start_says_why_in_one_sentence(data_dir: Path) -> None:
    NOT_A_DATABASE(data_dir)
    assert refused_start(data_dir) == (
        f"annals: {data_dir}/annals.sqlite is damaged: file is not a database. "
        "`annals check` says where; then restore it from a backup (docs/operations.md)\n"
    )


def test_a_directory_that_nobody_can_write_to_is_refused(of_its_own: Path) -> None:
    with read_only(of_its_own), pytest.raises(SystemExit) as refusal:
        opened()
    expected = f"annals: {of_its_own} cannot be written to. Make it writable, or set DATA_DIR to another directory"
    assert str(refusal.value) == expected


def test_a_new_directory_where_nobody_can_write_is_refused(tmp_path: Path) -> None:
    with read_only(tmp_path):
        said = refused_start(tmp_path / "data")
    assert said.startswith(f"annals: {tmp_path}/data: Read-only file system")


def test_a_disk_too_full_to_open_the_files_is_told(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with disk(tmp_path / "small", 2) as small:
        shutil.copytree(original, small.path / "data")
        small.fill()
        monkeypatch.setenv("DATA_DIR", str(small.path / "data"))
        wiring.annals.cache_clear()
        with pytest.raises(SystemExit, match=r"^annals: the disk is full: .*annals.sqlite cannot be opened. Free some"):
            opened()


def sessions_of(parts: Annals, key: str) -> list[int]:
    """Where events about a key are, as the views know."""
    found = parts.present.back(parts.log.head(ACME), Selection(keys=(key,)))
    return sorted(commit.session for commit in found)


def test_views_that_cannot_be_used_are_built_anew(data_dir: Path) -> None:
    NO_VIEWS(data_dir)
    throw_away_unusable_views(data_dir)
    parts = parts_of(data_dir)
    catch_up_all(parts)
    assert sessions_of(parts, "/job/3") == [number for number in range(1, COMMITS + 1) if number % 7 == 4]
    parts.close()


def test_a_log_that_lost_its_end_is_followed_from_there(data_dir: Path) -> None:
    """What comes then has numbers that others had: nobody may take it for seen, or for told."""
    before = parts_of(data_dir)
    lost = Id(ACME, 51, 1)
    before.outbox.put([Delivery(f"{lost}/ops", ACME, "ops", lost, "", "ops@example.org")])
    before.close()
    BEHIND(data_dir)
    parts = parts_of(data_dir)
    step_back(parts)
    parts.appender.append(Append(ACME, (a_text("/job/new"),), "new"))
    catch_up_all(parts)
    assert parts.outbox.counts(ACME, "ops")["waiting"] == 0
    assert sessions_of(parts, "/job/new") == [51]
    assert sessions_of(parts, "/job/3") == [number for number in range(1, 51) if number % 7 == 4]
    parts.close()


@pytest.mark.parametrize(
    "harm",
    [overwritten(-1, b"\xff" * 100, "annals.sqlite-wal"), lambda d: (d / "annals.sqlite-wal").unlink()],
    ids=["damaged", "missing"],
)
def test_a_write_ahead_log_that_was_harmed_costs_the_end_of_the_log_only(
    harm: Damage, data_dir: Path, tmp_path: Path
) -> None:
    """A server that was killed, and its file before it was opened again."""
    running = parts_of(data_dir)
    written = [running.appender.append(Append(ACME, (a_text(f"/late/{n}"),), f"l{n}")).commit for n in range(30)]
    catch_up_all(running)
    shutil.copytree(data_dir, tmp_path / "crashed")
    running.close()
    harm(tmp_path / "crashed")
    parts = parts_of(tmp_path / "crashed")
    step_back(parts)
    left = list(parts.log.read(ACME, COMMITS))
    assert left == written[: len(left)]
    assert len(left) < len(written)
    new = parts.appender.append(Append(ACME, (a_text("/new"),), "new")).commit
    catch_up_all(parts)
    assert sessions_of(parts, "/new") == [new.session]
    assert sessions_of(parts, f"/late/{len(left)}") == []
    parts.close()


@pytest.fixture(scope="module", name="harmed")
def a_server_on_damaged_files(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data_dir = tmp_path_factory.mktemp("harmed") / "data"
    shutil.copytree(original, data_dir)
    ZEROED(data_dir)
    sql(f"UPDATE log SET prev = 7 WHERE {row(10, OTHER)}", f"UPDATE log SET n = 9 WHERE {row(20, OTHER)}")(data_dir)
    sql(f"UPDATE log SET body = CAST(x'5bff5d' AS TEXT) WHERE {row(30, OTHER)}")(data_dir)
    (data_dir / "views.sqlite").unlink()
    with serving(data_dir) as server:
        yield server


def read(member: Member, after: int, limit: int) -> tuple[int, str]:
    """How the feed answers from a session on: its status, and what is wrong."""
    answer = member.get("/events/server", params={"lastEventId": f"{member.create()}.{after}.1", "maxResults": limit})
    return answer.status_code, answer.json().get("detail", "")


def test_what_can_be_read_is_served_and_what_cannot_is_a_problem(harmed: Server) -> None:
    acme, other = harmed.member("acme"), harmed.member("other")
    assert read(acme, 1, 5) == (200, "")
    status, problem = read(acme, 1, 4096)
    assert (status, problem) == (
        500,
        "annals.sqlite is damaged: database disk image is malformed; `annals check` says where",
    )
    assert read(acme, COMMITS - 5, 5) == (200, "")
    assert acme.publish("after")[0]["id"]["session"] == COMMITS + 1
    assert read(other, 1, 5) == (200, "")
    assert read(other, 8, 5)[1].startswith("session 10 of server 2 (prev 7, ")
    assert read(other, 18, 5) == (500, "session 20 of server 2 should have 9 events")
    assert read(other, 28, 5)[0] == 500
    assert read(other, COMMITS - 5, 5) == (200, "")


def test_a_damaged_log_holds_up_no_other_and_no_log_file(harmed: Server) -> None:
    member = harmed.organization()
    member.publish("a")
    eventually(lambda: member.get("/system").json()["consumers"], lambda them: all(one["behind"] == 0 for one in them))
    assert "Traceback" not in harmed.output
    assert harmed.output.count("pump: ") < 10


def test_a_file_that_is_replaced_under_the_server_takes_nothing_any_more(original: Path, tmp_path: Path) -> None:
    """What would be written to a file that has no name any more is lost with the process."""
    data_dir = tmp_path / "data"
    shutil.copytree(original, data_dir)
    with serving(data_dir) as server:
        acme = server.member("acme")
        acme.publish("before")
        (data_dir / "annals.sqlite").rename(tmp_path / "aside")
        refused = acme.post({"events": [{"type": ["lost"]}]})
        assert (refused.status_code, refused.json()["detail"]) == (
            503,
            "annals.sqlite was moved, deleted or replaced: nothing was written; start again",
        )
        assert not (data_dir / "annals.sqlite").exists()
        (tmp_path / "aside").rename(data_dir / "annals.sqlite")
        assert acme.publish("after")[0]["id"]["session"] == COMMITS + 2
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
