"""Conditions on tags hold when several writers, each with its own view of the log, compete."""

import random
import threading
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import ConditionFailed
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import Append, AppendCondition, encode_within_limits
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.queries.event_filter import AnySelection, Selection
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.log.appender import Appender
from chalicelib.services.reading.log_reader import LogReader
from tests.services.fakes import NOW_MS, OvertakenLog, World
from tests.services.log.test_group_commit import TIMEOUT_S, DaemonThreads

SERVER = 1
SEATS = 60
WRITERS = 4
TAKEN, ENDED = ("seat", "taken"), ("show", "ended")


def take(seat: int, request_id: str) -> Append:
    """Take a seat, unless it is taken or the show has ended."""
    tags = ("show:1", f"seat:{seat}")
    items = (Selection(types=(TAKEN,), tags=tags), Selection(types=(ENDED,), tags=("show:1",)))
    texts = encode_within_limits([NewEvent(type=TAKEN, tags=tags)])
    condition = AppendCondition(fail_if_events_match=AnySelection(items=items))
    return Append(SERVER, texts, request_id, condition)


def end_show(request_id: str) -> Append:
    return Append(SERVER, encode_within_limits([NewEvent(type=ENDED, tags=("show:1",))]), request_id)


@pytest.mark.parametrize(
    ("theirs", "is_written"),
    [(take(1, "theirs"), False), (end_show("theirs"), False), (take(2, "theirs"), True)],
    ids=["the same seat", "the end of the show", "another seat"],
)
def test_condition_by_tags_sees_event_of_faster_writer(
    theirs: Append, is_written: bool, database: Database, world: World
) -> None:
    log = OvertakenLog(database, lambda: world.appender(SqliteLog(database)).append(theirs))
    appender = world.appender(log)
    outcomes = appender.append_group([appender.precheck(take(1, "ours"))])
    assert isinstance(outcomes[0], Appended) is is_written


def test_conditions_by_tags_hold_among_concurrent_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chalicelib.services.reading.log_reader.SCAN_THRESHOLD", 8)
    monkeypatch.setattr("chalicelib.domain.views.object_view.MAX_RECENT_SESSIONS", 5)
    database = Database(tmp_path / "log.sqlite", durable=False)
    views_database = Database(tmp_path / "views.sqlite", SCHEMA, durable=False)
    log, views = SqliteLog(database), SqliteViews(views_database)
    is_stopped, request_numbers = threading.Event(), count()

    def project() -> None:
        while not is_stopped.is_set():
            run_once(projector(views), SERVER, log, views, 7)

    def write(writer: int) -> Counter[str]:
        appender = Appender(log, lambda: NOW_MS, reader=LogReader(log, views))
        outcomes: Counter[str] = Counter()
        seats = [*range(SEATS), *range(SEATS)]
        random.Random(writer).shuffle(seats)
        for number, seat in enumerate(seats):
            if writer == 0 and number == 10:
                appender.append(end_show("end"))
            try:
                appender.append(take(seat, f"{writer}.{next(request_numbers)}"))
            except ConditionFailed:
                outcomes["refused"] += 1
            else:
                outcomes["written"] += 1
        return outcomes

    with DaemonThreads() as pool:
        projecting = pool.submit(project)
        writers = [pool.submit(write, writer) for writer in range(WRITERS)]
        outcomes = [writer.result(TIMEOUT_S) for writer in writers]
        is_stopped.set()
        projecting.result(TIMEOUT_S)
    events = [event.fields for commit in log.read(SERVER, 0) for event in commit.events]
    database.close()
    views_database.close()
    taken = [fields.tags for fields in events if fields.type == TAKEN]
    assert len(taken) == len(set(taken)) == sum(outcome["written"] for outcome in outcomes)
    assert events[-1].type == ENDED
    assert all(outcome["refused"] for outcome in outcomes)
