"""Damaged view records: the views of their log are rebuilt, and no answer is false meanwhile."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import DamagedRecord
from chalicelib.domain.objects.ref import KEYED
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import PROJECTOR, ConditionalWrite, Record, checkpoints_view, objects_view
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import Consumer, catch_up
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.log_reader import LogReader
from tests.adapters.aws.transports import RecordingClient
from tests.services.fakes import World, append

Damage = Callable[[str, str], None]
"""Changes the data of a stored record, but not its checksum."""


@pytest.fixture
def sqlite_store(sqlite_log: SqliteLog, sqlite_views: SqliteViews, tmp_path: Path) -> tuple[Log, Views, Damage]:
    def damage(view: str, item: str) -> None:
        connection = apsw.Connection(str(tmp_path / "views.sqlite"))
        connection.execute("UPDATE record SET data = replace(data, '1', '7') WHERE view = ? AND item = ?", (view, item))
        assert connection.changes() == 1
        connection.close()

    return sqlite_log, sqlite_views, damage


@pytest.fixture
def moto_store(moto_log: DynamoLog, moto_views: DynamoViews, moto_tables: RecordingClient) -> tuple[Log, Views, Damage]:
    def damage(view: str, item: str) -> None:
        key = {"view": {"S": view}, "item": {"S": item}}
        stored = moto_tables.call("GetItem", {"TableName": "views", "Key": key})["Item"]
        stored["data"]["S"] = stored["data"]["S"].replace("1", "7")
        moto_tables.call("PutItem", {"TableName": "views", "Item": stored})

    return moto_log, moto_views, damage


@pytest.fixture(params=["sqlite", "moto"], name="store")
def each_store(request: pytest.FixtureRequest) -> tuple[Log, Views, Damage]:
    store: tuple[Log, Views, Damage] = request.getfixturevalue(f"{request.param}_store")
    return store


def read_events(log: Log, views: Views) -> list[int]:
    """The EventIds of a job, found by its record."""
    selection = Selection(keys=("/job/1",))
    commits = LogReader(log, views).commits_before(log.head(1), selection)
    return [event.event_id for commit in commits for event in commit.events if selection.selects(event)]


def fill(log: Log, views: Views, world: World) -> list[int]:
    """Append events and project them. Returns the answer to expect."""
    for _ in range(3):
        world.appender(log).append(append("/job/1"))
        world.appender(log).append(append("/job/2"))
    catch_up(projector(views), 1, log, views)
    expected = read_events(log, views)
    assert len(expected) == 3
    return expected


def test_damaged_record_is_rebuilt_by_the_next_read(store: tuple[Log, Views, Damage], world: World) -> None:
    log, views, damage = store
    expected = fill(log, views, world)
    damage(load_checkpoint(PROJECTOR, 1, views).view_name(objects_view(KEYED)), "/job/1")
    assert read_events(log, views) == expected
    assert load_checkpoint(PROJECTOR, 1, views).head.session == 0
    catch_up(projector(views), 1, log, views)
    assert load_checkpoint(PROJECTOR, 1, views).head.session == 6
    assert read_events(log, views) == expected


def test_damaged_record_is_rebuilt_by_the_projector(store: tuple[Log, Views, Damage], world: World) -> None:
    log, views, damage = store
    fill(log, views, world)
    damage(load_checkpoint(PROJECTOR, 1, views).view_name(objects_view(KEYED)), "/job/1")
    world.appender(log).append(append("/job/1"))
    for _ in range(2):
        catch_up(projector(views), 1, log, views)
    assert load_checkpoint(PROJECTOR, 1, views).head.session == 7
    assert len(read_events(log, views)) == 4


def test_damaged_checkpoint_starts_new_views(store: tuple[Log, Views, Damage], world: World) -> None:
    log, views, damage = store
    expected = fill(log, views, world)
    old = load_checkpoint(PROJECTOR, 1, views).view_name(objects_view(KEYED))
    damage(checkpoints_view(1), PROJECTOR)
    assert read_events(log, views) == expected
    catch_up(projector(views), 1, log, views)
    assert read_events(log, views) == expected
    # Other processes remember the old checkpoint for a minute, so its views must still exist.
    rebuild(1, log, views, lambda *_: None)
    assert views.get(old, ["/job/1"])


def test_damaged_checkpoint_of_observers_is_an_error(store: tuple[Log, Views, Damage], world: World) -> None:
    """Starting over would notify again of all events."""
    log, views, damage = store
    fill(log, views, world)
    consumer = Consumer("observe", lambda _checkpoint, _commits: None)
    catch_up(consumer, 1, log, views)
    damage(checkpoints_view(1), "observe")
    with pytest.raises(DamagedRecord, match="record 'observe' of view '1/checkpoint' is damaged"):
        catch_up(consumer, 1, log, views)


def test_record_of_first_release_is_read(moto_views: DynamoViews, moto_tables: RecordingClient) -> None:
    item = {"view": {"S": "v"}, "item": {"S": "/a"}, "to": {"N": "1"}, "data": {"S": "{}"}}
    moto_tables.call("PutItem", {"TableName": "views", "Item": item})
    assert moto_views.get("v", ["/a"]) == {"/a": Record("v", "/a", 1, "{}")}
    assert moto_views.put([ConditionalWrite(Record("v", "/a", 2, "{}"), 1)]) == []
