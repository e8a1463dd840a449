"""Snapshots of objects while the views lag or are ahead of their checkpoint."""

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.views.record import PROJECTOR
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.domain.vocabularies.push.events import PUSH_JOB
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.projector import projector
from chalicelib.services.objects.snapshots import object_snapshot, past_snapshot
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary
from tests.conformance.anyjob.anyjob import create, progress
from tests.services.fakes import World
from tests.services.feeds.push_log import PushLog


def test_past_snapshot_with_views_ahead_counts_events_once(
    log: SqliteLog, sqlite_views: SqliteViews, world: World
) -> None:
    """The projector has updated the object, but has not saved its checkpoint yet."""
    appender = world.appender(log)
    commits = [
        appender.append(Append(1, encode_within_limits([JOB_VOCABULARY.new_event(native)]), f"{n}")).commit
        for n, native in enumerate((create(1), *[progress(1, log={"message": "a line"})] * 3))
    ]
    projector(sqlite_views).handle(load_checkpoint(PROJECTOR, 1, sqlite_views), commits[:3], lambda: None)
    reader, kept = LogReader(log, sqlite_views), RetentionBoundary(Head(1), 0)
    states = [past_snapshot(reader, 1, ObjectRef("job", "/1"), at.last_event_id, kept) for at in commits]
    assert [(state.event_id, state.state_of("/1")["logCount"]) for state in states] == [
        (commit.last_event_id, lines) for lines, commit in enumerate(commits)
    ]


def test_object_snapshot_is_the_same_after_first_events_expired(
    log: SqliteLog, sqlite_views: SqliteViews, world: World
) -> None:
    """The stored state is complete. The remaining events alone would give another one."""
    pushes = PushLog(log, sqlite_views, world)
    for text in ("start 1", "quorum_vote n1 success", "quorum_succeeded"):
        pushes.publish(text)
    pushes.project()
    reader, job = LogReader(log, sqlite_views), ObjectRef(PUSH_JOB, "/j1")
    before = object_snapshot(reader, 1, job)
    assert log.delete_up_to(1, 2) == 2
    assert object_snapshot(reader, 1, job) == before
    boundary = RetentionBoundary(log.start(1), log.start(1).last_event_id)
    assert past_snapshot(reader, 1, job, before.event_id, boundary).states == before.states
    with pytest.raises(NotFound, match="its first events are no longer kept"):
        past_snapshot(reader, 1, job, before.event_id - 1, boundary)
