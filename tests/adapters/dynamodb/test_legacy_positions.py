"""Logs that version 0.1.0 wrote on DynamoDB: their commits have no positions, new commits continue the count."""

from random import Random

import pytest

from chalicelib.adapters.dynamodb.items import BEFORE, CRC, item_from_commit
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.domain.events.head import Head
from chalicelib.services.consumers.consumer import catch_up, run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.log.appender import COUNT_INTERVAL_S, Appender
from chalicelib.services.reading import log_reader
from chalicelib.services.reading.log_reader import LogReader
from tests.adapters.dynamodb.conftest import Tables
from tests.builders import NOW_S, a_commit, a_text, an_append
from tests.services.fakes import World


@pytest.fixture
def log(tables: Tables) -> DynamoLog:
    """Five commits of version 0.1.0 with two events each."""
    for session in range(1, 6):
        texts = (a_text("/1"), a_text("/2"))
        prev = 0 if session == 1 else (session - 1) * 1_000 + 1
        item = item_from_commit(a_commit(session, prev=prev, texts=texts))
        for name in (BEFORE, CRC):
            del item[name]
        tables.client.call("PutItem", {"TableName": tables.log, "Item": item})
    return DynamoLog(tables.client, tables.log, tables.views)


@pytest.mark.parametrize("projected", [0, 2, 5])
def test_first_commit_after_upgrade_counts_earlier_events(
    projected: int,
    log: DynamoLog,
    tables: Tables,
) -> None:
    views = DynamoViews(tables.client, tables.views, threads=1)
    if projected:
        run_once(projector(views), 1, log, views, projected)
    appender = Appender(log, lambda: NOW_S * 1000, reader=LogReader(log, views))
    appended = [appender.append(an_append(request_id=name)).commit for name in ("a", "b")]
    assert [commit.before for commit in appended] == [10, 11]
    catch_up(projector(views), 1, log, views)
    reader = LogReader(log, views)
    events = [event for commit in reader.tail(log.start(1)) for event in commit.events]
    assert [event.position for event in events] == [None] * 10 + [11, 12]
    assert reader.event_id_at(1, 11) == appended[0].at_us


def test_same_process_continues_count_once_views_have_it(
    log: DynamoLog, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the upgrade the views are empty, and a long log is not counted. A hub keeps its head for weeks."""
    monkeypatch.setattr(log_reader, "MAX_COUNTED_COMMITS", 2)
    views, world = DynamoViews(tables.client, tables.views, threads=1), World()
    appender = Appender(log, world.clock, monotonic=world.monotonic, reader=LogReader(log, views))
    befores = [appender.append(an_append(request_id=name)).commit.before for name in ("a", "b")]
    catch_up(projector(views), 1, log, views)
    befores.append(appender.append(an_append(request_id="c")).commit.before)
    world.pause(COUNT_INTERVAL_S)
    befores += [appender.append(an_append(request_id=name)).commit.before for name in ("d", "e")]
    assert befores == [None, None, None, 13, 14]
    catch_up(projector(views), 1, log, views)


def test_unknown_position_is_not_counted_for_each_append(
    log: DynamoLog, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting reads many commits. Other writers make the head outdated again and again."""
    monkeypatch.setattr(log_reader, "MAX_COUNTED_COMMITS", 2)
    views, world = DynamoViews(tables.client, tables.views, threads=1), World()
    counted: list[int] = []

    class CountingReader(LogReader):
        def count_events(self, head: Head) -> int | None:
            counted.append(head.session)
            return super().count_events(head)

    appenders = [
        Appender(log, world.clock, world.pause, lambda: 0.0, CountingReader(log, views), rng=Random(1))
        for _ in range(2)
    ]
    for number in range(10):
        appenders[number % 2].append(an_append(request_id=f"r{number}"))
    assert counted == [5, 6]
