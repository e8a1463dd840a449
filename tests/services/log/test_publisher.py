"""The publisher appends the events of publishers to a log."""

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import ConditionFailed, TooLarge
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import MAX_EVENTS
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.services.log.direct_appends import DirectAppends
from chalicelib.services.log.group_commit import GroupCommit
from chalicelib.services.log.publisher import Publisher
from tests.services.fakes import NOW, World, keys, no_match, text


def ignore_commit(commit: Commit) -> None:
    """Notify no subscriber."""


AN_EVENT = NewEvent(type=("job", "start"), key="/1")


@pytest.fixture
def publisher(log: SqliteLog, world: World) -> Publisher:
    return Publisher(log, GroupCommit(world.appender(log), ignore_commit), lambda: "request")


def test_publish_writes_commit(publisher: Publisher) -> None:
    assert publisher.publish(1, [AN_EVENT]) == Appended(Commit(1, 1, NOW, 1, 0, "request", f"[{text('/1')}]", 0))


def test_publish_without_events_returns_head(publisher: Publisher, log: SqliteLog) -> None:
    assert publisher.publish(1, []) == Head(1)
    publisher.publish(1, [AN_EVENT])
    assert publisher.publish(1, [], no_match("/1"), "k") == Head(1, 1, 1, NOW)
    assert (log.head(1).session, log.receipt(1, "k")) == (1, None)


def test_publish_passes_condition_and_key(publisher: Publisher, log: SqliteLog) -> None:
    first = publisher.publish(1, [AN_EVENT], no_match("/1"), "k")
    assert isinstance(first, Appended)
    assert publisher.publish(1, [AN_EVENT], no_match("/1"), "k") == Appended(first.commit, replayed=True)
    with pytest.raises(ConditionFailed):
        publisher.publish(1, [AN_EVENT], no_match("/1"))
    assert keys(log) == [(1, "/1")]


def test_publish_of_too_many_events_writes_nothing(publisher: Publisher, log: SqliteLog) -> None:
    with pytest.raises(TooLarge):
        publisher.publish(1, [AN_EVENT] * (MAX_EVENTS + 1))
    assert keys(log) == []


def test_submit_to_direct_appends_is_written_at_once(log: SqliteLog, world: World) -> None:
    publisher = Publisher(log, DirectAppends(world.appender(log)), lambda: "request")
    assert publisher.submit(1, (text("/1"),)) == Appended(Commit(1, 1, NOW, 1, 0, "request", f"[{text('/1')}]", 0))
    assert keys(log) == [(1, "/1")]
