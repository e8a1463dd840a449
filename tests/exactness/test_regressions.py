"""Reads that were not exact, each as small as it gets."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from pydantic_core import from_json

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectSelection, Selection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.domain.vocabularies import scheduler
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.feeds.feed import FeedQuery, follow
from chalicelib.services.feeds.notifiers import Bell
from chalicelib.services.log.appender import Appender
from chalicelib.services.objects.snapshots import snapshot, state_at
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.scan import Form
from chalicelib.services.reading.timeseries import timeseries
from tests.exactness.plain import Plain, is_selected
from tests.exactness.stores import Crash, Once, WatchedLog, WatchedViews, WrittenViews

SERVER = 1
EVERYTHING = PathQuery.of("/")
ORDER_ADDED = scheduler.new_event({"TYPE": "OrderAdded", "key": "/chain,1", "nodeId": "1"})
ORDER_SUSPENDED = scheduler.new_event({"TYPE": "OrderSuspended", "key": "/chain,1"})


class World:
    """A log, its views, and the list of what was written."""

    def __init__(self, log: SqliteLog, views: SqliteViews) -> None:
        self.log, self.views, self.of = log, views, Plain(SERVER)
        self._requests = count()
        self._appender = Appender(log, lambda: 1_700_000_000_000)

    def append(self, *events: NewEvent) -> None:
        request_id = f"request {next(self._requests)}"
        self.of.add(self._appender.append(Append(SERVER, encoded(events), request_id)).commit)

    def project(self) -> None:
        catch_up(projector(self.views), SERVER, self.log, self.views)

    def rebuild(self) -> None:
        rebuild(SERVER, self.log, self.views, _progress)

    def present(self, moment: Callable[[], None] = lambda: None) -> LogReader:
        return LogReader(WatchedLog(self.log, moment), WatchedViews(self.views, Counter(), moment))

    def check_order(self) -> None:
        """Its state, its past and its events are what the log says."""
        ref, last = ObjectRef("order", "/chain,1"), self.of.last
        found = snapshot(self.present(), SERVER, "order", EVERYTHING)
        assert found.states == self.of.snapshot("order", EVERYTHING, last)
        assert state_at(self.present(), SERVER, ref, last) == self.of.state(ref, last)
        selection = Selection(keys=("/chain,1",))
        back = self.present().back(self.log.head(SERVER), selection)
        assert [commit.session for commit in back] == [commit.session for commit in reversed(self.of.commits)]

    def feed(self, selection: Selection, form: Form | None = None) -> list[str]:
        query = FeedQuery(SERVER, selection, form=form)
        answer = follow(query, self.present(), Bell(), Retention(self.log, lambda: 0))
        return answer.wires if isinstance(answer, NonEmpty) else []


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("chalicelib.services.reading.log_reader.SCAN_THRESHOLD", 1)
    monkeypatch.setattr("chalicelib.domain.views.object_view.SESSIONS_AT_HAND", 1)
    log = Database(tmp_path / "log.sqlite", durable=False)
    views = Database(tmp_path / "views.sqlite", SCHEMA, durable=False)
    yield World(SqliteLog(log), SqliteViews(views))
    log.close()
    views.close()


@pytest.mark.parametrize(
    ("event_type", "key"),
    [
        ("scheduler/OrderEvent/OrderAdded", "Job:/job"),
        ("scheduler/JobEvent/JobUnstopped", "x:y"),
        ("scheduler/FileBasedEvent/FileBasedAdded", "/job"),
        ("scheduler/FileBasedEvent/FileBasedAdded", "/a:b"),
        ("scheduler/SchedulerEvent/SchedulerClosed", "/scheduler"),
        ("scheduler/CustomEvent/VariablesCustomEvent", "/a"),
    ],
)
def test_an_event_is_found_by_its_key_even_if_its_vocabulary_would_not_have_it(
    world: World, event_type: str, key: str
) -> None:
    event = NewEvent(type=tuple(event_type.split("/")), key=key)
    _write_apart(world, event)
    assert world.feed(Selection(keys=(key,))) == [world.of.events[0].wire]


@pytest.mark.parametrize(
    ("collection", "event_type", "key", "path"),
    [
        ("fileBased", "FileBasedEvent/FileBasedAdded", "Lock:/a/lock:1", "/a/lock:1"),
        ("fileBased", "FileBasedEvent/FileBasedAdded", "Lock:/a/lock:Job", "/a/lock:Job"),
        ("fileBased", "FileBasedEvent/FileBasedAdded", "Job:/job", "/job"),
        ("fileBased", "FileBasedEvent/FileBasedAdded", "Job:/job", "/job:Job"),
        ("task", "TaskEvent/TaskStarted", "/a:12:3", "/a:12"),
        ("task", "TaskEvent/TaskStarted", "/a/job:3", "/a/job:3"),
        ("task", "TaskEvent/TaskStarted", "/a/job:3", "/a/job"),
        ("order", "OrderEvent/OrderResumed", "/a,1,2", "/a"),
        ("order", "OrderEvent/OrderResumed", "/a,1,2", "/a,1"),
    ],
)
def test_a_path_means_the_same_events_with_views_and_without(
    world: World, collection: str, event_type: str, key: str, path: str
) -> None:
    _write_apart(world, NewEvent(type=("scheduler", *event_type.split("/")), key=key))
    selection = ObjectSelection(collection=collection, query=PathQuery.of(path))
    assert world.feed(selection) == [one.wire for one in world.of.events if is_selected(one, selection)]


@pytest.mark.parametrize("projected", [True, False])
def test_a_state_is_the_same_whether_it_was_stored_or_not(world: World, projected: bool) -> None:
    node = {"type": "json", "data": {"nodeId": 5, "action": "stop"}}
    event_type = ("scheduler", "JobChainEvent", "JobChainNodeActionChanged")
    world.append(NewEvent.model_validate({"type": event_type, "key": "/chain", "payload": node}))
    if projected:
        world.project()
    expected = world.of.snapshot("jobChain", EVERYTHING, world.of.last)
    assert snapshot(world.present(), SERVER, "jobChain", EVERYTHING).states == expected


@pytest.mark.parametrize("uses", range(1, 12))
def test_a_reader_of_sessions_that_a_rebuild_forgets_looks_again(world: World, uses: int) -> None:
    for _ in range(5):
        world.append(ORDER_ADDED)
        world.project()
    ref = ObjectRef("order", "/chain,1")
    found = state_at(world.present(Once(uses, world.rebuild)), SERVER, ref, world.of.last)
    assert found == world.of.state(ref, world.of.last)


def test_an_event_with_a_key_but_without_an_object_does_not_stop_the_projector(world: World) -> None:
    custom = scheduler.new_event({"TYPE": "VariablesCustomEvent", "key": "k", "variables": {"a": "b"}})
    _write_apart(world, custom)
    assert world.feed(Selection(keys=("k",))) == [world.of.events[0].wire]


@pytest.mark.parametrize("k", range(1, 45))
def test_a_rebuild_that_another_one_overtakes_spoils_no_views(world: World, k: int) -> None:
    world.append(ORDER_ADDED)
    world.append(ORDER_SUSPENDED)
    world.project()
    rebuild(SERVER, world.log, WrittenViews(world.views, Counter(), Once(k, world.rebuild)), _progress)
    world.check_order()


@pytest.mark.parametrize("k", range(8, 26, 3))
@pytest.mark.parametrize("other", range(2, 22, 4))
def test_a_rebuild_during_which_another_one_begins_spoils_no_views(world: World, k: int, other: int) -> None:
    """The other one forgets what this one has half written, and does not come to its end."""

    def begin() -> None:
        with suppress(Crash):
            rebuild(SERVER, world.log, WrittenViews(world.views, Counter(), Once(other, _crash)), _progress)

    def progress(done: int, _all: int) -> None:
        if done == 1:
            world.append(ORDER_SUSPENDED)

    world.append(ORDER_ADDED)
    rebuild(SERVER, world.log, WrittenViews(world.views, Counter(), Once(k, begin)), progress)
    world.check_order()


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("uses", range(1, 6))
def test_a_timeseries_holds_nothing_after_its_event_id(world: World, uses: int, descending: bool) -> None:
    """Else whoever follows after it gets an event twice."""
    world.append(NewEvent(type=("a",)))
    present = world.present(Once(uses, lambda: world.append(NewEvent(type=("a",)))))
    query = TimeseriesQuery(Selection(), descending=descending)
    page = timeseries(query, [SERVER], present, Retention(world.log, lambda: 0), 100)
    assert [id_ for id_ in map(_event_id, page.wires) if id_ > page.event_id] == []


@pytest.mark.parametrize(
    "event",
    [
        {"type": ["scheduler"], "key": "k"},
        {"type": ["scheduler", "OrderEvent", "x"], "payload": {"type": "json", "data": "text"}},
        {"type": ["scheduler", "OrderEvent", "x"], "payload": {"type": "json", "data": None}},
        {"type": ["scheduler", "OrderEvent", "x"], "payload": {"type": "json", "data": [1]}},
        {"type": ["scheduler", "OrderEvent", "x"], "payload": {"type": "binary", "name": "n", "data": "AAAA"}},
        {"type": ["scheduler", "OrderEvent", "x"], "payload": {"type": "json", "data": {"eventId": 1, "TYPE": "y"}}},
    ],
    ids=["no family", "text", "null", "list", "binary", "spoofed"],
)
def test_an_event_that_follows_no_vocabulary_does_not_stop_the_feed(world: World, event: dict[str, object]) -> None:
    world.append(NewEvent.model_validate(event))
    world.append(ORDER_ADDED)
    wires = world.feed(Selection(types=(("scheduler", "*"),)), vocabularies.own_text)
    assert [_event_id(wire) for wire in wires] == [one.event_id for one in world.of.events]


class Elsewhere:
    """While a reader waits, another process writes what it waits for, then this one something else, and rings."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bell = Bell()
        self.elapsed_s = 0.0

    def wait(self, seen: Head, selection: Selection, timeout_s: float, turn: int) -> Head | None:
        self._bell.ring(self._world.of.commits[-1])
        self._world.append(NewEvent(type=("wanted",)))
        self._world.append(NewEvent(type=("other",)))
        self._bell.ring(self._world.of.commits[-1])
        known = self._bell.wait(seen, selection, 0.0, turn)
        self.elapsed_s += timeout_s
        return known

    def close(self) -> None:
        """Nobody waits."""


def test_those_who_wait_do_not_skip_what_another_process_wrote(world: World) -> None:
    """Or what this one wrote without knowing it, after `Unavailable`: the bell has not heard of it."""
    world.append(NewEvent(type=("other",)))
    wake = Elsewhere(world)
    query = FeedQuery(SERVER, Selection(types=(("wanted",),)), after=world.of.last, timeout_s=1.0)
    answer = follow(query, world.present(), wake, Retention(world.log, lambda: 0), lambda: wake.elapsed_s)
    assert isinstance(answer, NonEmpty)
    assert answer.wires == [world.of.events[1].wire]


def _progress(done: int, all_: int) -> None:
    del done, all_


def _crash() -> None:
    raise Crash


def _write_apart(world: World, event: NewEvent) -> None:
    """The event, then others, so that it is looked up, all of them projected."""
    world.append(event)
    for _ in range(4):
        world.append(NewEvent(type=("a",)))
    world.project()


def _event_id(wire: str) -> int:
    event_id: int = from_json(wire)["eventId"]
    return event_id
