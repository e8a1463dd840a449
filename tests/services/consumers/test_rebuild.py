"""Rebuilding views: exact with concurrent projectors, writers and rebuilds, and after crashes at any point."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

import pytest

from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import (
    LATEST_VIEW,
    MAX_CHARACTER,
    PROJECTOR,
    RUNS_VIEW,
    SESSIONS_VIEW,
    Checkpoint,
    ConditionalWrite,
    objects_view,
)
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import catch_up, run_once
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.consumers.projector import (
    REPLACED_VIEWS_TTL_S,
    delete_replaced_views,
    projector,
    rebuild,
)
from chalicelib.services.ports import Log, Views
from tests.services.consumers.sample_events import fill, sample_commits
from tests.services.consumers.view_checks import (
    KINDS,
    Crash,
    InterceptedViews,
    all_records,
    assert_exact,
    at_write,
    count_rebuild_writes,
    count_writes,
    crash,
    generations,
    project_undisturbed,
    rebuild_of,
    run_all,
)


def test_rebuild_builds_same_views_beside_old_ones(log: Log, views: Views) -> None:
    fill(log, 1, sample_commits(30))
    catch_up(projector(views), 1, log, views)
    before = all_records(views, 1)
    progress: list[tuple[int, int]] = []
    rebuild(1, log, views, lambda done, head: progress.append((done, head)))
    assert load_checkpoint(PROJECTOR, 1, views).generation == 2
    assert all_records(views, 1) == before
    assert generations(views, 1) == [1, 2]
    assert progress == [(30, 30)]


def test_projector_deletes_replaced_views_some_minutes_later(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several runs, because each deletes a limited number of records. Readers may still use them until then."""
    monkeypatch.setattr("chalicelib.services.consumers.projector.MAX_DROPPED_RECORDS", 1)
    now_ms = 1_000
    commits = iter(sample_commits(60))
    fill(log, 1, list(islice(commits, 30)))
    catch_up(projector(views), 1, log, views)
    rebuild(1, log, views, lambda *_: None, clock=lambda: now_ms)
    due_ms = now_ms + REPLACED_VIEWS_TTL_S * 1000
    runs: list[list[int]] = []
    for now_ms in (due_ms - 1, *[due_ms] * 29):
        fill(log, 1, list(islice(commits, 1)))
        run_once(projector(views, clock=lambda: now_ms), 1, log, views)  # noqa: B023
        runs.append(generations(views, 1))
    assert runs[0] == runs[1] == [1, 2]
    assert runs[29] == [2]
    assert load_checkpoint(PROJECTOR, 1, views).switched_at_ms == 0
    assert_exact(log, views, 1)


def test_second_rebuild_keeps_views_replaced_just_before(log: Log, views: Views) -> None:
    fill(log, 1, sample_commits(5))
    times_ms = (0, REPLACED_VIEWS_TTL_S * 1000 - 1, 2 * REPLACED_VIEWS_TTL_S * 1000)
    kept = []
    for now_ms in times_ms:
        rebuild(1, log, views, lambda *_: None, clock=lambda: now_ms + 1)  # noqa: B023
        kept.append(generations(views, 1))
    assert kept == [[2], [2, 3], [3, 4]]


def test_rebuild_works_with_empty_log_and_without_views(log: Log, views: Views) -> None:
    rebuild(1, log, views, lambda *_: None)
    empty_views: dict[str, list[Any]] = {kind: [] for kind in KINDS if kind not in (RUNS_VIEW, SESSIONS_VIEW)}
    assert all_records(views, 1) == {"checkpoint": [(PROJECTOR, 0, '{"n":0,"last":0,"p":0}')], **empty_views}
    fill(log, 2, sample_commits(30))
    rebuild(2, log, views, lambda *_: None)
    assert_exact(log, views, 2)
    assert generations(views, 2) == [2]


def test_reset_views_are_built_again_from_log_start(log: Log, views: Views) -> None:
    fill(log, 1, sample_commits(30))
    catch_up(projector(views), 1, log, views)
    before = all_records(views, 1)
    reset_views(1, views)
    assert load_checkpoint(PROJECTOR, 1, views).head == Head(1)
    catch_up(projector(views), 1, log, views)
    assert load_checkpoint(PROJECTOR, 1, views).generation == 2
    assert all_records(views, 1) == before


def test_reset_views_after_unfinished_rebuild_start_empty(log: Log, views: Views) -> None:
    """The rebuild has left records in the second generation."""
    fill(log, 1, sample_commits(30))
    with pytest.raises(Crash):
        rebuild(1, log, InterceptedViews(views, at_write(3, crash)), lambda *_: None)
    reset_views(1, views)
    assert load_checkpoint(PROJECTOR, 1, views).generation == 3
    catch_up(projector(views), 1, log, views)
    assert_exact(log, views, 1)


def test_rebuild_of_emptied_log_keeps_its_head(log: Log, views: Views) -> None:
    commits = sample_commits(5)
    fill(log, 1, commits)
    retention_head = log.head(1)
    rebuild(1, log, views, lambda *_: None, retention_head)
    assert load_checkpoint(PROJECTOR, 1, views).head == retention_head


def test_rebuild_repairs_damaged_views(log: Log, views: Views) -> None:
    fill(log, 1, sample_commits(30))
    catch_up(projector(views), 1, log, views)
    before = all_records(views, 1)
    for kind in (LATEST_VIEW, objects_view("order")):
        for record in list(views.range(Checkpoint(Head(1)).view_name(kind), "", MAX_CHARACTER)):
            assert views.put([ConditionalWrite(replace(record, data="damaged"), record.version)]) == []
    rebuild(1, log, views, lambda *_: None)
    assert all_records(views, 1) == before


def test_rebuild_is_exact_with_concurrent_projector_and_writer(log: Log, views: Views, store: str) -> None:
    """Each write of the rebuild is preceded by a new commit or a run of the projector. Two runs on SQLite."""
    before, meanwhile = sample_commits(230 if store == "sqlite" else 12), sample_commits(8)
    fill(log, 1, before)
    run_once(projector(views), 1, log, views, limit=10)
    left = iter(meanwhile)
    turns = count()

    def interfere(_: ConditionalWrite | None) -> None:
        if next(turns) % 2:
            fill(log, 1, [commit for commit in [next(left, None)] if commit])
        else:
            run_once(projector(views), 1, log, views, limit=2)

    rebuild(1, log, InterceptedViews(views, interfere), lambda *_: None)
    catch_up(projector(views), 1, log, views)
    assert list(left) == []
    assert load_checkpoint(PROJECTOR, 1, views).generation == 2
    assert_exact(log, views, 1)
    delete_replaced_views(1, views)
    assert generations(views, 1) == [2]
    assert_exact(log, views, 1)
    fill(log, 2, [*before, *meanwhile])
    catch_up(projector(views), 2, log, views)
    assert all_records(views, 1) == all_records(views, 2)


def test_projector_overtaken_by_rebuild_stays_exact(log: Log, sqlite_views: Views, servers: Iterator[int]) -> None:
    records = project_undisturbed(log, sqlite_views, next(servers))
    for number in range(count_writes(log, sqlite_views, next(servers), 5)):
        server = next(servers)
        fill(log, server, sample_commits(8))
        run_all(log, InterceptedViews(sqlite_views, at_write(number, rebuild_of(log, sqlite_views, server))), server, 5)
        assert all_records(sqlite_views, server) == records


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "in another order"])
def test_rebuild_after_crashed_rebuild_is_exact(
    log: Log, sqlite_views: Views, servers: Iterator[int], backwards: bool
) -> None:
    records = project_undisturbed(log, sqlite_views, next(servers))
    for number in range(count_rebuild_writes(log, sqlite_views, next(servers))):
        server = next(servers)
        fill(log, server, sample_commits(8))
        run_once(projector(sqlite_views), server, log, sqlite_views, limit=6)
        with pytest.raises(Crash):
            rebuild(server, log, InterceptedViews(sqlite_views, at_write(number, crash), backwards), lambda *_: None)
        run_once(projector(sqlite_views), server, log, sqlite_views, limit=1)
        rebuild(server, log, sqlite_views, lambda *_: None)
        catch_up(projector(sqlite_views), server, log, sqlite_views)
        assert all_records(sqlite_views, server) == records


def test_rebuild_deletes_leftovers_of_crashed_and_late_writers(
    log: Log, sqlite_views: Views, servers: Iterator[int]
) -> None:
    for number in range(count_rebuild_writes(log, sqlite_views, next(servers))):
        server = next(servers)
        fill(log, server, sample_commits(8))
        late = InterceptedViews(sqlite_views, at_write(2, rebuild_of(log, sqlite_views, server)))
        run_once(projector(late), server, log, late, limit=6)
        with pytest.raises(Crash):
            rebuild(server, log, InterceptedViews(sqlite_views, at_write(number, crash)), lambda *_: None)
        rebuild(server, log, sqlite_views, lambda *_: None)
        delete_replaced_views(server, sqlite_views)
        assert generations(sqlite_views, server) == [load_checkpoint(PROJECTOR, server, sqlite_views).generation]


def test_rebuild_overtaken_by_other_rebuild_is_exact(log: Log, sqlite_views: Views, servers: Iterator[int]) -> None:
    """The first rebuild pauses at a write, a second one starts and crashes, then the first one continues."""
    records = project_undisturbed(log, sqlite_views, next(servers))
    for number in range(count_rebuild_writes(log, sqlite_views, next(servers))):
        server = next(servers)
        fill(log, server, sample_commits(8))
        run_once(projector(sqlite_views), server, log, sqlite_views, limit=6)
        second = InterceptedViews(sqlite_views, at_write(number % 20, crash))

        def overtake(server: int = server, second: Views = second) -> None:
            with pytest.raises(Crash):
                rebuild(server, log, second, lambda *_: None)

        rebuild(server, log, InterceptedViews(sqlite_views, at_write(number, overtake)), lambda *_: None)
        catch_up(projector(sqlite_views), server, log, sqlite_views)
        assert all_records(sqlite_views, server) == records
