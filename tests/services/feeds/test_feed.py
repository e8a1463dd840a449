"""Feeds: polls and long polls with a fake clock."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.services.feeds.feed import FeedQuery, long_poll, long_poll_blocking
from chalicelib.services.feeds.suspension import run_without_waiting
from chalicelib.services.ports import Views
from chalicelib.services.reading import scan
from chalicelib.services.reading.log_reader import CommitRun, LogReader
from chalicelib.services.reading.no_views import NoViews
from chalicelib.services.reading.retention import Retention
from tests.services.fakes import NOW, NOW_MS, World, append, text

ALL = Selection()


class ScriptedNotifier:
    """A notifier that runs one step of the test per wait. Without further steps it lets the timeout pass."""

    def __init__(self, world: World, *steps: Callable[[], object]) -> None:
        self._world = world
        self._steps = list(steps)
        self.waits: list[tuple[int, int, float, int]] = []
        self.open = True

    def wait(self, head: Head, selection: Selection, timeout_s: float, attempt: int) -> Head | None:
        del selection
        self.waits.append((head.server, head.session, timeout_s, attempt))
        if self._steps:
            self._world.elapsed_s += 1.0
            self._steps.pop(0)()
        else:
            self._world.elapsed_s += timeout_s
        return head if self.open else None

    def close(self) -> None:
        self.open = False


class RecordingReader(LogReader):
    """Records where the reads with the help of views start."""

    def __init__(self, log: SqliteLog, views: Views) -> None:
        super().__init__(log, views)
        self.starts: list[int] = []

    def commits_after(
        self, start: Head, selection: Selection, limit: int | None = None, with_excerpts: bool = False
    ) -> CommitRun:
        self.starts.append(start.session)
        return super().commits_after(start, selection, limit, with_excerpts)


def poll(query: FeedQuery, log: SqliteLog, notifier: ScriptedNotifier, monotonic: Callable[[], float]) -> EventSeq:
    """Poll a log without any views."""
    with tempfile.TemporaryDirectory() as directory:
        database = Database(Path(directory) / "views.sqlite", SCHEMA, durable=False)
        seq = long_poll_blocking(
            query, LogReader(log, SqliteViews(database)), notifier, Retention(log, lambda: NOW_MS), monotonic
        )
        database.close()
    return seq


def keys_of(seq: EventSeq) -> list[str]:
    """Keys of the events in order."""
    return [json.loads(text)["key"] for text in seq.texts] if isinstance(seq, NonEmpty) else []


def only(*types: str, keys: list[str] | None = None) -> Selection:
    """A selection by type and key."""
    fields: dict[str, Any] = {"types": list(types) or None, "keys": keys}
    return Selection.model_validate(fields)


@pytest.fixture
def five_events(log: SqliteLog, world: World) -> SqliteLog:
    """Three commits with EventIds NOW to NOW + 4: /a /b, /c, /d /e."""
    appender = world.appender(log)
    for keys in (("/a", "/b"), ("/c",), ("/d", "/e")):
        appender.append(append(*keys))
    return log


@pytest.mark.parametrize(
    ("after", "limit", "keys", "event_id"),
    [
        (0, None, ["/a", "/b", "/c", "/d", "/e"], NOW + 4),
        (NOW - 1, None, ["/a", "/b", "/c", "/d", "/e"], NOW + 4),
        (NOW, None, ["/b", "/c", "/d", "/e"], NOW + 4),
        (NOW + 1, None, ["/c", "/d", "/e"], NOW + 4),
        (NOW + 3, None, ["/e"], NOW + 4),
        (0, 1, ["/a"], NOW),
        (0, 2, ["/a", "/b"], NOW + 1),
        (0, 3, ["/a", "/b", "/c"], NOW + 2),
        (0, 5, ["/a", "/b", "/c", "/d", "/e"], NOW + 4),
        (0, 99, ["/a", "/b", "/c", "/d", "/e"], NOW + 4),
        (NOW, 1, ["/b"], NOW + 1),
        (NOW, 2, ["/b", "/c"], NOW + 2),
        (NOW + 2, 1, ["/d"], NOW + 3),
        (NOW + 3, 1, ["/e"], NOW + 4),
        (0, -1, ["/e"], NOW + 4),
        (0, -2, ["/e", "/d"], NOW + 4),
        (0, -4, ["/e", "/d", "/c", "/b"], NOW + 4),
        (0, -99, ["/e", "/d", "/c", "/b", "/a"], NOW + 4),
        (NOW, -99, ["/e", "/d", "/c", "/b"], NOW + 4),
        (NOW + 3, -99, ["/e"], NOW + 4),
    ],
)
def test_poll_returns_events_after_position(
    after: int, limit: int | None, keys: list[str], event_id: int, five_events: SqliteLog, world: World
) -> None:
    notifier = ScriptedNotifier(world)
    seq = poll(FeedQuery(1, ALL, after, limit, timeout_s=60.0), five_events, notifier, world.monotonic)
    assert isinstance(seq, NonEmpty)
    assert (keys_of(seq), seq.event_id, notifier.waits) == (keys, event_id, [])


@pytest.mark.parametrize(
    ("selection", "limit", "keys", "event_id"),
    [
        (only(keys=["/b", "/d"]), None, ["/b", "/d"], NOW + 4),
        (only(keys=["/b", "/d"]), 1, ["/b"], NOW + 1),
        (only(keys=["/a", "/d"]), 1, ["/a"], NOW + 1),
        (only(keys=["/b", "/d"]), -1, ["/d"], NOW + 4),
        (only(keys=["/a", "/b"]), -9, ["/b", "/a"], NOW + 4),
        (only("job/*", keys=["/c"]), None, ["/c"], NOW + 4),
    ],
)
def test_poll_with_filter_returns_only_selected_events(
    selection: Selection, limit: int | None, keys: list[str], event_id: int, five_events: SqliteLog, world: World
) -> None:
    seq = poll(FeedQuery(1, selection, 0, limit), five_events, ScriptedNotifier(world), world.monotonic)
    assert isinstance(seq, NonEmpty)
    assert (keys_of(seq), seq.event_id) == (keys, event_id)


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
@pytest.mark.parametrize("selection", [ALL, only(keys=["/a", "/c", "/d"]), only(keys=["/b", "/e"])])
def test_poll_repeated_after_event_id_returns_each_event_once(
    selection: Selection, limit: int, five_events: SqliteLog, world: World
) -> None:
    expected = keys_of(poll(FeedQuery(1, selection), five_events, ScriptedNotifier(world), world.monotonic))
    keys, after = [], 0
    while isinstance(
        seq := poll(FeedQuery(1, selection, after, limit), five_events, ScriptedNotifier(world), world.monotonic),
        NonEmpty,
    ):
        keys += keys_of(seq)
        after = seq.event_id
    assert keys == expected


@pytest.mark.parametrize(
    ("selection", "after", "limit"),
    [
        (only(), NOW + 4, None),
        (only("x"), 0, None),
        (only("x"), NOW, None),
        (only("x"), 0, -3),
        (only("x"), 0, 3),
        (Selection(types=()), 0, None),
        (Selection(keys=frozenset()), 0, None),
    ],
)
def test_poll_without_match_returns_last_event_id(
    selection: Selection, after: int, limit: int | None, five_events: SqliteLog, world: World
) -> None:
    seq = poll(FeedQuery(1, selection, after, limit), five_events, ScriptedNotifier(world), world.monotonic)
    assert seq == Empty(NOW + 4)


def test_poll_of_empty_log_is_empty(log: SqliteLog, world: World) -> None:
    assert poll(FeedQuery(1, ALL), log, ScriptedNotifier(world), world.monotonic) == Empty(0)


def test_poll_after_future_position_returns_last_event_id(five_events: SqliteLog, world: World) -> None:
    assert poll(FeedQuery(1, ALL, NOW + 99), five_events, ScriptedNotifier(world), world.monotonic) == Empty(NOW + 4)


def test_poll_after_future_position_skips_events_up_to_it(five_events: SqliteLog, world: World) -> None:
    appender = world.appender(five_events)
    notifier = ScriptedNotifier(
        world, lambda: appender.append(append("/f", "/g")), lambda: appender.append(append("/h"))
    )
    seq = poll(FeedQuery(1, ALL, NOW + 5, timeout_s=60.0), five_events, notifier, world.monotonic)
    assert keys_of(seq) == ["/g"]


def test_long_poll_returns_as_soon_as_event_matches(five_events: SqliteLog, world: World) -> None:
    appender = world.appender(five_events)
    notifier = ScriptedNotifier(
        world, lambda: appender.append(append("/f", "/g")), lambda: appender.append(append("/h"))
    )
    seq = poll(FeedQuery(1, ALL, NOW + 4, timeout_s=60.0), five_events, notifier, world.monotonic)
    assert isinstance(seq, NonEmpty)
    assert (keys_of(seq), seq.event_id) == (["/f", "/g"], NOW + 6)
    assert (notifier.waits, world.elapsed_s) == ([(1, 3, 60.0, 0)], 1.0)


def test_long_poll_continues_after_events_without_match(five_events: SqliteLog, world: World) -> None:
    appender = world.appender(five_events)
    notifier = ScriptedNotifier(
        world, lambda: appender.append(append("/f")), lambda: None, lambda: appender.append(append("/g"))
    )
    seq = poll(FeedQuery(1, only(keys=["/g"]), NOW + 4, timeout_s=60.0), five_events, notifier, world.monotonic)
    assert keys_of(seq) == ["/g"]
    assert notifier.waits == [(1, 3, 60.0, 0), (1, 4, 59.0, 1), (1, 4, 58.0, 2)]


def test_long_poll_that_has_not_waited_is_not_delayed(
    five_events: SqliteLog, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each search ends after one commit. The event is found in the third, without a wait."""
    monkeypatch.setattr(scan, "SCAN_TIMEOUT_S", -1.0)
    notifier = ScriptedNotifier(world)
    query = FeedQuery(1, only(keys=["/d"]), timeout_s=60.0, delay_s=5.0)
    reader = RecordingReader(five_events, NoViews())
    seq = long_poll_blocking(query, reader, notifier, Retention(five_events, lambda: NOW_MS), world.monotonic)
    assert (keys_of(seq), notifier.waits, world.elapsed_s) == (["/d"], [], 0.0)
    assert reader.starts == [0, 1, 2]


@pytest.mark.parametrize("delay_s", [0.0, 5.0])
def test_wait_before_a_delay_is_expensive(delay_s: float, five_events: SqliteLog, world: World) -> None:
    """The delay begins with a read of the head."""
    reader, retention = LogReader(five_events, NoViews()), Retention(five_events, lambda: NOW_MS)
    query = FeedQuery(1, ALL, NOW + 4, timeout_s=60.0, delay_s=delay_s)
    assert next(long_poll(query, reader, retention, world.monotonic)).is_expensive == (delay_s > 0)


def test_wait_after_incomplete_searches_is_the_first(
    five_events: SqliteLog, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "SCAN_TIMEOUT_S", -1.0)
    notifier = ScriptedNotifier(world)
    query = FeedQuery(1, only("x"), timeout_s=60.0)
    assert poll(query, five_events, notifier, world.monotonic) == Empty(NOW + 4)
    assert notifier.waits == [(1, 3, 60.0, 0)]


def test_long_poll_at_deadline_returns_last_event_id(five_events: SqliteLog, world: World) -> None:
    appender = world.appender(five_events)
    notifier = ScriptedNotifier(world, lambda: appender.append(append("/f")))
    seq = poll(FeedQuery(1, only("x"), NOW + 4, timeout_s=60.0), five_events, notifier, world.monotonic)
    assert (seq, world.elapsed_s) == (Empty(NOW + 5), 60.0)


def test_long_poll_returns_event_that_arrives_at_deadline(five_events: SqliteLog, world: World) -> None:
    def append_late() -> None:
        world.elapsed_s += 60.0
        world.appender(five_events).append(append("/f"))

    seq = poll(
        FeedQuery(1, ALL, NOW + 4, timeout_s=60.0), five_events, ScriptedNotifier(world, append_late), world.monotonic
    )
    assert keys_of(seq) == ["/f"]


def test_poll_without_timeout_does_not_wait(five_events: SqliteLog, world: World) -> None:
    notifier = ScriptedNotifier(world)
    assert poll(FeedQuery(1, ALL, NOW + 4), five_events, notifier, world.monotonic) == Empty(NOW + 4)
    assert notifier.waits == []


def test_long_poll_ends_when_notifier_is_closed(five_events: SqliteLog, world: World) -> None:
    notifier = ScriptedNotifier(world)
    notifier.close()
    seq = poll(FeedQuery(1, ALL, NOW + 4, timeout_s=60.0), five_events, notifier, world.monotonic)
    assert (seq, len(notifier.waits)) == (Empty(NOW + 4), 1)


def test_long_poll_with_limit_returns_limited_events(five_events: SqliteLog, world: World) -> None:
    notifier = ScriptedNotifier(world, lambda: world.appender(five_events).append(append("/f", "/g", "/h")))
    seq = poll(FeedQuery(1, ALL, NOW + 4, 2, timeout_s=60.0), five_events, notifier, world.monotonic)
    assert isinstance(seq, NonEmpty)
    assert (keys_of(seq), seq.event_id) == (["/f", "/g"], NOW + 6)


def test_newest_first_without_new_events_returns_at_once(five_events: SqliteLog, world: World) -> None:
    query = FeedQuery(1, ALL, NOW + 4, -2, timeout_s=60.0)
    seq = run_without_waiting(long_poll(query, LogReader(five_events, NoViews()), Retention(five_events, world.clock)))
    assert seq == Empty(NOW + 4)


@pytest.mark.parametrize("after", [None, 0, NOW, NOW + 2])
def test_newest_first_returns_what_is_kept(after: int | None, five_events: SqliteLog, world: World) -> None:
    retention = Retention(five_events, world.clock, events=3)
    seq = run_without_waiting(long_poll(FeedQuery(1, ALL, after, -9), LogReader(five_events, NoViews()), retention))
    assert isinstance(seq, NonEmpty)
    expected = ["/e", "/d", "/c"] if after != NOW + 2 else ["/e", "/d"]
    assert (keys_of(seq), seq.event_id) == (expected, NOW + 4)


def test_poll_returns_only_events_of_its_server(five_events: SqliteLog, world: World) -> None:
    world.appender(five_events).append(append("/z", server=2))
    assert keys_of(poll(FeedQuery(2, ALL), five_events, ScriptedNotifier(world), world.monotonic)) == ["/z"]
    assert keys_of(poll(FeedQuery(1, ALL), five_events, ScriptedNotifier(world), world.monotonic)) == [
        "/a",
        "/b",
        "/c",
        "/d",
        "/e",
    ]


@pytest.mark.parametrize(
    ("after", "oldest", "is_torn"), [(0, NOW, False), (0, NOW + 1, True), (NOW + 1, NOW + 2, False), (0, None, False)]
)
def test_poll_is_torn_only_if_first_event_is_too_old(
    after: int, oldest: int | None, is_torn: bool, five_events: SqliteLog, world: World
) -> None:
    seq = poll(FeedQuery(1, ALL, after, torn_before_us=oldest), five_events, ScriptedNotifier(world), world.monotonic)
    assert isinstance(seq, Torn if is_torn else NonEmpty)
    assert seq.event_id == NOW + 4


def test_newest_first_search_cut_off_can_be_continued(
    log: SqliteLog, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each search ends after one commit."""
    appender = world.appender(log)
    appender.append(Append(1, (text("/1", "rare"), text("/2", "rare")), "rare"))
    for number in range(5):
        appender.append(append("/3", request_id=f"r{number}"))
    monkeypatch.setattr(scan, "SCAN_TIMEOUT_S", -1.0)
    reader, retention = LogReader(log, NoViews()), Retention(log, world.clock)
    query = FeedQuery(1, Selection(types=(("rare",),)), limit=-1, formatter=lambda event: str(event.event_id))
    pages: list[NonEmpty | Empty] = []
    while not pages or pages[-1].more_follows:
        seq = run_without_waiting(long_poll(query, reader, retention))
        assert not isinstance(seq, Torn)
        pages.append(seq)
        before = seq.last_event_id if isinstance(seq, Empty) else int(seq.texts[-1])
        assert before < (query.before or NOW + 10**9)
        query = replace(query, before=before)
    found = [seq.texts for seq in pages if isinstance(seq, NonEmpty)]
    assert (found, len(pages)) == ([[str(NOW + 1)], [str(NOW)]], 7)
