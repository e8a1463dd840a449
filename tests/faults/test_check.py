"""`annals check`: says what is wrong with the files, where, what can still be read, and what to do."""

import json
import os
import sqlite3
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from annals_client.checks import commits, files
from annals_client.checks.data import check
from annals_client.checks.findings import Report
from annals_client.cli.exits import DAMAGED
from annals_client.cli.main import run
from tests.builders import a_commit, a_text, noise
from tests.faults.damage import (
    BEHIND,
    COMMITS,
    NEWER,
    NO_VIEWS,
    NOT_A_DATABASE,
    PAGE,
    ZEROED,
    Damage,
    of_another_application,
    overwritten,
    parts_of,
    replaced,
    row,
    sql,
    truncated,
)
from tests.faults.disks import read_only
from tests.serving import ROOT

MEGABYTE = 1024 * 1024

TELLING: dict[str, tuple[Damage, str]] = {
    "a commit is gone": (
        sql(f"DELETE FROM log WHERE {row(20)}"),
        "annals.sqlite: acme (log 1), session 21: session 20 is missing before it",
    ),
    "several are gone": (
        sql(f"DELETE FROM log WHERE {row(20)} OR {row(21)}"),
        "annals.sqlite: acme (log 1), session 22: sessions 20 to 21 are missing before it",
    ),
    "the first organization is gone": (
        sql(f"DELETE FROM log WHERE {row(1, server=0)}"),
        "annals.sqlite: the directory (log 0), session 2: session 1 is missing before it",
    ),
    "another prev": (
        sql(f"UPDATE log SET prev = 7 WHERE {row(20)}"),
        "annals.sqlite: acme (log 1), session 20: prev is 7, but the commit before ends at ",
    ),
    "a first commit with something before it": (
        sql(f"UPDATE log SET prev = 7 WHERE {row(1)}"),
        "annals.sqlite: acme (log 1), session 1: prev is 7, but this is the first commit",
    ),
    "numbers that do not rise": (
        sql(f"UPDATE log SET at = 7 WHERE {row(20)}"),
        "annals.sqlite: acme (log 1), session 20: it is numbered from 7, but the commit before ends at ",
    ),
    "another number of events": (
        sql(f"UPDATE log SET n = 3 WHERE {row(20)}"),
        "annals.sqlite: acme (log 1), session 20: it says that it has 3 events, and has 2",
    ),
    "a byte that is not JSON": (
        sql(f"UPDATE log SET body = replace(body, '\"key\"', 'ykey\"') WHERE {row(20)}"),
        "annals.sqlite: acme (log 1), session 20, byte 27: its events are not JSON: ",
    ),
    "a byte that is not text": (
        sql(f"UPDATE log SET body = CAST(CAST(substr(body, 1, 40) AS BLOB) || x'ff' AS TEXT) WHERE {row(20)}"),
        "annals.sqlite: acme (log 1), session 20, byte 40: its events are not UTF-8: ",
    ),
    "no list": (
        sql(f"UPDATE log SET body = '{{}}' WHERE {row(20)}"),
        "annals.sqlite: acme (log 1), session 20: its events are not a list of objects",
    ),
    "a receipt of nothing": (
        sql("UPDATE receipt SET session = 900 WHERE key = 'k7'"),
        "annals.sqlite: acme (log 1), session 900: the receipt of Idempotency-Key 'k7' names this session, but the log",
    ),
    "a receipt of another": (
        sql("UPDATE receipt SET session = 9 WHERE key = 'k7'"),
        "annals.sqlite: acme (log 1), session 9: the receipt of Idempotency-Key 'k7' names this session, but another",
    ),
    "the end is gone": (
        BEHIND,
        "outbox.sqlite: acme (log 1), session 60: observe has come to session 60, but the log ends at 50",
    ),
    "another end": (
        sql(f"UPDATE log SET n = 1, body = '[{{}}]' WHERE {row(COMMITS)}"),
        "views.sqlite: acme (log 1), session 60: project-3 says that this session ends at ",
    ),
    "zeroed pages": (ZEROED, "annals.sqlite: page "),
    "a shorter file": (truncated, "annals.sqlite: page "),
    "another header": (overwritten(0, b"\xff" * 100), r"annals.sqlite: byte 0: this is not a SQLite database: it beg"),
    "no database": (NOT_A_DATABASE, "annals.sqlite: byte 0: this is not a SQLite database: it begins with 'Dear diary"),
    "no content": (replaced(b""), "annals.sqlite: byte 0: this is not a SQLite database: it begins with ''"),
    "another application's": (
        of_another_application,
        "annals.sqlite: it is a database of something else: there is no ",
    ),
    "a newer format": (NEWER, "annals.sqlite: it was written by a newer Annals (format 9): check it with that one"),
    "views that are none": (
        NO_VIEWS,
        "views.sqlite: byte 0: this",
    ),
}


def told(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    """How the command ends, and what it says."""
    code = run(["check", "--data-dir", str(data_dir)])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err


def test_what_is_sound_is_called_sound(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name for path in data_dir.iterdir()}
    assert told(data_dir, capsys) == (
        0,
        [
            "the directory (log 0): sessions 1 to 2, 2 commits, 2 events",
            "acme (log 1): sessions 1 to 60, 60 commits, 120 events",
            "other (log 2): sessions 1 to 60, 60 commits, 60 events",
            "All is sound.",
        ],
        "",
    )
    assert {path.name for path in data_dir.iterdir()} == before


@pytest.mark.parametrize("damage", TELLING)
def test_damage_is_told_with_its_place(damage: str, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    do, expected = TELLING[damage]
    do(data_dir)
    code, lines, errors = told(data_dir, capsys)
    assert code == DAMAGED
    assert [line for line in lines if line.startswith(expected)], lines
    assert errors.startswith(f"annals: there is damage in {data_dir}: ")


def test_pages_that_are_gone_are_named_and_all_others_read(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ZEROED(data_dir)
    first = (data_dir / "annals.sqlite").stat().st_size // PAGE // 2 + 1
    code = run(["check", "--data-dir", str(data_dir), "--json"])
    *findings, report = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    pages = [finding for finding in findings if "page" in finding]
    assert sorted((one["page"], one["byte"]) for one in pages) == [(n, (n - 1) * PAGE) for n in range(first, first + 3)]
    (gap,) = [finding for finding in findings if "cannot be read" in finding["problem"] and "log" in finding]
    seen = {log["log"]: log["commits"] for log in report["logs"]}
    lost = sum((2, COMMITS, COMMITS)) - sum(seen.values())
    assert (code, report["sound"], gap["log"] in seen, 0 < lost < 10) == (DAMAGED, False, True, True)


def test_views_alone_can_be_thrown_away(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    NO_VIEWS(data_dir)
    _, lines, _ = told(data_dir, capsys)
    advice = "Of views.sqlite: stop the server, delete it, and start the server; it is built anew from the log."
    assert (lines[-1], "All is sound." in lines) == (advice, False)


def test_what_was_forgotten_is_not_missed(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = parts_of(data_dir)
    parts.forget(1, 30)
    parts.close()
    code, lines, _ = told(data_dir, capsys)
    assert (code, lines[1]) == (0, "acme (log 1): sessions 31 to 60, 30 commits, 60 events")


def test_a_directory_that_nobody_can_write_to_is_checked(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with read_only(data_dir):
        assert told(data_dir, capsys)[0] == 0


def test_where_there_is_no_log_there_is_nothing_to_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = told(tmp_path, capsys)
    assert (code, errors.startswith(f"annals: there is no annals.sqlite in {tmp_path}.")) == (2, True)


def test_a_server_that_writes_meanwhile_is_no_damage(data_dir: Path) -> None:
    parts, report = parts_of(data_dir), Report()
    head = parts.log.head(1)
    findings = check(data_dir, report, lambda _: None)
    # What comes after a checkpoint was read is in the log, and in the views of who is quick.
    parts.log.append([a_commit(head.session + 1, at=head.last + 1, prev=head.last)], [], 0)
    assert (list(findings), report.logs[1].last) == ([], head.session + 1)
    parts.close()


def test_how_far_it_has_come_is_shown(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "EVERY", 50)
    monkeypatch.setattr(files, "STEPS", 100)
    shown: list[str] = []
    list(check(data_dir, Report(), shown.append))
    assert list(dict.fromkeys(shown)) == [
        "views.sqlite: SQLite checks its pages",
        "outbox.sqlite: SQLite checks its pages",
        "annals.sqlite: SQLite checks its pages",
        "annals.sqlite: 50 commits",
        "annals.sqlite: 100 commits",
    ]


def test_the_memory_it_takes_does_not_grow_with_the_log(data_dir: Path) -> None:
    parts, texts = parts_of(data_dir), (a_text(noise(100_000)),)
    for session in range(1, 201):
        parts.log.append([a_commit(session, server=9, texts=texts)], [], 0)
    parts.close()
    tracemalloc.start()
    assert list(check(data_dir, Report(), lambda _: None)) == []
    assert tracemalloc.get_traced_memory()[1] < 2 * MEGABYTE
    tracemalloc.stop()


def test_the_command_ends_with_a_code_of_its_own(data_dir: Path) -> None:
    with sqlite3.connect(data_dir / "annals.sqlite") as connection:
        connection.execute(f"DELETE FROM log WHERE {row(3)}")
    connection.close()
    done = subprocess.run(
        [sys.executable, "-m", "annals_client", "check"],
        cwd=ROOT,
        env={**os.environ, "DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "session 3 is missing" in done.stdout) == (7, True)
