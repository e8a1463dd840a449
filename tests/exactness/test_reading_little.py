"""What is rare is found without reading the log through: so many commits are fetched, and no more."""

from collections import Counter
from collections.abc import Iterator

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectSelection, Selection
from chalicelib.domain.queries.event_seq import Empty, NonEmpty
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.domain.views.block import BLOCK_BITS
from chalicelib.domain.vocabularies import scheduler
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.feeds.feed import FeedQuery, follow
from chalicelib.services.feeds.notifiers import Bell
from chalicelib.services.log.appender import Appender, granted
from chalicelib.services.objects.snapshots import snapshot, state_at
from chalicelib.services.ports import Views
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.timeseries import timeseries
from tests.exactness.plain import Plain, is_selected
from tests.exactness.stores import WatchedLog, WatchedViews

SERVER = 1
COMMITS = 1_000
EVENTS = 20
"""Of each commit."""
TAIL = 10
"""The last commits, which the projector has not seen."""
STEP_MS = 200
FIRST_MS = 1_700_000_000_000
MINUTE_US = 60_000_000

ALARMS = (100, 101, 640)
"""The sessions with an event of type alarm/fire."""
RARE_KEY = (17, 333, 800, 801, 950)
"""The sessions with an event of the key /rare."""
ORDERS = (5, 60, 700)
"""The sessions with an event of the order."""
ORDER = ObjectRef("order", "/chain,1")

TO_SEARCH = 24
"""As many commits as looking for a position may take: back from the head by doubling, then by halving."""


class Reader:
    """A log, and how much of it is read."""

    def __init__(self, log: WatchedLog, views: Views, of: Plain) -> None:
        self.log = log
        self.present = LogReader(log, views)
        self.of = of
        self.retention = Retention(log, lambda: 0)

    def ids(self, selection: Selection, after: int | None = None, limit: int | None = None) -> list[int]:
        """The EventIds of a feed."""
        answer = follow(FeedQuery(SERVER, selection, after, limit), self.present, Bell(), self.retention)
        assert isinstance(answer, NonEmpty)
        by_wire = {event.wire: event.event_id for event in self.of.events}
        return [by_wire[wire] for wire in answer.wires]

    def expected(self, selection: Selection, after: int = 0) -> list[int]:
        events = self.of.between(after, self.of.last)
        return [event.event_id for event in events if is_selected(event, selection)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SqliteLog, SqliteViews, Plain]]:
    home = tmp_path_factory.mktemp("little")
    log_file, views_file = (
        Database(home / "log.sqlite", durable=False),
        Database(home / "views.sqlite", SCHEMA, durable=False),
    )
    log, views, of = SqliteLog(log_file), SqliteViews(views_file), Plain(SERVER)
    now_ms = FIRST_MS
    appender = Appender(log, lambda: now_ms)
    for session in range(1, COMMITS + 1):
        now_ms += STEP_MS
        append = Append(SERVER, encoded(_events(session)), f"request {session}")
        of.add(granted(appender.append_group([append])[0]).commit)
        if session == COMMITS - TAIL:
            catch_up(projector(views), SERVER, log, views)
    yield log, views, of
    log_file.close()
    views_file.close()


@pytest.fixture
def reader(written: tuple[SqliteLog, SqliteViews, Plain]) -> Reader:
    log, views, of = written
    return Reader(WatchedLog(log), WatchedViews(views, Counter()), of)


@pytest.mark.parametrize(
    "selection",
    [Selection(keys=("/rare",)), Selection(keys=("/rare",), types=(("job", "*"),))],
    ids=["key", "key and types"],
)
def test_events_of_a_key_take_as_many_commits_as_hold_them(reader: Reader, selection: Selection) -> None:
    assert reader.ids(selection) == reader.expected(selection)
    assert reader.log.fetched == len(RARE_KEY) + TAIL


def test_events_of_an_object_take_as_many_commits_as_hold_them(reader: Reader) -> None:
    selection = ObjectSelection(collection=ORDER.collection, query=PathQuery.of(ORDER.path))
    assert reader.ids(selection) == reader.expected(selection)
    assert reader.log.fetched == len(ORDERS) + TAIL


def test_events_of_a_rare_type_take_the_blocks_that_hold_them(reader: Reader) -> None:
    selection = Selection(types=(("alarm", "?"),))
    assert reader.ids(selection) == reader.expected(selection)
    assert reader.log.fetched == _commits_beside(reader.of, ALARMS) + TAIL
    assert reader.log.fetched < COMMITS / 3


def test_the_newest_of_a_rare_type_takes_a_part_of_the_last_block(reader: Reader) -> None:
    selection = Selection(types=(("alarm", "*"),))
    assert reader.ids(selection, limit=-1) == reader.expected(selection)[-1:]
    assert reader.log.fetched <= _commits_beside(reader.of, ALARMS[-1:]) + TAIL


def test_a_type_that_there_is_not_takes_the_tail_only(reader: Reader) -> None:
    query = FeedQuery(SERVER, Selection(types=(("nothing", "*"),)))
    assert follow(query, reader.present, Bell(), reader.retention) == Empty(reader.of.last)
    assert reader.log.fetched == TAIL


def test_the_latest_take_no_more_commits_than_types(reader: Reader) -> None:
    page = latest([SERVER], Selection(), reader.present, reader.retention)
    assert len(page.wires) == 8
    assert reader.log.fetched <= len(page.wires) + TAIL


def test_the_latest_of_one_type_takes_one_commit(reader: Reader) -> None:
    page = latest([SERVER], Selection(types=(("alarm", "fire"),)), reader.present, reader.retention)
    assert len(page.wires) == 1
    assert reader.log.fetched == 1 + TAIL


def test_a_long_poll_at_the_head_reads_nothing(reader: Reader) -> None:
    query = FeedQuery(SERVER, Selection(types=(("alarm", "*"),)), after=reader.of.last)
    assert follow(query, reader.present, Bell(), reader.retention) == Empty(reader.of.last)
    assert reader.log.fetched == 0


@pytest.mark.parametrize("behind", [1, 3, 40])
def test_a_reader_close_behind_the_head_reads_only_what_it_has_not_seen(reader: Reader, behind: int) -> None:
    after = reader.of.commits[-1 - behind].last
    selection = Selection(types=(("job", "progress", "*"),))
    assert reader.ids(selection, after) == reader.expected(selection, after)
    assert reader.log.fetched <= behind + TO_SEARCH / 2


def test_a_snapshot_reads_the_tail_only(reader: Reader) -> None:
    found = snapshot(reader.present, SERVER, ORDER.collection, PathQuery.of("/"))
    assert list(found.states) == [ORDER.path]
    assert reader.log.fetched == TAIL


def test_a_past_state_takes_the_commits_of_its_object_only(reader: Reader) -> None:
    event_id = reader.of.commits[ORDERS[1]].last
    assert state_at(reader.present, SERVER, ORDER, event_id) == reader.of.state(ORDER, event_id)
    assert reader.log.fetched <= len(ORDERS) + TAIL


@pytest.mark.parametrize("session", [1, 2, 300, 555, 871, 990])
def test_a_position_is_found_with_few_commits(reader: Reader, session: int) -> None:
    commit = reader.of.commits[session - 1]
    assert reader.present.at(SERVER, commit.last) == commit.head
    assert reader.log.fetched <= TO_SEARCH


@pytest.mark.parametrize("descending", [True, False], ids=["descending", "ascending"])
def test_a_timeseries_between_two_times_takes_what_lies_between(reader: Reader, descending: bool) -> None:
    first, last = reader.of.commits[399].at, reader.of.commits[408].at
    query = TimeseriesQuery(Selection(), t_from=first, t_to=last, descending=descending)
    page = timeseries(query, [SERVER], reader.present, reader.retention, 10_000)
    assert len(page.wires) == 10 * EVENTS
    assert reader.log.fetched <= 10 + 2 + TO_SEARCH


def _events(session: int) -> list[NewEvent]:
    """Twenty; the first may be a rare one."""
    if session in ALARMS:
        rare = NewEvent(type=("alarm", "fire"), key="/cellar")
    elif session in RARE_KEY:
        rare = NewEvent(type=("job", "finish"), key="/rare")
    elif session in ORDERS:
        rare = scheduler.new_event({"TYPE": "OrderAdded", "key": ORDER.path, "nodeId": str(session)})
    else:
        rare = NewEvent(type=("job", "start"), key=f"/job/{session}")
    usual = [NewEvent(type=("job", "progress", f"n{n % 4}"), key=f"/job/{n}") for n in range(EVENTS - 1)]
    return [rare, *usual]


def _commits_beside(of: Plain, sessions: tuple[int, ...]) -> int:
    """How many commits there are in the blocks that hold these sessions."""
    blocks = {_block(of.commits[session - 1]) for session in sessions}
    return sum(_block(commit) in blocks for commit in of.commits[:-TAIL])


def _block(commit: Commit) -> tuple[int, int]:
    return commit.at // MINUTE_US, commit.session >> BLOCK_BITS
