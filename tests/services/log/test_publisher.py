"""Publishing: the one way for events to get into a log."""

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import ConditionFailed, TooLarge
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import MOST_EVENTS
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.services.log.group_commit import GroupCommit
from chalicelib.services.log.publisher import Publish
from tests.services.worlds import NOW, World, keys, no_match, text


def unheard(commit: Commit) -> None:
    """Nobody listens."""


AN_EVENT = NewEvent(type=("job", "start"), key="/1")


@pytest.fixture
def publish(log: SqliteLog, world: World) -> Publish:
    return Publish(log, GroupCommit(world.appender(log), unheard).submit, lambda: "request")


def test_events_become_a_commit(publish: Publish) -> None:
    assert publish(1, [AN_EVENT]).result() == Appended(Commit(1, 1, NOW, 1, 0, "request", f"[{text('/1')}]"))


def test_no_events_are_answered_with_the_head_and_use_no_session(publish: Publish, log: SqliteLog) -> None:
    assert publish(1, []).result() == Head(1)
    publish(1, [AN_EVENT]).result()
    assert publish(1, [], no_match("/1"), "k").result() == Head(1, 1, 1, NOW)
    assert (log.head(1).session, log.receipt(1, "k", 0)) == (1, None)


def test_condition_and_key_go_with_the_events(publish: Publish, log: SqliteLog) -> None:
    first = publish(1, [AN_EVENT], no_match("/1"), "k").result()
    assert isinstance(first, Appended)
    assert publish(1, [AN_EVENT], no_match("/1"), "k").result() == Appended(first.commit, replayed=True)
    with pytest.raises(ConditionFailed):
        publish(1, [AN_EVENT], no_match("/1")).result()
    assert keys(log) == [(1, "/1")]


def test_what_is_beyond_a_limit_is_refused_whole(publish: Publish, log: SqliteLog) -> None:
    with pytest.raises(TooLarge):
        publish(1, [AN_EVENT] * (MOST_EVENTS + 1)).result()
    assert keys(log) == []
