"""An interrupted run of the projector is repeated with the same commits, whatever the limits of the next process."""

from collections.abc import Sequence

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain import vocabularies
from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import PROJECTOR, RUNS_VIEW, Checkpoint, Record
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import catch_up, run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.consumers.run_claims import RunClaim, load_claim, put_claim
from tests.services.consumers.sample_events import fill, sample_commits
from tests.services.consumers.view_checks import (
    Crash,
    InterceptedViews,
    assert_exact,
    at_write,
    crash,
    current_entries,
    run_all,
)

SERVER = 1


def interrupt_run(log: SqliteLog, views: SqliteViews, commits: int) -> None:
    """Let a projector crash after the first writes of its run."""
    crashing_views = InterceptedViews(views, at_write(7, crash))
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
    assert [put_claim(checkpoint, claim, sqlite_views) for claim in (first, second)] == [True, False]
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
