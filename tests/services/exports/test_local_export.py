"""Exports of local logs: each commit is in exactly one export."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.adapters.dynamodb.items import commits_from_item, item_from_commit
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput, LogBroken
from chalicelib.domain.exports.export import FULL, INCREMENTAL, Export, Ledger, Span
from chalicelib.domain.log.commit import Commit
from chalicelib.services.exports.local_export import export_lines, next_export
from tests.builders import a_commit, a_text, incompressible_text
from tests.services.fakes import NOW_MS

LATER_MS = NOW_MS + 60_000


def fill(log: SqliteLog, server: int, first: int, last: int) -> list[Commit]:
    """Append commits with these sessions."""
    commits = [a_commit(session=session, server=server, request_id=f"r{session}") for session in range(first, last + 1)]
    for commit in commits:
        log.append([commit])
    return commits


def due_export(ledger: Ledger, log: SqliteLog, *servers: int, now_ms: int = NOW_MS, full: bool = False) -> Export:
    """The next export, which must exist."""
    export = next_export(ledger, log, servers, now_ms, full)
    assert export is not None
    return export


def records(export: Export, log: SqliteLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export_lines(export, log, item_from_commit)]


def exported_commits(export: Export, log: SqliteLog) -> list[tuple[int, int]]:
    """Server and session of each commit in an export."""
    images = [record.get("Item") or record["NewImage"] for record in records(export, log)]
    return [(int(image["server"]["N"]), int(image["session"]["N"])) for image in images]


def test_next_export_first_is_full_with_all_organizations(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    fill(log, 2, 1, 2)
    export = due_export(Ledger(), log, 1, 2)
    assert (export.kind, export.from_ms, export.to_ms, export.commits) == (FULL, None, NOW_MS, 5)
    assert exported_commits(export, log) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]


def test_next_export_second_has_new_commits(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    first = due_export(Ledger(), log, 1)
    fill(log, 1, 4, 5)
    fill(log, 2, 1, 1)
    second = due_export(Ledger().with_completed(first), log, 1, 2, now_ms=LATER_MS)
    assert (second.kind, second.from_ms, second.to_ms) == (INCREMENTAL, NOW_MS, LATER_MS)
    assert exported_commits(second, log) == [(1, 4), (1, 5), (2, 1)]


def test_next_export_without_new_commits_is_none(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    ledger = Ledger().with_completed(due_export(Ledger(), log, 1))
    assert next_export(ledger, log, [1], LATER_MS) is None


def test_next_export_of_empty_log_is_full_and_empty(log: SqliteLog) -> None:
    export = due_export(Ledger(), log)
    assert (export.kind, export.commits, exported_commits(export, log)) == (FULL, 0, [])


def test_next_export_full_on_request(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    ledger = Ledger().with_completed(due_export(Ledger(), log, 1))
    second_full = due_export(ledger, log, 1, now_ms=LATER_MS, full=True)
    assert (second_full.kind, exported_commits(second_full, log)) == (FULL, [(1, 1), (1, 2), (1, 3)])


def test_export_lines_exclude_commits_appended_meanwhile(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    first = due_export(Ledger(), log, 1)
    lines = export_lines(first, log, item_from_commit)
    found = [next(lines)]
    fill(log, 1, 4, 200)
    found += lines
    assert len(found) == 3
    second = due_export(Ledger().with_completed(first), log, 1, now_ms=LATER_MS)
    assert exported_commits(second, log) == [(1, session) for session in range(4, 201)]


def test_next_export_repeats_planned_export(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    planned = due_export(Ledger(), log, 1)
    fill(log, 1, 4, 5)
    assert due_export(Ledger(planned=planned), log, 1, now_ms=LATER_MS) == planned
    assert exported_commits(planned, log) == [(1, 1), (1, 2), (1, 3)]


def test_next_export_times_increase_when_clock_goes_back(log: SqliteLog) -> None:
    first = due_export(Ledger(), log, 1)
    fill(log, 1, 1, 1)
    second = due_export(Ledger().with_completed(first), log, 1, now_ms=NOW_MS - 5_000)
    assert (second.from_ms, second.to_ms) == (NOW_MS, NOW_MS + 1)


@pytest.mark.parametrize("sessions", [2, 5], ids=["shorter", "other event ids"])
def test_next_export_of_replaced_log_raises_bad_input(sessions: int, log: SqliteLog) -> None:
    exported = Ledger(ended_ms=NOW_MS, ends=(Span(server=1, after=0, after_last=0, session=3, last=3_333),))
    fill(log, 1, 1, sessions)
    with pytest.raises(BadInput, match="of another log"):
        next_export(exported, log, [1], LATER_MS)


def test_next_export_discards_plan_of_replaced_log(log: SqliteLog) -> None:
    planned = Export(
        id="x", from_ms=None, to_ms=1, spans=(Span(server=1, after=0, after_last=0, session=9, last=9_000),)
    )
    fill(log, 1, 1, 2)
    assert exported_commits(due_export(Ledger(planned=planned), log, 1), log) == [(1, 1), (1, 2)]


def test_next_export_omits_deleted_commits(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    ledger = Ledger().with_completed(due_export(Ledger(), log, 1))
    fill(log, 1, 4, 9)
    log.delete_up_to(1, 5)
    export = due_export(ledger, log, 1, now_ms=LATER_MS)
    assert (export.commits, exported_commits(export, log)) == (4, [(1, 6), (1, 7), (1, 8), (1, 9)])


def test_export_lines_omit_commits_deleted_meanwhile(log: SqliteLog) -> None:
    fill(log, 1, 1, 200)
    export = due_export(Ledger(), log, 1)
    lines = export_lines(export, log, item_from_commit)
    found = [next(lines)]
    log.delete_up_to(1, 150)
    found += lines
    sessions = [int(json.loads(line)["Item"]["session"]["N"]) for line in found]
    # Commits of the page that was read before the deletion are included.
    assert sessions == [*range(1, sessions.index(151) + 1), *range(151, 201)]


def test_export_lines_of_log_with_gap_raise_log_broken(database: Database, log: SqliteLog) -> None:
    fill(log, 1, 1, 5)
    with database.transaction() as connection:
        connection.execute("DELETE FROM log WHERE place % (1 << 40) = 3")
    with pytest.raises(LogBroken, match="session 4 of server 1"):
        records(due_export(Ledger(), log, 1), log)


@pytest.mark.parametrize(
    "texts",
    [
        (a_text(),),
        (a_text("/ü/\u2028"),),
        (a_text(incompressible_text(3_000)),),
        tuple(a_text(f"/job/{n}") for n in range(200)),
    ],
    ids=["small", "beyond ASCII", "not worth deflating", "deflated"],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["full", "incremental"])
def test_export_lines_contain_dynamodb_items(texts: tuple[str, ...], is_first: bool, log: SqliteLog) -> None:
    ledger = Ledger() if is_first else Ledger().with_completed(due_export(Ledger(), log, 1))
    commit = a_commit(texts=texts)
    log.append([commit])
    (record,) = records(due_export(ledger, log, 1, now_ms=LATER_MS), log)
    item = item_from_commit(commit)
    image = record["Item"] if is_first else record["NewImage"]
    assert image.keys() == item.keys()
    assert commits_from_item(image) == [commit]
    if not is_first:
        assert record["Keys"] == {"server": {"N": "1"}, "session": {"N": "1"}}
        assert record["Metadata"] == {"WriteTimestampMicros": {"N": str(commit.at_us)}}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("axk"), st.integers(1, 3), st.integers(1, 70)), max_size=30))
def test_exports_have_no_gaps_and_overlaps(steps: list[tuple[str, int, int]]) -> None:
    """Random appends, exports and interrupted exports."""
    with _temporary_log() as log:
        ledger, found, sessions, now_ms = Ledger(), [], {1: 0, 2: 0, 3: 0}, NOW_MS
        for step, server, count in [*steps, ("x", 1, 1), ("x", 1, 1)]:
            now_ms += 1
            if step == "a":
                fill(log, server, sessions[server] + 1, sessions[server] + count)
                sessions[server] += count
                continue
            export = next_export(ledger, log, list(sessions), now_ms)
            if export is not None and step == "x":
                found.append(exported_commits(export, log))
            ledger = (
                ledger.with_completed(export) if export is not None and step == "x" else _with_planned(ledger, export)
            )
        expected = [(server, session) for server, last in sessions.items() for session in range(1, last + 1)]
        assert sorted(chain.from_iterable(found)) == expected


def _with_planned(ledger: Ledger, export: Export | None) -> Ledger:
    return ledger.model_copy(update={"planned": export})


@contextmanager
def _temporary_log() -> Iterator[SqliteLog]:
    with TemporaryDirectory() as folder:
        database = Database(Path(folder) / "annals.sqlite", durable=False)
        yield SqliteLog(database)
        database.close()
