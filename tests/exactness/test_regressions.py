"""Minimal cases of reads that were once not exact."""

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
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectSelection, Selection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.domain.vocabularies import SCHEDULER_VOCABULARY
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.feeds.notifiers import CommitNotifier
from chalicelib.services.log.appender import Appender
from chalicelib.services.objects.snapshots import snapshot, state_at
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.scan import EventFormatter
from chalicelib.services.reading.timeseries import timeseries
from tests.exactness.model import LogModel, is_selected
from tests.exactness.stores import CallOnce, CountingLog, Crash, InterceptedViews, RecordingViews

SERVER = 1
EVERYTHING = PathQuery.parse("/")
ORDER_ADDED = SCHEDULER_VOCABULARY.new_event({"TYPE": "OrderAdded", "key": "/chain,1", "nodeId": "1"})
ORDER_SUSPENDED = SCHEDULER_VOCABULARY.new_event({"TYPE": "OrderSuspended", "key": "/chain,1"})


class Installation:
    """A log, its views, and a model of the log."""

    def __init__(self, log: SqliteLog, views: SqliteViews) -> None:
        self.log, self.views, self.model = log, views, LogModel(SERVER)
        self._requests = count()
        self._appender = Appender(log, lambda: 1_700_000_000_000)

    def append(self, *events: NewEvent) -> None:
        request_id = f"request {next(self._requests)}"
        self.model.add(self._appender.append(Append(SERVER, encode_within_limits(events), request_id)).commit)

    def project(self) -> None:
        catch_up(projector(self.views), SERVER, self.log, self.views)

    def rebuild(self) -> None:
        rebuild(SERVER, self.log, self.views, _progress)

    def reader(self, hook: Callable[[], None] = lambda: None) -> LogReader:
        return LogReader(CountingLog(self.log, hook), RecordingViews(self.views, Counter(), hook))

    def check_order(self) -> None:
        """Compare the state, the past states and the events of the order with the model."""
        ref, last_event_id = ObjectRef("order", "/chain,1"), self.model.last_event_id
        result = snapshot(self.reader(), SERVER, "order", EVERYTHING)
        assert result.states == self.model.snapshot("order", EVERYTHING, last_event_id)
        assert state_at(self.reader(), SERVER, ref, last_event_id) == self.model.state(ref, last_event_id)
        selection = Selection(keys=("/chain,1",))
        commits = self.reader().commits_before(self.log.head(SERVER), selection)
        assert [commit.session for commit in commits] == [commit.session for commit in reversed(self.model.commits)]

    def feed(self, selection: Selection, formatter: EventFormatter | None = None) -> list[str]:
        query = FeedQuery(SERVER, selection, formatter=formatter)
        seq = long_poll_blocking(query, self.reader(), CommitNotifier(), Retention(self.log, lambda: 0))
        return seq.texts if isinstance(seq, NonEmpty) else []


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    monkeypatch.setattr("chalicelib.services.reading.log_reader.SCAN_THRESHOLD", 1)
    monkeypatch.setattr("chalicelib.services.reading.log_reader.MAX_SEARCH_DISTANCE", 1)
    monkeypatch.setattr("chalicelib.domain.views.object_view.MAX_RECENT_SESSIONS", 1)
    log = Database(tmp_path / "log.sqlite", durable=False)
    views = Database(tmp_path / "views.sqlite", SCHEMA, durable=False)
    yield Installation(SqliteLog(log), SqliteViews(views))
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
def test_feed_by_key_finds_event_with_unusual_key(installation: Installation, event_type: str, key: str) -> None:
    event = NewEvent(type=tuple(event_type.split("/")), key=key)
    _append_and_project(installation, event)
    assert installation.feed(Selection(keys=(key,))) == [installation.model.events[0].wire_text]


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
def test_feed_by_path_is_same_with_and_without_views(
    installation: Installation, collection: str, event_type: str, key: str, path: str
) -> None:
    _append_and_project(installation, NewEvent(type=("scheduler", *event_type.split("/")), key=key))
    selection = ObjectSelection(collection=collection, query=PathQuery.parse(path))
    assert installation.feed(selection) == [
        event.wire_text for event in installation.model.events if is_selected(event, selection)
    ]


@pytest.mark.parametrize("projected", [True, False])
def test_state_is_same_whether_stored_or_not(installation: Installation, projected: bool) -> None:
    node = {"type": "json", "data": {"nodeId": 5, "action": "stop"}}
    event_type = ("scheduler", "JobChainEvent", "JobChainNodeActionChanged")
    installation.append(NewEvent.model_validate({"type": event_type, "key": "/chain", "payload": node}))
    if projected:
        installation.project()
    expected = installation.model.snapshot("jobChain", EVERYTHING, installation.model.last_event_id)
    assert snapshot(installation.reader(), SERVER, "jobChain", EVERYTHING).states == expected


@pytest.mark.parametrize("use_number", range(1, 12))
def test_read_of_sessions_deleted_by_rebuild_is_repeated(installation: Installation, use_number: int) -> None:
    for _ in range(5):
        installation.append(ORDER_ADDED)
        installation.project()
    ref = ObjectRef("order", "/chain,1")
    result = state_at(
        installation.reader(CallOnce(use_number, installation.rebuild)), SERVER, ref, installation.model.last_event_id
    )
    assert result == installation.model.state(ref, installation.model.last_event_id)


def test_projector_handles_key_without_object(installation: Installation) -> None:
    custom = SCHEDULER_VOCABULARY.new_event({"TYPE": "VariablesCustomEvent", "key": "k", "variables": {"a": "b"}})
    _append_and_project(installation, custom)
    assert installation.feed(Selection(keys=("k",))) == [installation.model.events[0].wire_text]


@pytest.mark.parametrize("write_number", range(1, 45))
def test_rebuild_overtaken_by_other_rebuild_is_exact(installation: Installation, write_number: int) -> None:
    installation.append(ORDER_ADDED)
    installation.append(ORDER_SUSPENDED)
    installation.project()
    rebuild(
        SERVER,
        installation.log,
        InterceptedViews(installation.views, Counter(), CallOnce(write_number, installation.rebuild)),
        _progress,
    )
    installation.check_order()


@pytest.mark.parametrize("write_number", range(8, 26, 3))
@pytest.mark.parametrize("crash_at", range(2, 22, 4))
def test_rebuild_during_crashing_rebuild_is_exact(installation: Installation, write_number: int, crash_at: int) -> None:
    """The other rebuild deletes records that this one has written so far, and then crashes."""

    def begin_other_rebuild() -> None:
        with suppress(Crash):
            rebuild(
                SERVER,
                installation.log,
                InterceptedViews(installation.views, Counter(), CallOnce(crash_at, _crash)),
                _progress,
            )

    def progress(done: int, _all: int) -> None:
        if done == 1:
            installation.append(ORDER_SUSPENDED)

    installation.append(ORDER_ADDED)
    rebuild(
        SERVER,
        installation.log,
        InterceptedViews(installation.views, Counter(), CallOnce(write_number, begin_other_rebuild)),
        progress,
    )
    installation.check_order()


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("use_number", range(1, 6))
def test_timeseries_contains_no_event_after_its_event_id(
    installation: Installation, use_number: int, descending: bool
) -> None:
    """Otherwise a client that continues after the EventId gets an event twice."""
    installation.append(NewEvent(type=("a",)))
    reader = installation.reader(CallOnce(use_number, lambda: installation.append(NewEvent(type=("a",)))))
    query = TimeseriesQuery(Selection(), descending=descending)
    page = timeseries(query, [SERVER], reader, Retention(installation.log, lambda: 0), 100)
    assert [id_ for id_ in map(_event_id, page.texts) if id_ > page.event_id] == []


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
def test_feed_handles_events_that_violate_vocabulary(installation: Installation, event: dict[str, object]) -> None:
    installation.append(NewEvent.model_validate(event))
    installation.append(ORDER_ADDED)
    texts = installation.feed(Selection(types=(("scheduler", "*"),)), vocabularies.native_text)
    assert [_event_id(text) for text in texts] == [event.event_id for event in installation.model.events]


class OtherProcessNotifier:
    """While a reader waits, another process writes a selected event, then this process publishes a later commit."""

    def __init__(self, installation: Installation) -> None:
        self._world = installation
        self._commit_notifier = CommitNotifier()
        self.elapsed_s = 0.0

    def wait(self, head: Head, selection: Selection, timeout_s: float, attempt: int) -> Head | None:
        self._commit_notifier.publish(self._world.model.commits[-1])
        self._world.append(NewEvent(type=("wanted",)))
        self._world.append(NewEvent(type=("other",)))
        self._commit_notifier.publish(self._world.model.commits[-1])
        known_head = self._commit_notifier.wait(head, selection, 0.0, attempt)
        self.elapsed_s += timeout_s
        return known_head

    def close(self) -> None:
        """Nothing to release."""


def test_long_poll_finds_event_of_other_process(installation: Installation) -> None:
    """The same holds for a commit of this process whose response was lost: it was never published."""
    installation.append(NewEvent(type=("other",)))
    notifier = OtherProcessNotifier(installation)
    query = FeedQuery(SERVER, Selection(types=(("wanted",),)), after=installation.model.last_event_id, timeout_s=1.0)
    seq = long_poll_blocking(
        query, installation.reader(), notifier, Retention(installation.log, lambda: 0), lambda: notifier.elapsed_s
    )
    assert isinstance(seq, NonEmpty)
    assert seq.texts == [installation.model.events[1].wire_text]


def _progress(done: int, all_: int) -> None:
    del done, all_


def _crash() -> None:
    raise Crash


def _append_and_project(installation: Installation, event: NewEvent) -> None:
    """Append the event and others after it, so that reads use the views, and project all of them."""
    installation.append(event)
    for _ in range(4):
        installation.append(NewEvent(type=("a",)))
    installation.project()


def _event_id(text: str) -> int:
    event_id: int = from_json(text)["eventId"]
    return event_id
