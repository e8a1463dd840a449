"""The projector: its views match the log, with concurrent projectors and after crashes at any point."""

from collections.abc import Iterator, Sequence
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.domain.events.head import Head
from chalicelib.domain.objects.ref import KEYED, ObjectRef
from chalicelib.domain.views.object_view import (
    MAX_RECENT_SESSIONS,
)
from chalicelib.domain.views.record import (
    MAX_CHARACTER,
    PROJECTOR,
    SESSIONS_VIEW,
    Checkpoint,
)
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import catch_up, run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.ports import Log, Views
from tests.services.consumers.sample_events import (
    ODD_EVENTS,
    Text,
    archiving_commits,
    batches,
    events_of,
    fill,
    sample_commits,
)
from tests.services.consumers.view_checks import (
    Crash,
    InterceptedViews,
    all_records,
    assert_exact,
    at_write,
    chain,
    count_writes,
    crash,
    expected_objects,
    objects,
    other_run,
    project_undisturbed,
    record_writes,
    run_all,
)

EXAMPLES = {"sqlite": 40, "moto": 2, "dynamodb_local": 20}
WRITE_STEP = {"sqlite": 1, "moto": 60, "dynamodb_local": 5}
"""Crashes and concurrent runs are tested at every n-th write. The emulators are slow, so there only at a few."""
RUN_SIZES = {"sqlite": [(6, 4), (4, 6), (3, 20)], "moto": [(6, 4)], "dynamodb_local": [(6, 4)]}
"""Run limits of two projectors."""


def test_views_match_all_events(log: Log, views: Views, store: str, servers: Iterator[int]) -> None:
    @settings(max_examples=EXAMPLES[store], deadline=None)
    @given(batches, st.lists(st.integers(1, 5), max_size=9))
    def check(commits: Sequence[tuple[int, Sequence[Text]]], steps: Sequence[int]) -> None:
        server = next(servers)
        fill(log, server, commits)
        for limit in steps:
            run_once(projector(views), server, log, views, limit)
        catch_up(projector(views), server, log, views)
        assert_exact(log, views, server)

    check()


def test_run_once_returns_number_of_commits(log: Log, views: Views) -> None:
    commits = fill(log, 1, sample_commits(7))
    times = iter((10, 20, 30))
    consumer = projector(views, clock=lambda: next(times))
    assert [run_once(consumer, 1, log, views, limit=3) for _ in range(4)] == [3, 3, 1, 0]
    collections = frozenset(ref.collection for ref in expected_objects(events_of(commits)))
    assert load_checkpoint(PROJECTOR, 1, views) == Checkpoint(
        commits[-1].head, 1, 2**44 + 7, collections=collections, begun_at_ms=10
    )


def test_views_between_runs_match_log_up_to_checkpoint(log: Log, views: Views) -> None:
    commits = fill(log, 1, sample_commits(9))
    for limit in (2, 1, 4, 2):
        run_once(projector(views), 1, log, views, limit)
        done = load_checkpoint(PROJECTOR, 1, views).head.session
        assert objects(views, load_checkpoint(PROJECTOR, 1, views)) == expected_objects(events_of(commits[:done]))


def test_projecting_twice_changes_nothing(log: Log, views: Views) -> None:
    commits = fill(log, 1, sample_commits(20))
    catch_up(projector(views), 1, log, views)
    records = all_records(views, 1)
    catch_up(projector(views), 1, log, views)
    for start in range(0, 20, 4):
        projector(views).handle(Checkpoint(Head(1)), commits[start : start + 7], lambda: None)
    assert all_records(views, 1) == records


def test_views_of_servers_are_independent(log: Log, views: Views) -> None:
    fill(log, 1, sample_commits(5))
    catch_up(projector(views), 1, log, views)
    records = all_records(views, 1)
    fill(log, 11, sample_commits(8))
    catch_up(projector(views), 11, log, views)
    assert all_records(views, 1) == records
    assert_exact(log, views, 11)


def test_views_do_not_depend_on_run_sizes(log: Log, views: Views, store: str) -> None:
    servers = count(2)
    records = project_undisturbed(log, views, 1)

    @settings(max_examples=EXAMPLES[store], deadline=None)
    @given(st.lists(st.integers(1, 6), max_size=12))
    def check(steps: Sequence[int]) -> None:
        server = next(servers)
        fill(log, server, sample_commits(8))
        for limit in steps:
            run_once(projector(views), server, log, views, limit)
        catch_up(projector(views), server, log, views)
        assert all_records(views, server) == records

    check()


def test_projector_overtaken_at_any_write_stays_exact(
    log: Log, views: Views, store: str, servers: Iterator[int]
) -> None:
    records = project_undisturbed(log, views, next(servers))
    for limit, other_limit in RUN_SIZES[store]:
        for number in range(0, count_writes(log, views, next(servers), limit), WRITE_STEP[store]):
            server = next(servers)
            fill(log, server, sample_commits(8))
            run_all(
                log,
                InterceptedViews(views, at_write(number, other_run(log, views, server, other_limit))),
                server,
                limit,
            )
            assert all_records(views, server) == records


def test_projectors_alternating_at_every_write_stay_exact(log: Log, views: Views) -> None:
    records = project_undisturbed(log, views, 1)
    fill(log, 2, sample_commits(8))
    other = other_run(log, views, 2, limit=1)
    run_all(log, InterceptedViews(views, lambda _: other()), 2, limit=5)
    assert all_records(views, 2) == records


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "in another order"])
def test_crash_at_any_write_is_repaired_by_next_run(
    log: Log, views: Views, store: str, servers: Iterator[int], backwards: bool
) -> None:
    records = project_undisturbed(log, views, next(servers))
    for limit, restart_limit in [*RUN_SIZES[store], (5, 5)]:
        for number in range(0, count_writes(log, views, next(servers), limit), WRITE_STEP[store]):
            server = next(servers)
            fill(log, server, sample_commits(8))
            with pytest.raises(Crash):
                run_all(log, InterceptedViews(views, at_write(number, crash), backwards), server, limit)
            run_all(log, views, server, restart_limit)
            assert all_records(views, server) == records


def test_object_keeps_all_sessions_when_archived(log: Log, views: Views, store: str, servers: Iterator[int]) -> None:
    for limit in (1, 150, 1000) if store == "sqlite" else (200,):
        server = next(servers)
        fill(log, server, archiving_commits(2 * MAX_RECENT_SESSIONS + 40))
        run_all(log, views, server, limit)
        assert_exact(log, views, server)
        checkpoint = load_checkpoint(PROJECTOR, server, views)
        frequent, order = (
            chain(views, checkpoint, ref) for ref in (ObjectRef(KEYED, "/frequent"), ObjectRef("order", "/c,1"))
        )
        assert all(len(sessions) <= MAX_RECENT_SESSIONS + limit for sessions in (*frequent, *order))
        archived = list(views.range(checkpoint.view_name(SESSIONS_VIEW), "", MAX_CHARACTER))
        assert len(archived) == len(frequent) - 1 + len(order) - 1 >= 2


@pytest.mark.parametrize("restart_limit", [150, 40, 700], ids=["the same commits", "fewer", "more"])
def test_crash_while_archiving_sessions_loses_none(log: Log, sqlite_views: Views, restart_limit: int) -> None:
    fill(log, 99, archiving_commits(MAX_RECENT_SESSIONS + 300))
    moves = [
        n
        for n, change in enumerate(record_writes(log, sqlite_views, 99, 150))
        if change.record.view.endswith(SESSIONS_VIEW)
    ]
    assert len(moves) > 1
    for server, number in enumerate([n + after for n in moves for after in (0, 1, 2)], start=100):
        fill(log, server, archiving_commits(MAX_RECENT_SESSIONS + 300))
        with pytest.raises(Crash):
            run_all(log, InterceptedViews(sqlite_views, at_write(number, crash)), server, 150)
        run_all(log, sqlite_views, server, restart_limit)
        assert_exact(log, sqlite_views, server)


@pytest.mark.parametrize("odd", ODD_EVENTS)
def test_projector_handles_odd_events(log: Log, moto_views: Views, odd: str) -> None:
    for server, limit in ((1, 1 if len(ODD_EVENTS[odd]) < 10 else 100), (2, 200)):
        fill(log, server, [(1_000, [event]) for event in ODD_EVENTS[odd]])
        run_all(log, moto_views, server, limit)
    assert_exact(log, moto_views, 1)
    assert all_records(moto_views, 1) == all_records(moto_views, 2)
