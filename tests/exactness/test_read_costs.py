"""Reads of rare events do not scan the log: the tests limit the number of commits fetched."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import ConditionFailed
from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, AppendCondition, encode_within_limits
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.log.outcome import unwrap
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import AnySelection, ObjectSelection, Selection
from chalicelib.domain.queries.event_seq import Empty, NonEmpty
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.domain.views.excerpt import MAX_EXCERPT_CHARACTERS
from chalicelib.domain.vocabularies import SCHEDULER_VOCABULARY
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.feeds.notifiers import CommitNotifier
from chalicelib.services.log.appender import Appender
from chalicelib.services.objects.snapshots import snapshot, state_at
from chalicelib.services.ports import Views
from chalicelib.services.reading.block_search import FIRST_BATCH
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import SCAN_THRESHOLD, LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.timeseries import timeseries
from tests.exactness.model import LogModel, is_selected
from tests.exactness.stores import CountingLog, RecordingViews

SERVER = 1
COMMITS = 1_000
EVENTS = 20
"""Events per commit."""
TAIL = 10
"""Number of commits at the end that are not projected."""
STEP_MS = 200
FIRST_MS = 1_700_000_000_000

ALARMS = (100, 101, 640)
"""Sessions with an event of type alarm/fire."""
RARE_KEY = (17, 333, 800, 801, 950)
"""Sessions with an event with key /rare."""
RARE_TAG = (17, 444, 950)
"""Sessions with an event with tag show:1. Some of them have an event with key /rare."""
COMMON_TAG = range(400, COMMITS)
"""Sessions with an event with tag common. They are more than the record of an object lists."""
ORDERS = (5, 60, 700)
"""Sessions with an event of the order."""
ORDER = ObjectRef("order", "/chain,1")

MAX_SEARCH_COMMITS = 24
"""Maximum number of commits read to find a position: exponential search from the head, then binary search."""


class MeteredReader:
    """A log that counts the commits read."""

    def __init__(self, log: CountingLog, views: Views, model: LogModel) -> None:
        self.log = log
        self.views = views
        self.reader = LogReader(log, views)
        self.model = model
        self.retention = Retention(log, lambda: 0)

    def ids(self, selection: Selection, after: int | None = None, limit: int | None = None) -> list[int]:
        """EventIds of a poll."""
        seq = long_poll_blocking(
            FeedQuery(SERVER, selection, after, limit), self.reader, CommitNotifier(), self.retention
        )
        assert isinstance(seq, NonEmpty)
        ids_by_text = {event.wire_text: event.event_id for event in self.model.events}
        return [ids_by_text[text] for text in seq.texts]

    def expected(self, selection: Selection, after: int = 0) -> list[int]:
        events = self.model.between(after, self.model.last_event_id)
        return [event.event_id for event in events if is_selected(event, selection)]


@pytest.fixture(scope="module", params=[True, False], ids=["copies", "no copies"])
def with_copies(request: pytest.FixtureRequest) -> bool:
    """Whether the views contain copies of small events."""
    return bool(request.param)


@pytest.fixture(scope="module")
def filled_log(
    tmp_path_factory: pytest.TempPathFactory, with_copies: bool
) -> Iterator[tuple[SqliteLog, SqliteViews, LogModel]]:
    home = tmp_path_factory.mktemp("little")
    log_file, views_file = (
        Database(home / "log.sqlite", durable=False),
        Database(home / "views.sqlite", SCHEMA, durable=False),
    )
    log, views, model = SqliteLog(log_file), SqliteViews(views_file), LogModel(SERVER)
    now_ms = FIRST_MS
    appender = Appender(log, lambda: now_ms)
    for session in range(1, COMMITS + 1):
        now_ms += STEP_MS
        append = Append(SERVER, encode_within_limits(_events(session)), f"request {session}")
        model.add(unwrap(appender.append_group([append])[0]).commit)
        if session == COMMITS - TAIL:
            catch_up(projector(views, with_copies), SERVER, log, views)
    yield log, views, model
    log_file.close()
    views_file.close()


@pytest.fixture
def metered(filled_log: tuple[SqliteLog, SqliteViews, LogModel]) -> MeteredReader:
    log, views, model = filled_log
    return MeteredReader(CountingLog(log), RecordingViews(views, Counter()), model)


@pytest.mark.parametrize(
    "selection",
    [Selection(keys=("/rare",)), Selection(keys=("/rare",), types=(("job", "*"),))],
    ids=["key", "key and types"],
)
def test_feed_by_key_fetches_only_commits_with_key(
    metered: MeteredReader, selection: Selection, with_copies: bool
) -> None:
    assert metered.ids(selection) == metered.expected(selection)
    assert metered.log.fetched == (0 if with_copies else len(RARE_KEY)) + TAIL


RARE, COMMON, KEY = Selection(tags=("show:1",)), Selection(tags=("common",)), Selection(keys=("/rare",))
FIRE = Selection(types=(("alarm", "fire"),))
TAG_QUERIES: dict[str, tuple[Selection, set[int]]] = {
    "a tag": (RARE, set(RARE_TAG)),
    "a tag and types": (Selection(tags=("show:1",), types=(("job", "*"),)), set(RARE_TAG)),
    "two tags": (Selection(tags=("common", "show:1")), set(RARE_TAG)),
    "a tag and a key": (Selection(tags=("show:1",), keys=("/rare",)), {17, 950}),
    "a common tag and a key": (Selection(tags=("common",), keys=("/rare",)), set(RARE_KEY)),
    "an unknown tag": (Selection(tags=("show:2",)), set()),
    "an unknown tag and a common one": (Selection(tags=("common", "show:2")), set()),
    "a tag or a key": (AnySelection(items=(RARE, KEY)), {*RARE_TAG, *RARE_KEY}),
    "a tag, or the same tag and a key": (
        AnySelection(items=(RARE, Selection(tags=("show:1",), keys=("/k",)))),
        {*RARE_TAG},
    ),
}
"""Queries by tag, and the sessions that may be read for them."""


@pytest.mark.parametrize(("selection", "sessions"), TAG_QUERIES.values(), ids=TAG_QUERIES)
def test_query_by_tag_fetches_only_commits_with_tag(
    metered: MeteredReader, selection: Selection, sessions: set[int]
) -> None:
    run = metered.reader.commits_after(Head(SERVER), selection)
    found = [event.event_id for commit in run.commits for event in commit.events if selection.selects(event)]
    assert found == metered.expected(selection)
    assert metered.log.fetched <= len(sessions) + TAIL


def test_newest_by_tag_fetches_only_commits_with_tag(metered: MeteredReader) -> None:
    assert metered.ids(RARE, limit=-50) == metered.expected(RARE)[::-1]
    assert metered.log.fetched == len(RARE_TAG) + TAIL


def test_tag_or_rare_type_fetches_commits_and_blocks(metered: MeteredReader) -> None:
    selection = AnySelection(items=(RARE, KEY, FIRE))
    assert metered.ids(selection) == metered.expected(selection)
    others = {*RARE_TAG, *RARE_KEY}
    assert metered.log.fetched <= len(ALARMS) + len(others) + TAIL


@pytest.mark.parametrize("selection", [RARE, AnySelection(items=(RARE, KEY))], ids=["tag", "tag or key"])
def test_condition_by_tag_fetches_only_commits_with_tag(metered: MeteredReader, selection: Selection) -> None:
    appender = Appender(metered.log, lambda: FIRST_MS, reader=metered.reader)
    append = Append(
        SERVER, encode_within_limits(_events(1)), "request", AppendCondition(fail_if_events_match=selection)
    )
    with pytest.raises(ConditionFailed) as refusal:
        appender.precheck(append)
    assert refusal.value.event_id == metered.expected(selection)[0]
    assert metered.log.fetched <= len({*RARE_TAG, *RARE_KEY}) + TAIL


def test_condition_by_common_tag_reads_recent_index_only(metered: MeteredReader) -> None:
    after = metered.model.commits[COMMITS - SCAN_THRESHOLD - 50].head
    reads: Counter[str] = Counter()
    views = RecordingViews(metered.views, reads)
    run = LogReader(metered.log, views).commits_after(after, Selection(tags=("common",)))
    assert len(list(run.commits)) == SCAN_THRESHOLD + 49
    assert reads["read sessions"] == 0


def test_feed_by_object_fetches_only_commits_of_object(metered: MeteredReader, with_copies: bool) -> None:
    selection = ObjectSelection(collection=ORDER.collection, query=PathQuery.parse(ORDER.path))
    assert metered.ids(selection) == metered.expected(selection)
    assert metered.log.fetched == (0 if with_copies else len(ORDERS)) + TAIL


def test_feed_by_rare_type_fetches_only_its_commits(metered: MeteredReader) -> None:
    selection = Selection(types=(("alarm", "?"),))
    assert metered.ids(selection) == metered.expected(selection)
    assert metered.log.fetched == len(ALARMS) + TAIL


def test_newest_of_rare_type_fetches_few_commits(metered: MeteredReader) -> None:
    selection = Selection(types=(("alarm", "*"),))
    assert metered.ids(selection, limit=-1) == metered.expected(selection)[-1:]
    assert metered.log.fetched <= FIRST_BATCH + TAIL


def test_feed_by_unknown_type_fetches_only_tail(metered: MeteredReader) -> None:
    query = FeedQuery(SERVER, Selection(types=(("nothing", "*"),)))
    assert long_poll_blocking(query, metered.reader, CommitNotifier(), metered.retention) == Empty(
        metered.model.last_event_id
    )
    assert metered.log.fetched == TAIL


def test_latest_fetches_at_most_one_commit_per_type(metered: MeteredReader) -> None:
    page = latest([SERVER], Selection(), metered.reader, metered.retention, 100)
    assert len(page.texts) == 8
    assert metered.log.fetched <= len(page.texts) + TAIL


def test_latest_of_one_type_fetches_one_commit(metered: MeteredReader) -> None:
    page = latest([SERVER], Selection(types=(("alarm", "fire"),)), metered.reader, metered.retention, 100)
    assert len(page.texts) == 1
    assert metered.log.fetched == 1 + TAIL


def test_poll_at_head_fetches_nothing(metered: MeteredReader) -> None:
    query = FeedQuery(SERVER, Selection(types=(("alarm", "*"),)), after=metered.model.last_event_id)
    assert long_poll_blocking(query, metered.reader, CommitNotifier(), metered.retention) == Empty(
        metered.model.last_event_id
    )
    assert metered.log.fetched == 0


@pytest.mark.parametrize("behind", [1, 3, 40])
def test_poll_near_head_fetches_only_new_commits(metered: MeteredReader, behind: int) -> None:
    after = metered.model.commits[-1 - behind].last_event_id
    selection = Selection(types=(("job", "progress", "*"),))
    assert metered.ids(selection, after) == metered.expected(selection, after)
    assert metered.log.fetched <= behind + MAX_SEARCH_COMMITS / 2


def test_snapshot_fetches_only_tail(metered: MeteredReader) -> None:
    result = snapshot(metered.reader, SERVER, ORDER.collection, PathQuery.parse("/"))
    assert list(result.states) == [ORDER.path]
    assert metered.log.fetched == TAIL


def test_past_state_fetches_only_commits_of_object(metered: MeteredReader) -> None:
    event_id = metered.model.commits[ORDERS[1]].last_event_id
    assert state_at(metered.reader, SERVER, ORDER, event_id) == metered.model.state(ORDER, event_id)
    assert metered.log.fetched <= len(ORDERS) + TAIL


@pytest.mark.parametrize("session", [1, 2, 300, 555, 871, 990])
def test_position_at_fetches_few_commits(metered: MeteredReader, session: int) -> None:
    commit = metered.model.commits[session - 1]
    assert metered.reader.position_at(SERVER, commit.last_event_id) == commit.head
    assert metered.log.fetched <= MAX_SEARCH_COMMITS


@pytest.mark.parametrize("descending", [True, False], ids=["descending", "ascending"])
def test_timeseries_fetches_only_time_range(metered: MeteredReader, descending: bool) -> None:
    first, last_event_id = metered.model.commits[399].at_us, metered.model.commits[408].at_us
    query = TimeseriesQuery(Selection(), t_from=first, t_to=last_event_id, descending=descending)
    page = timeseries(query, [SERVER], metered.reader, metered.retention, 10_000)
    assert len(page.texts) == 10 * EVENTS
    assert metered.log.fetched <= 10 + 2 + MAX_SEARCH_COMMITS


def _events(session: int) -> list[NewEvent]:
    """Twenty events, the first of which may be a rare one."""
    if session in ALARMS:
        rare = NewEvent(type=("alarm", "fire"), key="/cellar")
    elif session in RARE_KEY:
        rare = NewEvent(type=("job", "finish"), key="/rare")
    elif session in ORDERS:
        rare = SCHEDULER_VOCABULARY.new_event({"TYPE": "OrderAdded", "key": ORDER.path, "nodeId": str(session)})
    else:
        rare = NewEvent(type=("job", "start"), key=f"/job/{session}")
    usual = [NewEvent(type=("job", "progress", f"n{n % 4}"), key=f"/job/{n}") for n in range(EVENTS - 1)]
    tags = {"show:1": RARE_TAG, "common": COMMON_TAG}
    given = tuple(tag for tag, sessions in tags.items() if session in sessions)
    return [rare.model_copy(update={"tags": given}), *usual]


def test_copies_among_large_events_do_not_multiply_calls(sqlite_log: SqliteLog, sqlite_views: SqliteViews) -> None:
    """Every second event is too large to be copied."""
    appender = Appender(sqlite_log, lambda: FIRST_MS)
    for number in range(200):
        data = "x" * (2 * MAX_EXCERPT_CHARACTERS if number % 2 else 10)
        event = NewEvent(type=("a",), key="/k", payload=JsonPayload(type="json", data=data))
        appender.append(Append(SERVER, encode_within_limits([event]), f"r{number}"))
    catch_up(projector(sqlite_views), SERVER, sqlite_log, sqlite_views)
    log = BatchCountingLog(sqlite_log)
    query = FeedQuery(SERVER, Selection(keys=("/k",)))
    seq = long_poll_blocking(query, LogReader(log, sqlite_views), CommitNotifier(), Retention(log, lambda: 0))
    assert isinstance(seq, NonEmpty)
    assert len(seq.texts) == 200
    assert 100 <= sum(log.batches) < 200
    assert len(log.batches) < 10


class BatchCountingLog(CountingLog):
    """Notes how many commits each call fetches."""

    def __init__(self, log: SqliteLog) -> None:
        super().__init__(log)
        self.batches: list[int] = []

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        self.batches.append(len(sessions))
        return super().commits(server, sessions)
