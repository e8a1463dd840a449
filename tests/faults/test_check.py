"""`annals check`: reports damage with its location, the readable commits, and what to do."""

import json
import os
import subprocess
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from annals_client.cli.exits import DAMAGED
from annals_client.cli.main import run
from chalicelib.domain.views.record import PROJECTOR
from infra.server.commands.check import commits, sqlite_file
from infra.server.commands.check.data_directory import check
from infra.server.commands.check.findings import Report
from tests.builders import a_commit, a_text, incompressible_text
from tests.faults.damage import (
    COMMITS,
    DAMAGE_VIEWS,
    DELETE_LAST_COMMITS,
    PAGE,
    REPLACE_BY_TEXT,
    SET_NEWER_FORMAT,
    ZERO_PAGES,
    Damage,
    build_components,
    commit_condition,
    overwrite,
    replace_file,
    run_sql,
    truncate,
    use_foreign_database,
)
from tests.faults.disks import mount_read_only
from tests.serving import ROOT

MEGABYTE = 1024 * 1024

DAMAGES: dict[str, tuple[Damage, str]] = {
    "a commit is gone": (
        run_sql(f"DELETE FROM log WHERE {commit_condition(20)}"),
        "annals.sqlite: acme (log 1), session 21: session 20 is missing before it",
    ),
    "several are gone": (
        run_sql(f"DELETE FROM log WHERE {commit_condition(20)} OR {commit_condition(21)}"),
        "annals.sqlite: acme (log 1), session 22: sessions 20 to 21 are missing before it",
    ),
    "the first organization is gone": (
        run_sql(f"DELETE FROM log WHERE {commit_condition(1, server=0)}"),
        "annals.sqlite: the directory (log 0), session 2: session 1 is missing before it",
    ),
    "another prev": (
        run_sql(f"UPDATE log SET prev = 7 WHERE {commit_condition(20)}"),
        "annals.sqlite: acme (log 1), session 20: prev is 7, but the previous commit ends at ",
    ),
    "a first commit with something before it": (
        run_sql(f"UPDATE log SET prev = 7 WHERE {commit_condition(1)}"),
        "annals.sqlite: acme (log 1), session 1: prev is 7, but this is the first commit",
    ),
    "numbers that do not rise": (
        run_sql(f"UPDATE log SET at = 7 WHERE {commit_condition(20)}"),
        "annals.sqlite: acme (log 1), session 20: its EventIds start at 7, but the previous commit ends at ",
    ),
    "another number of events": (
        run_sql(f"UPDATE log SET n = 3 WHERE {commit_condition(20)}"),
        "annals.sqlite: acme (log 1), session 20: its event count is 3, but it has 2 events",
    ),
    "a number that is used twice": (
        run_sql(f"UPDATE log SET at = prev WHERE {commit_condition(20)}"),
        "annals.sqlite: acme (log 1), session 20: its EventIds start at ",
    ),
    "events on one line": (
        run_sql(f"UPDATE log SET body = replace(body, ',' || char(10), ',') WHERE {commit_condition(20)}"),
        "annals.sqlite: acme (log 1), session 20: its events are not on a line each",
    ),
    "a byte that is not JSON": (
        run_sql(f"UPDATE log SET body = replace(body, '\"key\"', 'ykey\"') WHERE {commit_condition(20)}"),
        "annals.sqlite: acme (log 1), session 20, byte 27: its events are not JSON: ",
    ),
    "a byte that is not text": (
        run_sql(
            "UPDATE log SET body = CAST(CAST(substr(body, 1, 40) AS BLOB) || x'ff' AS TEXT) "
            f"WHERE {commit_condition(20)}"
        ),
        "annals.sqlite: acme (log 1), session 20, byte 40: its events are not UTF-8: ",
    ),
    "no list": (
        run_sql(f"UPDATE log SET body = '{{}}' WHERE {commit_condition(20)}"),
        "annals.sqlite: acme (log 1), session 20: its events are not a list of objects",
    ),
    "an idempotency key twice": (
        run_sql(f"UPDATE log SET key = 'k7' WHERE place = {2**40 + 9}"),
        "annals.sqlite: acme (log 1), session 9: an earlier commit has the same Idempotency-Key 'k7'",
    ),
    "another publisher": (
        run_sql(f"UPDATE log SET by = 'mallory' WHERE place = {2**40 + 9}"),
        "annals.sqlite: acme (log 1), session 9: its checksum is wrong",
    ),
    "another position": (
        run_sql(f"UPDATE log SET before = before + 1 WHERE place = {2**40 + 9}"),
        "annals.sqlite: acme (log 1), session 9: it counts ",
    ),
    "the end is gone": (
        DELETE_LAST_COMMITS,
        "outbox.sqlite: acme (log 1), session 60: observe is at session 60, but the log ends at 50",
    ),
    "another end": (
        run_sql(f"UPDATE log SET n = 1, body = '[{{}}]' WHERE {commit_condition(COMMITS)}"),
        f"views.sqlite: acme (log 1), session 60: {PROJECTOR} expects this session to end at ",
    ),
    "zeroed pages": (ZERO_PAGES, "annals.sqlite: page "),
    "a shorter file": (truncate, "annals.sqlite: page "),
    "another header": (overwrite(0, b"\xff" * 100), r"annals.sqlite: byte 0: this is not a SQLite database: it beg"),
    "no database": (
        REPLACE_BY_TEXT,
        "annals.sqlite: byte 0: this is not a SQLite database: it begins with 'Dear diary",
    ),
    "no content": (replace_file(b""), "annals.sqlite: byte 0: this is not a SQLite database: it begins with ''"),
    "another application's": (
        use_foreign_database,
        "annals.sqlite: this is not a database of Annals: it has no ",
    ),
    "a newer format": (
        SET_NEWER_FORMAT,
        "annals.sqlite: a newer version of Annals wrote it (format 9): check it with that",
    ),
    "another view record": (
        run_sql(f"UPDATE record SET data = data || ' ' WHERE item = '{PROJECTOR}'", file="views.sqlite"),
        "views.sqlite: page ",
    ),
    "another checkpoint": (
        run_sql("UPDATE record SET data = data || ' ' WHERE item = 'observe'", file="outbox.sqlite"),
        "outbox.sqlite: record 'observe' of view '1/checkpoint' is damaged: its checksum is wrong",
    ),
    "another delivery": (
        run_sql(
            "INSERT INTO delivery VALUES"
            " (1, 1, 'ops', '1.1.1/ops', 1, 1, '', 'eve', '', 0, 0, 0, '', 0, 0, 0, 0, 7, 0, 1, '')",
            file="outbox.sqlite",
        ),
        "outbox.sqlite: delivery 1 is damaged: its checksum is wrong, and it is not sent",
    ),
    "views that are not a database": (
        DAMAGE_VIEWS,
        "views.sqlite: byte 0: this",
    ),
}


def run_check(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    """Run `annals check` and return its exit code, its output lines and its error output."""
    code = run(["check", "--data-dir", str(data_dir)])
    output = capsys.readouterr()
    return code, output.out.splitlines(), output.err


def test_check_undamaged_directory_reports_no_damage(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name for path in data_dir.iterdir()}
    assert run_check(data_dir, capsys) == (
        0,
        [
            "the directory (log 0): sessions 1 to 2, 2 commits, 2 events",
            "acme (log 1): sessions 1 to 60, 60 commits, 120 events",
            "other (log 2): sessions 1 to 60, 60 commits, 60 events",
            "No damage found.",
        ],
        "",
    )
    assert {path.name for path in data_dir.iterdir()} == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_check_reports_damage_with_its_location(
    damage: str, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_files, expected = DAMAGES[damage]
    damage_files(data_dir)
    code, lines, errors = run_check(data_dir, capsys)
    assert code == DAMAGED
    assert [line for line in lines if line.startswith(expected)], lines
    assert errors.startswith(f"annals: there is damage in {data_dir}: ")


def test_check_zeroed_pages_are_reported_and_the_rest_read(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ZERO_PAGES(data_dir)
    first = (data_dir / "annals.sqlite").stat().st_size // PAGE // 2 + 1
    code = run(["check", "--data-dir", str(data_dir), "--json"])
    *findings, report = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    pages = [finding for finding in findings if "page" in finding]
    assert sorted((finding["page"], finding["byte"]) for finding in pages) == [
        (n, (n - 1) * PAGE) for n in range(first, first + 3)
    ]
    (gap,) = [finding for finding in findings if "cannot be read" in finding["problem"] and "log" in finding]
    seen = {log["log"]: log["commits"] for log in report["logs"]}
    lost = sum((2, COMMITS, COMMITS)) - sum(seen.values())
    assert (code, report["sound"], gap["log"] in seen, 0 < lost < 10) == (DAMAGED, False, True, True)


def test_check_damaged_views_advises_to_delete_them(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DAMAGE_VIEWS(data_dir)
    _, lines, _ = run_check(data_dir, capsys)
    advice = "views.sqlite: stop the server, delete the file, and start the server. It is rebuilt from the log."
    assert (lines[-1], "No damage found." in lines) == (advice, False)


def test_check_ignores_commits_deleted_by_retention(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    components = build_components(data_dir)
    components.stores.delete_commits(1, 30)
    components.close()
    code, lines, _ = run_check(data_dir, capsys)
    assert (code, lines[1]) == (0, "acme (log 1): sessions 31 to 60, 30 commits, 60 events")


def test_check_works_in_a_read_only_directory(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mount_read_only(data_dir):
        assert run_check(data_dir, capsys)[0] == 0


def test_check_without_a_log_exits_with_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = run_check(tmp_path, capsys)
    assert (code, errors.startswith(f"annals: there is no annals.sqlite in {tmp_path}.")) == (2, True)


def test_check_allows_same_key_in_two_logs(data_dir: Path) -> None:
    """The later log has a smaller session, so its commit is close to the other one."""
    components = build_components(data_dir)
    head = components.stores.log.head(1)
    keyed = a_commit(
        head.session + 1, at=head.last_event_id + 1, prev=head.last_event_id, before=head.position, key="k"
    )
    components.stores.log.append([keyed])
    components.stores.log.append([a_commit(1, server=9, at=head.last_event_id + 2, key="k")])
    components.close()
    assert list(check(data_dir, Report(), lambda _: None)) == []


def test_check_tolerates_concurrent_appends(data_dir: Path) -> None:
    components, report = build_components(data_dir), Report()
    head = components.stores.log.head(1)
    findings = check(data_dir, report, lambda _: None)
    # A commit after the checkpoints were read may be in the log and in some views.
    components.stores.log.append(
        [a_commit(head.session + 1, at=head.last_event_id + 1, prev=head.last_event_id, before=head.position)]
    )
    assert (list(findings), report.logs[1].last) == ([], head.session + 1)
    components.close()


def test_check_reports_progress(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "PROGRESS_INTERVAL_COMMITS", 50)
    monkeypatch.setattr(sqlite_file, "PROGRESS_INTERVAL_STEPS", 100)
    shown: list[str] = []
    list(check(data_dir, Report(), shown.append))
    assert list(dict.fromkeys(shown)) == [
        "views.sqlite: checking pages",
        "outbox.sqlite: checking pages",
        "annals.sqlite: checking pages",
        "annals.sqlite: 50 commits",
        "annals.sqlite: 100 commits",
    ]


def test_check_memory_does_not_grow_with_the_log(data_dir: Path) -> None:
    components, texts = build_components(data_dir), (a_text(incompressible_text(100_000)),)
    for session in range(1, 201):
        components.stores.log.append([a_commit(session, server=9, texts=texts)])
    components.close()
    tracemalloc.start()
    assert list(check(data_dir, Report(), lambda _: None)) == []
    assert tracemalloc.get_traced_memory()[1] < 2 * MEGABYTE
    tracemalloc.stop()


def test_check_command_exits_with_its_own_code(data_dir: Path) -> None:
    run_sql(f"DELETE FROM log WHERE {commit_condition(3)}")(data_dir)
    done = subprocess.run(
        [sys.executable, "-m", "annals_client", "check"],
        cwd=ROOT,
        env={**os.environ, "DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "session 3 is missing" in done.stdout) == (7, True)


def test_check_length_with_pages_of_64_kb_reports_missing_bytes(tmp_path: Path) -> None:
    """SQLite stores this page size as 1."""
    path = tmp_path / "annals.sqlite"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA page_size = 65536; CREATE TABLE log (place)")
    assert list(sqlite_file.check_length(path)) == []
    os.truncate(path, 2 * 65536 - 10)
    assert [finding.problem for finding in sqlite_file.check_length(path)] == [
        "the file ends here, but it had 2 pages of 65536 bytes: 10 bytes are missing"
    ]
