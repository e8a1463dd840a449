"""A run of the projector that has begun to write is repeated with the same commits, whatever the next limits are."""

from collections.abc import Sequence
from itertools import count

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain import vocabularies
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import PROJECTOR, RUNS_VIEW, Checkpoint, ConditionalWrite, Record, objects_view
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import RunSizes, catch_up, run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.consumers.run_claims import RunClaim, RunTaken, load_claim, put_claim
from tests.services.consumers.sample_events import Text, fill, sample_commits
from tests.services.consumers.view_checks import (
    Crash,
    InterceptedViews,
    assert_exact,
    current_entries,
    run_all,
)

SERVER = 1
MANY_OBJECTS: Sequence[tuple[int, Sequence[Text]]] = [(1, [(("a", "b"), f"/{n}", None)]) for n in range(60)]
"""Commits with an object each."""


def is_of_objects(view: str) -> bool:
    return f"/{objects_view('')}" in view


def interrupt_run(log: SqliteLog, views: SqliteViews, commits: int) -> None:
    """Let a projector crash when it has claimed its run and written a few objects."""
    written_objects = count()

    def crash_at_third_object(change: ConditionalWrite | None) -> None:
        if change is not None and is_of_objects(change.record.view) and next(written_objects) == 2:
            raise Crash

    crashing_views = InterceptedViews(views, crash_at_third_object)
    with pytest.raises(Crash):
        run_once(projector(crashing_views), SERVER, log, crashing_views, commits)


@pytest.mark.parametrize("limit", [1, 5, 20])
def test_interrupted_run_is_repeated_whatever_the_limit(log: SqliteLog, sqlite_views: SqliteViews, limit: int) -> None:
    fill(log, SERVER, sample_commits(20))
    interrupt_run(log, sqlite_views, 5)
    assert run_once(projector(sqlite_views), SERVER, log, sqlite_views, limit) == 5
    run_all(log, sqlite_views, SERVER, limit)
    assert_exact(log, sqlite_views, SERVER)


def test_interrupted_run_includes_expired_commits(log: SqliteLog, sqlite_views: SqliteViews) -> None:
    commits = fill(log, SERVER, sample_commits(20))
    interrupt_run(log, sqlite_views, 5)
    catch_up(projector(sqlite_views), SERVER, log, sqlite_views, retention_head=commits[2].head)
    assert_exact(log, sqlite_views, SERVER)


def test_interrupted_run_without_its_commits_starts_over(log: SqliteLog, sqlite_views: SqliteViews) -> None:
    """The records of the interrupted run stay incomplete, so the views start empty after the deleted commits."""
    fill(log, SERVER, sample_commits(20))
    interrupt_run(log, sqlite_views, 5)
    log.delete_up_to(SERVER, 3)
    start = log.start(SERVER)
    catch_up(projector(sqlite_views), SERVER, log, sqlite_views, retention_head=start)
    checkpoint = load_checkpoint(PROJECTOR, SERVER, sqlite_views)
    assert (checkpoint.generation, checkpoint.head) == (2, log.head(SERVER))
    sessions = [
        entry.session
        for collection in vocabularies.collections()
        for entry in current_entries(sqlite_views, SERVER, collection)
    ]
    assert sessions
    assert min(sessions) > start.session


def test_only_one_of_two_claims_is_stored(sqlite_views: SqliteViews) -> None:
    checkpoint = Checkpoint(Head(SERVER))
    last = load_claim(checkpoint, sqlite_views)
    first, second = (RunClaim(Head(SERVER), end, last.record_version) for end in (5, 9))
    put_claim(checkpoint, first, sqlite_views)
    with pytest.raises(RunTaken):
        put_claim(checkpoint, second, sqlite_views)
    assert load_claim(checkpoint, sqlite_views).end == 5


def test_claim_with_later_checkpoint_does_not_reset_views(log: SqliteLog, sqlite_views: SqliteViews) -> None:
    """Between the checkpoint and the claim, another process completes a run and claims the next one."""
    fill(log, SERVER, sample_commits(20))
    run_once(projector(sqlite_views), SERVER, log, sqlite_views, 5)

    class OvertakenViews(InterceptedViews):
        is_overtaken = False

        def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
            if view.endswith(f"/{RUNS_VIEW}") and not self.is_overtaken:
                self.is_overtaken = True
                run_once(projector(sqlite_views), SERVER, log, sqlite_views, 5)
                interrupt_run(log, sqlite_views, 5)
            return super().get(view, items)

    views = OvertakenViews(sqlite_views, lambda _: None)
    run_once(projector(views), SERVER, log, views, 5)
    checkpoint = load_checkpoint(PROJECTOR, SERVER, sqlite_views)
    assert (checkpoint.generation, checkpoint.head.session) == (1, 15)
    run_all(log, sqlite_views, SERVER, 5)
    assert_exact(log, sqlite_views, SERVER)


class SlowViews(InterceptedViews):
    """Views that time out after a number of read objects and written records."""

    def __init__(self, views: SqliteViews, max_objects: int, max_writes: int) -> None:
        super().__init__(views, self._count_write)
        self.max_objects = max_objects
        self.max_writes = max_writes
        self.runs: list[int] = []
        """The last session of each run that has begun to write objects."""
        self._objects = self._writes = 0

    def restart(self) -> None:
        self._objects = self._writes = 0

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        if is_of_objects(view):
            self._objects += len(items)
            if self._objects > self.max_objects:
                raise Unavailable("the time is used up")
        return super().get(view, items)

    def _count_write(self, change: ConditionalWrite | None) -> None:
        self._writes += 1
        if self._writes > self.max_writes:
            raise Unavailable("the time is used up")
        if change is not None and change.record.view.endswith(f"/{RUNS_VIEW}"):
            self.runs.append(change.record.version)

    def invoke_until_done(self, log: SqliteLog) -> int:
        """Invoke a function with one run each, until it has caught up. Returns the number of invocations."""
        sizes = RunSizes()
        for invocation in range(1, 50):
            self.restart()
            try:
                if catch_up(projector(self), SERVER, log, self, has_time=lambda: False, sizes=sizes):
                    return invocation
            except Unavailable:
                continue
        raise AssertionError("it makes no progress")


def test_run_that_times_out_before_it_writes_objects_is_halved(log: SqliteLog, sqlite_views: SqliteViews) -> None:
    fill(log, SERVER, MANY_OBJECTS)
    views = SlowViews(sqlite_views, max_objects=8, max_writes=10_000)
    views.invoke_until_done(log)
    assert views.runs[0] == 200 // 2**5
    assert_exact(log, sqlite_views, SERVER)


def test_run_that_times_out_while_it_writes_is_continued(log: SqliteLog, sqlite_views: SqliteViews) -> None:
    fill(log, SERVER, MANY_OBJECTS)
    views = SlowViews(sqlite_views, max_objects=10_000, max_writes=25)
    invocations = views.invoke_until_done(log)
    assert (views.runs, invocations > 2) == ([60], True)
    assert_exact(log, sqlite_views, SERVER)


@pytest.mark.parametrize(("limit", "other_limit"), [(5, 20), (20, 5), (5, 5)])
def test_run_that_another_process_claims_first_is_repeated(
    log: SqliteLog, sqlite_views: SqliteViews, limit: int, other_limit: int
) -> None:
    """While a run loads its objects, another process claims one of another length and crashes."""
    fill(log, SERVER, sample_commits(20))

    class OvertakenViews(InterceptedViews):
        is_overtaken = False

        def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
            if is_of_objects(view) and not self.is_overtaken:
                self.is_overtaken = True
                interrupt_run(log, sqlite_views, other_limit)
            return super().get(view, items)

    views = OvertakenViews(sqlite_views, lambda _: None)
    assert run_once(projector(views), SERVER, log, views, limit) == other_limit
    run_all(log, sqlite_views, SERVER, limit)
    assert_exact(log, sqlite_views, SERVER)
