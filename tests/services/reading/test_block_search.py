"""The block search: finds all commits of a type, and reads few blocks for a rare one. Counts reads of blocks."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.event import NewEvent, encode
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.domain.queries.event_filter import AnySelection, Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.views.block import BlockId
from chalicelib.domain.views.record import BLOCKS_VIEW, PROJECTOR, Record
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.reading import block_search
from chalicelib.services.reading.block_search import BlockSearch, SessionRange
from chalicelib.services.reading.log_reader import LogReader, _merge_ranges
from chalicelib.services.reading.scan import SCAN_TIMEOUT_S, PageSpec, collect_page, collect_page_backwards
from tests.builders import a_commit
from tests.exactness.stores import CountingLog

BITS = 3
"""Small blocks, so that few commits need many levels."""
COMMITS = 5_000
LEVELS = 5
"""8**5 is more than the number of commits."""
RARE = {1: "first", 7: "early", 4_003: "late", 4_004: "late", 4_993: "last"}
EVERY_TENTH = Selection(types=(("tenth",),))


def rare(subtype: str) -> Selection:
    return Selection(types=(("rare", subtype),))


class CountingViews(SqliteViews):
    """Views that count the blocks read."""

    blocks = 0

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        if view.endswith(f"/{BLOCKS_VIEW}"):
            self.blocks += len(items)
        return super().get(view, items)


class Installation:
    """A log whose views know all commits."""

    def __init__(self, log: SqliteLog, views: CountingViews) -> None:
        self.log, self.views = log, views

    def search(self, selection: Selection, after: int = 0, end: int = COMMITS, backwards: bool = False) -> list[int]:
        """The sessions found."""
        ranges = list(self.ranges(selection, after, end, backwards))
        step = -1 if backwards else 1
        return [session for first, last in ranges for session in list(range(first, last + 1))[::step]]

    def ranges(self, selection: Selection, after: int, end: int, backwards: bool) -> Iterator[SessionRange]:
        view = load_checkpoint(PROJECTOR, 1, self.views).view_name(BLOCKS_VIEW)
        search = BlockSearch(self.views, view, selection, after, end, backwards)
        return search.ranges(self.views.get(view, [search.root.item]).get(search.root.item))


@pytest.fixture(scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chalicelib.domain.views.block.BLOCK_BITS", BITS)
        patch.setattr("chalicelib.domain.views.block.MAX_LISTED_CHILDREN", 2**BITS // 2)
        yield


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, small_blocks: None) -> Iterator[tuple[Database, Database]]:
    del small_blocks
    folder = tmp_path_factory.mktemp("blocks")
    log_file, views_file = _open(folder)
    log, views, commits = SqliteLog(log_file), SqliteViews(views_file), _commits()
    log.append(commits)
    catch_up(projector(views), 1, log, views)
    yield log_file, views_file
    log_file.close()
    views_file.close()


@pytest.fixture
def installation(filled: tuple[Database, Database]) -> Installation:
    return Installation(SqliteLog(filled[0]), CountingViews(filled[1]))


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize(("after", "end"), [(0, COMMITS), (1, 4_003), (6, 4_993), (4_003, COMMITS), (7, 4_002)])
def test_search_finds_exactly_rare_commits_in_range(
    installation: Installation, after: int, end: int, backwards: bool
) -> None:
    found = installation.search(Selection(types=(("rare", "*"),)), after, end, backwards)
    assert found == sorted((session for session in RARE if after < session <= end), reverse=backwards)


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_search_finds_common_commits_in_order(installation: Installation, backwards: bool) -> None:
    found = installation.search(EVERY_TENTH, backwards=backwards)
    assert found == sorted(set(found), reverse=backwards)
    assert set(range(10, COMMITS + 1, 10)) <= set(found)


@pytest.mark.parametrize("selection", [rare("first"), Selection()], ids=["type", "any"])
@pytest.mark.parametrize("end", [0, 9])
def test_search_in_empty_range_finds_nothing(installation: Installation, selection: Selection, end: int) -> None:
    """The views know no commit, or no later one. There may be no block either."""
    view = load_checkpoint(PROJECTOR, 1, installation.views).view_name(BLOCKS_VIEW)
    search = BlockSearch(installation.views, view, selection, end, end)
    assert list(search.ranges(None)) == []


@pytest.mark.parametrize("subtype", ["first", "early", "late", "last"])
def test_search_reads_one_block_per_level(installation: Installation, subtype: str) -> None:
    """Besides those with the type, only the first blocks of the levels are read."""
    assert installation.search(rare(subtype)) == [session for session, name in RARE.items() if name == subtype]
    assert installation.views.blocks <= 2 * LEVELS


def test_search_for_unknown_type_reads_first_blocks_only(installation: Installation) -> None:
    assert installation.search(rare("never")) == []
    assert installation.views.blocks == LEVELS


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_first_result_does_not_read_rest_of_tree(installation: Installation, backwards: bool) -> None:
    ranges = installation.ranges(EVERY_TENTH, 0, COMMITS, backwards)
    assert len(list(islice(ranges, 1))) == 1
    assert installation.views.blocks <= 2 * LEVELS


def test_newest_commits_of_common_type_fetch_few(installation: Installation) -> None:
    log = CountingLog(installation.log)
    commits = LogReader(log, installation.views).commits_before(installation.log.head(1), EVERY_TENTH)
    assert [commit.session for commit in islice(commits, 2)] == [5_000, 4_990]
    assert log.fetched <= 2
    assert installation.views.blocks <= 3 * LEVELS


def test_commits_after_reads_only_commits_of_rare_type(installation: Installation) -> None:
    log = CountingLog(installation.log)
    run = LogReader(log, installation.views).commits_after(Head(1), rare("late"))
    assert [commit.session for commit in run.commits] == [4_003, 4_004]
    assert log.fetched == 2


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_query_of_key_and_type_reads_blocks_as_needed(installation: Installation, backwards: bool) -> None:
    """One item has a key, the other one only a type that is common."""
    selection = AnySelection(items=(Selection(keys=("/never",)), EVERY_TENTH))
    log = CountingLog(installation.log)
    reader = LogReader(log, installation.views)
    if backwards:
        commits = reader.commits_before(installation.log.head(1), selection)
    else:
        commits = reader.commits_after(Head(1), selection).commits
    selected = (commit.session for commit in commits if any(map(selection.selects, commit.events)))
    assert list(islice(selected, 2)) == ([5_000, 4_990] if backwards else [10, 20])
    assert installation.views.blocks <= 4 * LEVELS


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_merged_ranges_are_in_order_without_nested(backwards: bool) -> None:
    step = -1 if backwards else 1
    singles = [(3, 3), (5, 5), (8, 8), (12, 12), (20, 20)][::step]
    blocks = [(1, 1), (5, 8), (12, 13), (14, 17)][::step]
    expected = [(1, 1), (3, 3), (5, 8), (12, 13), (14, 17), (20, 20)][::step]
    assert list(_merge_ranges(singles, blocks, backwards)) == expected


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_search_with_deleted_blocks_falls_back_to_log(tmp_path: Path, small_blocks: None, backwards: bool) -> None:
    """Blocks disappear while the views are replaced by rebuilt ones."""
    del small_blocks
    log_file, views_file = _open(tmp_path)
    log, views = SqliteLog(log_file), CountingViews(views_file)
    log.append(_commits()[:600])
    catch_up(projector(views), 1, log, views)
    lost = [BlockId(1, 5).item, BlockId(0, 30).item, BlockId(0, 0).item]
    with views_file.transaction() as connection:
        connection.execute("DELETE FROM record WHERE view LIKE '%/block' AND item IN (?, ?, ?)", lost)
    found = Installation(log, views).search(EVERY_TENTH, end=600, backwards=backwards)
    assert found == sorted(set(found), reverse=backwards)
    assert {*range(10, 601, 10), *range(1, 8), *range(240, 248), *range(320, 384)} <= set(found)
    log_file.close()
    views_file.close()


def _open(folder: Path) -> tuple[Database, Database]:
    return (
        Database(folder / "log.sqlite", durable=False),
        Database(folder / "views.sqlite", SCHEMA, durable=False),
    )


def _commits() -> list[Commit]:
    return [
        a_commit(session, at=session * 1_000, prev=(session - 1) * 1_000 if session > 1 else 0, texts=(_text(session),))
        for session in range(1, COMMITS + 1)
    ]


def _text(session: int) -> str:
    event_type: EventType = ("usual", f"n{session % 7}")
    if session in RARE:
        event_type = ("rare", RARE[session])
    elif session % 10 == 0:
        event_type = ("tenth",)
    return encode(NewEvent(type=event_type)).decode()


class SlowViews(SqliteViews):
    """Views whose clock advances by four seconds with each read of blocks."""

    elapsed_s = 0.0

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        if view.endswith(f"/{BLOCKS_VIEW}"):
            self.elapsed_s += 4.0
        return super().get(view, items)

    def monotonic(self) -> float:
        return self.elapsed_s


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_long_search_without_result_ends_in_time(
    tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    """`a` and `y` are in all blocks, but only one commit has both."""
    del small_blocks
    monkeypatch.setattr(block_search, "MIN_FRUITLESS_BLOCKS", 2**BITS - 1)
    wanted = 1 if backwards else 1_000
    types = [("a", "y") if number == wanted else ("a", "x") if number % 2 else ("b", "y") for number in range(1, 1_001)]
    log_file, views_file = _open(tmp_path)
    log, views = SqliteLog(log_file), SlowViews(views_file)
    log.append(_commits_of(types))
    catch_up(projector(views), 1, log, views)
    reader, spec = LogReader(log, views), PageSpec(Selection(types=(("a", "y"),)), limit=-1 if backwards else None)

    def read(position: Head) -> tuple[Page, Head]:
        """The page after a position, or before it, and the position of the next page."""
        if not backwards:
            page = collect_page(
                reader.commits_after(position, spec.selection).commits, position, 0, spec, views.monotonic
            )
            return page, page.scanned_to
        commits = reader.commits_before(position, spec.selection)
        page = collect_page_backwards(commits, position, 0, spec, views.monotonic)
        return page, reader.position_at(1, page.event_id - 1)

    position, times, texts = log.head(1) if backwards else Head(1), list[float](), list[str]()
    while not texts:
        began_s = views.elapsed_s
        page, position = read(position)
        texts = page.texts
        times.append(views.elapsed_s - began_s)
    assert len(times) > 3
    assert max(times) < 3 * SCAN_TIMEOUT_S
    log_file.close()
    views_file.close()


def _commits_of(types: Sequence[EventType]) -> list[Commit]:
    """One commit per type."""
    head, commits = Head(1), list[Commit]()
    for number, event_type in enumerate(types):
        append = Append(1, encode_within_limits([NewEvent(type=event_type)]), f"r{number}")
        commits.append(next_commit(head, append, number))
        head = commits[-1].head
    return commits
