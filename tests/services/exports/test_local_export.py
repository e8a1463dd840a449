"""Exporting local logs: each commit in exactly one export, whatever happens to the log meanwhile."""

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

from chalicelib.adapters.dynamodb.items import commit_from_item, item_from_commit
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput, LogBroken
from chalicelib.domain.exports.export import FULL, INCREMENTAL, Export, Ledger, Span
from chalicelib.domain.log.commit import Commit
from chalicelib.services.exports.local_export import lines, next_export
from tests.builders import a_commit, a_text, noise
from tests.services.worlds import NOW_MS

LATER_MS = NOW_MS + 60_000


def fill(log: SqliteLog, server: int, first: int, last: int) -> list[Commit]:
    """Commits with these sessions, appended."""
    commits = [a_commit(session=session, server=server, request_id=f"r{session}") for session in range(first, last + 1)]
    for commit in commits:
        log.append([commit], [], 0)
    return commits


def due(ledger: Ledger, log: SqliteLog, *servers: int, now_ms: int = NOW_MS, full: bool = False) -> Export:
    """The next export, which there is."""
    export = next_export(ledger, log, servers, now_ms, full)
    assert export is not None
    return export


def records(export: Export, log: SqliteLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(export, log, item_from_commit)]


def held(export: Export, log: SqliteLog) -> list[tuple[int, int]]:
    """Server and session of each commit in an export."""
    images = [record.get("Item") or record["NewImage"] for record in records(export, log)]
    return [(int(image["server"]["N"]), int(image["session"]["N"])) for image in images]


def test_the_first_export_is_full_and_holds_all_organizations(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    fill(log, 2, 1, 2)
    export = due(Ledger(), log, 1, 2)
    assert (export.kind, export.from_ms, export.to_ms, export.commits) == (FULL, None, NOW_MS, 5)
    assert held(export, log) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]


def test_the_next_export_holds_what_came_since_also_of_new_organizations(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    first = due(Ledger(), log, 1)
    fill(log, 1, 4, 5)
    fill(log, 2, 1, 1)
    second = due(Ledger().completed(first), log, 1, 2, now_ms=LATER_MS)
    assert (second.kind, second.from_ms, second.to_ms) == (INCREMENTAL, NOW_MS, LATER_MS)
    assert held(second, log) == [(1, 4), (1, 5), (2, 1)]


def test_nothing_new_is_no_export(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    ledger = Ledger().completed(due(Ledger(), log, 1))
    assert next_export(ledger, log, [1], LATER_MS) is None


def test_the_first_export_of_an_empty_log_is_there_and_empty(log: SqliteLog) -> None:
    export = due(Ledger(), log)
    assert (export.kind, export.commits, held(export, log)) == (FULL, 0, [])


def test_a_full_export_can_be_had_again(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    ledger = Ledger().completed(due(Ledger(), log, 1))
    again = due(ledger, log, 1, now_ms=LATER_MS, full=True)
    assert (again.kind, held(again, log)) == (FULL, [(1, 1), (1, 2), (1, 3)])


def test_what_is_appended_during_an_export_belongs_to_the_next(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    first = due(Ledger(), log, 1)
    going = lines(first, log, item_from_commit)
    found = [next(going)]
    fill(log, 1, 4, 200)
    found += going
    assert len(found) == 3
    second = due(Ledger().completed(first), log, 1, now_ms=LATER_MS)
    assert held(second, log) == [(1, session) for session in range(4, 201)]


def test_an_export_that_was_not_completed_is_done_again_as_it_was_planned(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    planned = due(Ledger(), log, 1)
    fill(log, 1, 4, 5)
    assert due(Ledger(planned=planned), log, 1, now_ms=LATER_MS) == planned
    assert held(planned, log) == [(1, 1), (1, 2), (1, 3)]


def test_time_goes_on_from_export_to_export_even_if_the_clock_does_not(log: SqliteLog) -> None:
    first = due(Ledger(), log, 1)
    fill(log, 1, 1, 1)
    second = due(Ledger().completed(first), log, 1, now_ms=NOW_MS - 5_000)
    assert (second.from_ms, second.to_ms) == (NOW_MS, NOW_MS + 1)


@pytest.mark.parametrize("sessions", [2, 5], ids=["shorter", "with other numbers"])
def test_logs_in_the_place_of_others_are_refused(sessions: int, log: SqliteLog) -> None:
    exported = Ledger(ended_ms=NOW_MS, ends=(Span(server=1, after=0, after_last=0, session=3, last=3_333),))
    fill(log, 1, 1, sessions)
    with pytest.raises(BadInput, match="of another log"):
        next_export(exported, log, [1], LATER_MS)


def test_a_plan_for_logs_that_are_gone_is_given_up(log: SqliteLog) -> None:
    planned = Export(
        id="x", from_ms=None, to_ms=1, spans=(Span(server=1, after=0, after_last=0, session=9, last=9_000),)
    )
    fill(log, 1, 1, 2)
    assert held(due(Ledger(planned=planned), log, 1), log) == [(1, 1), (1, 2)]


def test_what_retention_forgot_since_the_last_export_is_left_out(log: SqliteLog) -> None:
    fill(log, 1, 1, 3)
    ledger = Ledger().completed(due(Ledger(), log, 1))
    fill(log, 1, 4, 9)
    log.forget(1, 5)
    export = due(ledger, log, 1, now_ms=LATER_MS)
    assert (export.commits, held(export, log)) == (4, [(1, 6), (1, 7), (1, 8), (1, 9)])


def test_what_retention_forgets_during_an_export_is_left_out(log: SqliteLog) -> None:
    fill(log, 1, 1, 200)
    export = due(Ledger(), log, 1)
    going = lines(export, log, item_from_commit)
    found = [next(going)]
    log.forget(1, 150)
    found += going
    sessions = [int(json.loads(line)["Item"]["session"]["N"]) for line in found]
    # The page that was read when retention came is there in any case.
    assert sessions == [*range(1, sessions.index(151) + 1), *range(151, 201)]


def test_a_log_with_a_gap_is_not_exported_in_silence(database: Database, log: SqliteLog) -> None:
    fill(log, 1, 1, 5)
    with database.writing() as connection:
        connection.execute("DELETE FROM log WHERE place % (1 << 40) = 3")
    with pytest.raises(LogBroken, match="session 4 of server 1"):
        records(due(Ledger(), log, 1), log)


@pytest.mark.parametrize(
    "texts",
    [(a_text(),), (a_text("/ü/\u2028"),), (a_text(noise(3_000)),), tuple(a_text(f"/job/{n}") for n in range(200))],
    ids=["small", "beyond ASCII", "not worth deflating", "deflated"],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["full", "incremental"])
def test_a_line_holds_the_item_that_dynamodb_would_keep(texts: tuple[str, ...], is_first: bool, log: SqliteLog) -> None:
    ledger = Ledger() if is_first else Ledger().completed(due(Ledger(), log, 1))
    commit = a_commit(texts=texts)
    log.append([commit], [], 0)
    (record,) = records(due(ledger, log, 1, now_ms=LATER_MS), log)
    item = item_from_commit(commit)
    image = record["Item"] if is_first else record["NewImage"]
    assert image.keys() == item.keys()
    assert commit_from_item(image) == commit
    if not is_first:
        assert record["Keys"] == {"server": {"N": "1"}, "session": {"N": "1"}}
        assert record["Metadata"] == {"WriteTimestampMicros": {"N": str(commit.at)}}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("axk"), st.integers(1, 3), st.integers(1, 70)), max_size=30))
def test_exports_join_without_gap_and_overlap(steps: list[tuple[str, int, int]]) -> None:
    """Appends, exports and exports that are cut off, in any order."""
    with _log() as log:
        ledger, found, sessions, now_ms = Ledger(), [], {1: 0, 2: 0, 3: 0}, NOW_MS
        for step, server, count in [*steps, ("x", 1, 1), ("x", 1, 1)]:
            now_ms += 1
            if step == "a":
                fill(log, server, sessions[server] + 1, sessions[server] + count)
                sessions[server] += count
                continue
            export = next_export(ledger, log, list(sessions), now_ms)
            if export is not None and step == "x":
                found.append(held(export, log))
            ledger = ledger.completed(export) if export is not None and step == "x" else _planned(ledger, export)
        wanted = [(server, session) for server, last in sessions.items() for session in range(1, last + 1)]
        assert sorted(chain.from_iterable(found)) == wanted


def _planned(ledger: Ledger, export: Export | None) -> Ledger:
    return ledger.model_copy(update={"planned": export})


@contextmanager
def _log() -> Iterator[SqliteLog]:
    with TemporaryDirectory() as folder:
        database = Database(Path(folder) / "annals.sqlite", durable=False)
        yield SqliteLog(database)
        database.close()
