"""The feed: what came after a position, or what comes next, without taking any time."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty
from chalicelib.services.feeds.feed import FeedQuery
from chalicelib.services.feeds.feed import follow as followed
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.services.worlds import NOW, NOW_MS, World, append

ALL = Selection()


class Scripted:
    """A wake that does one thing of the test's after the other, and then lets the time pass."""

    def __init__(self, world: World, *steps: Callable[[], object]) -> None:
        self._world = world
        self._steps = list(steps)
        self.waits: list[tuple[int, int, float, int]] = []
        self.open = True

    def wait(self, seen: Head, selection: Selection, timeout_s: float, turn: int) -> Head | None:
        del selection
        self.waits.append((seen.server, seen.session, timeout_s, turn))
        if self._steps:
            self._world.elapsed_s += 1.0
            self._steps.pop(0)()
        else:
            self._world.elapsed_s += timeout_s
        return seen if self.open else None

    def close(self) -> None:
        self.open = False


def follow(query: FeedQuery, log: SqliteLog, wake: Scripted, monotonic: Callable[[], float]) -> EventSeq:
    """Follow a log whose views nobody has built yet."""
    with tempfile.TemporaryDirectory() as directory:
        database = Database(Path(directory) / "views.sqlite", SCHEMA, durable=False)
        seq = followed(query, LogReader(log, SqliteViews(database)), wake, Retention(log, lambda: NOW_MS), monotonic)
        database.close()
    return seq


def keys_of(seq: EventSeq) -> list[str]:
    """The keys of the events, in the order in which they come."""
    return [json.loads(wire)["key"] for wire in seq.wires] if isinstance(seq, NonEmpty) else []


def only(*types: str, keys: list[str] | None = None) -> Selection:
    """A selection by type and key."""
    given: dict[str, Any] = {"types": list(types) or None, "keys": keys}
    return Selection.model_validate(given)


@pytest.fixture
def five(log: SqliteLog, world: World) -> SqliteLog:
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
def test_the_feed_gives_what_came_after_a_position(
    after: int, limit: int | None, keys: list[str], event_id: int, five: SqliteLog, world: World
) -> None:
    wake = Scripted(world)
    seq = follow(FeedQuery(1, ALL, after, limit, timeout_s=60.0), five, wake, world.monotonic)
    assert isinstance(seq, NonEmpty)
    assert (keys_of(seq), seq.event_id, wake.waits) == (keys, event_id, [])


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
def test_a_filter_lets_the_rest_pass_unseen(
    selection: Selection, limit: int | None, keys: list[str], event_id: int, five: SqliteLog, world: World
) -> None:
    seq = follow(FeedQuery(1, selection, 0, limit), five, Scripted(world), world.monotonic)
    assert isinstance(seq, NonEmpty)
    assert (keys_of(seq), seq.event_id) == (keys, event_id)


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
@pytest.mark.parametrize("selection", [ALL, only(keys=["/a", "/c", "/d"]), only(keys=["/b", "/e"])])
def test_whoever_asks_again_after_the_answers_event_id_misses_nothing_and_sees_nothing_twice(
    selection: Selection, limit: int, five: SqliteLog, world: World
) -> None:
    expected = keys_of(follow(FeedQuery(1, selection), five, Scripted(world), world.monotonic))
    found, after = [], 0
    while isinstance(
        seq := follow(FeedQuery(1, selection, after, limit), five, Scripted(world), world.monotonic), NonEmpty
    ):
        found += keys_of(seq)
        after = seq.event_id
    assert found == expected


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
def test_when_nothing_matches_the_answer_says_how_far_it_looked(
    selection: Selection, after: int, limit: int | None, five: SqliteLog, world: World
) -> None:
    seq = follow(FeedQuery(1, selection, after, limit), five, Scripted(world), world.monotonic)
    assert seq == Empty(NOW + 4)


def test_the_feed_of_an_empty_log_is_empty(log: SqliteLog, world: World) -> None:
    assert follow(FeedQuery(1, ALL), log, Scripted(world), world.monotonic) == Empty(0)


def test_a_position_in_the_future_is_answered_with_the_last_event(five: SqliteLog, world: World) -> None:
    assert follow(FeedQuery(1, ALL, NOW + 99), five, Scripted(world), world.monotonic) == Empty(NOW + 4)


def test_events_up_to_a_position_in_the_future_are_not_given(five: SqliteLog, world: World) -> None:
    appender = world.appender(five)
    wake = Scripted(world, lambda: appender.append(append("/f", "/g")), lambda: appender.append(append("/h")))
    seq = follow(FeedQuery(1, ALL, NOW + 5, timeout_s=60.0), five, wake, world.monotonic)
    assert keys_of(seq) == ["/g"]


def test_a_long_poll_is_answered_as_soon_as_something_matches(five: SqliteLog, world: World) -> None:
    appender = world.appender(five)
    wake = Scripted(world, lambda: appender.append(append("/f", "/g")), lambda: appender.append(append("/h")))
    seq = follow(FeedQuery(1, ALL, NOW + 4, timeout_s=60.0), five, wake, world.monotonic)
    assert isinstance(seq, NonEmpty)
    assert (keys_of(seq), seq.event_id) == (["/f", "/g"], NOW + 6)
    assert (wake.waits, world.elapsed_s) == ([(1, 3, 60.0, 0)], 1.0)


def test_a_long_poll_goes_on_past_what_does_not_match(five: SqliteLog, world: World) -> None:
    appender = world.appender(five)
    wake = Scripted(world, lambda: appender.append(append("/f")), lambda: None, lambda: appender.append(append("/g")))
    seq = follow(FeedQuery(1, only(keys=["/g"]), NOW + 4, timeout_s=60.0), five, wake, world.monotonic)
    assert keys_of(seq) == ["/g"]
    assert wake.waits == [(1, 3, 60.0, 0), (1, 4, 59.0, 1), (1, 4, 58.0, 2)]


def test_a_long_poll_ends_at_its_deadline_with_what_it_looked_through(five: SqliteLog, world: World) -> None:
    appender = world.appender(five)
    wake = Scripted(world, lambda: appender.append(append("/f")))
    seq = follow(FeedQuery(1, only("x"), NOW + 4, timeout_s=60.0), five, wake, world.monotonic)
    assert (seq, world.elapsed_s) == (Empty(NOW + 5), 60.0)


def test_what_comes_with_the_deadline_is_still_seen(five: SqliteLog, world: World) -> None:
    def late() -> None:
        world.elapsed_s += 60.0
        world.appender(five).append(append("/f"))

    seq = follow(FeedQuery(1, ALL, NOW + 4, timeout_s=60.0), five, Scripted(world, late), world.monotonic)
    assert keys_of(seq) == ["/f"]


def test_without_a_timeout_nobody_waits(five: SqliteLog, world: World) -> None:
    wake = Scripted(world)
    assert follow(FeedQuery(1, ALL, NOW + 4), five, wake, world.monotonic) == Empty(NOW + 4)
    assert wake.waits == []


def test_a_closed_wake_ends_the_long_poll(five: SqliteLog, world: World) -> None:
    wake = Scripted(world)
    wake.close()
    seq = follow(FeedQuery(1, ALL, NOW + 4, timeout_s=60.0), five, wake, world.monotonic)
    assert (seq, len(wake.waits)) == (Empty(NOW + 4), 1)


def test_a_long_poll_with_a_limit_gives_that_many(five: SqliteLog, world: World) -> None:
    wake = Scripted(world, lambda: world.appender(five).append(append("/f", "/g", "/h")))
    seq = follow(FeedQuery(1, ALL, NOW + 4, 2, timeout_s=60.0), five, wake, world.monotonic)
    assert isinstance(seq, NonEmpty)
    assert (keys_of(seq), seq.event_id) == (["/f", "/g"], NOW + 6)


def test_a_long_poll_with_a_negative_limit_gives_the_newest_first(five: SqliteLog, world: World) -> None:
    wake = Scripted(world, lambda: world.appender(five).append(append("/f", "/g", "/h")))
    seq = follow(FeedQuery(1, ALL, NOW + 4, -2, timeout_s=60.0), five, wake, world.monotonic)
    assert isinstance(seq, NonEmpty)
    assert (keys_of(seq), seq.event_id) == (["/h", "/g"], NOW + 7)


def test_each_server_has_a_feed_of_its_own(five: SqliteLog, world: World) -> None:
    world.appender(five).append(append("/z", server=2))
    assert keys_of(follow(FeedQuery(2, ALL), five, Scripted(world), world.monotonic)) == ["/z"]
    assert keys_of(follow(FeedQuery(1, ALL), five, Scripted(world), world.monotonic)) == ["/a", "/b", "/c", "/d", "/e"]
