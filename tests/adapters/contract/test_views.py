"""What every store of views promises: the docstrings of the port `Views`, one by one."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product

import pytest

from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.views.record import END, Change, Record
from chalicelib.services.ports import Views
from tests.builders import noise

VIEW = "1.1/object:job"
ITEMS = ["!", "/", "/a", "/a/1", "/a/10", "/a/2", "/a0", "/b", "A", "a", "z", "ß", "é", "日本", "\uffee", "🎉"]
"""In the order of their bytes. UTF-16 would put the last before the one before it."""
MORE_THAN_PAGES = {True: 1100, False: 300}
"""More records than SQLite, or else DynamoDB, reads or drops at once."""
MORE_THAN_A_MEGABYTE = 6
"""So many records of a quarter of a megabyte are more than a page of DynamoDB."""
RACERS = 4
RACES = 25
RACE_S = 30.0


@pytest.fixture(params=["sqlite", "moto", "ministack"])
def views(request: pytest.FixtureRequest) -> Views:
    """Each store, empty."""
    found: Views = request.getfixturevalue(f"{request.param}_views")
    return found


@pytest.fixture
def many(views: Views) -> int:
    """More records than the store reads or drops at once."""
    return MORE_THAN_PAGES[isinstance(views, SqliteViews)]


@pytest.fixture(params=["sqlite", "ministack"])
def shared_views(request: pytest.FixtureRequest) -> Views:
    """Each store that threads can share, empty; moto is not one."""
    found: Views = request.getfixturevalue(f"{request.param}_views")
    return found


def test_a_view_is_empty_at_first(views: Views) -> None:
    assert views.get(VIEW, ["/a"]) == {}
    assert list(views.range(VIEW, "", END)) == []
    assert views.drop(VIEW) == 0


def test_a_new_record_is_found_exactly_as_it_was_put(views: Views) -> None:
    record = Record(VIEW, "/a", 2**45 + 7, '{"n":[1]}')
    assert views.put([Change(record, None)]) == []
    assert views.get(VIEW, ["/a"]) == {"/a": record}
    assert list(views.range(VIEW, "/", END)) == [record]


@pytest.mark.parametrize(
    "data",
    [
        "7",
        "{}",
        '{"path":"/ß/日本/🎉"}',
        r'{"path":"\u0000 \" \\ \n"}',
        "it's '; DROP TABLE record; -- :was #to",
        "[" + "1," * 2_000 + "1]",
        noise(1_100),
        noise(300_000),
    ],
    ids=["number", "object", "non-ASCII", "escapes", "SQL", "sessions", "a little noise", "much noise"],
)
def test_data_survives_exactly(views: Views, data: str) -> None:
    record = Record(VIEW, "/a", 1, data)
    assert views.put([Change(record, None)]) == []
    assert (views.get(VIEW, ["/a"]), list(views.range(VIEW, "", END))) == ({"/a": record}, [record])


def test_getting_finds_those_items_that_there_are(views: Views) -> None:
    a, b = fill(views, "/a", "/b")
    assert views.get(VIEW, ["/b", "/missing", "/a", "/", "/A", "/a "]) == {"/a": a, "/b": b}


def test_getting_nothing_finds_nothing(views: Views) -> None:
    fill(views, "/a")
    assert views.get(VIEW, []) == {}


def test_an_item_asked_for_twice_is_found_once(views: Views) -> None:
    (a,) = fill(views, "/a")
    assert views.get(VIEW, ["/a", "/a", "/b", "/b"]) == {"/a": a}


def test_more_items_than_a_page_are_found(views: Views, many: int) -> None:
    records = fill(views, *numbered(many))
    asked = [f"/{n:05d}" for n in range(0, many * 2, 2)]
    assert views.get(VIEW, asked) == {record.item: record for record in records[::2]}


def test_views_are_separate(views: Views) -> None:
    names = ["1/x", "1.1/x", "11/x", "1.1/X", "1.1/x:y"]
    records = [Record(name, "/a", n, str(n)) for n, name in enumerate(names)]
    assert views.put([Change(record, None) for record in records]) == []
    assert [views.get(name, ["/a"]) for name in names] == [{"/a": record} for record in records]
    assert [list(views.range(name, "", END)) for name in names] == [[record] for record in records]


def test_a_change_takes_the_place_of_what_was_there(views: Views) -> None:
    fill(views, "/a", to=3)
    changed = Record(VIEW, "/a", 8, "changed")
    assert views.put([Change(changed, 3)]) == []
    assert list(views.range(VIEW, "", END)) == [changed]


def test_a_record_may_grow_and_shrink(views: Views) -> None:
    fill(views, "/a", to=0)
    for to, data in enumerate(["x" * 3_000, "x", noise(3_000), "", "x" * 900], start=1):
        assert views.put([Change(Record(VIEW, "/a", to, data), to - 1)]) == []
        assert views.get(VIEW, ["/a"]) == {"/a": Record(VIEW, "/a", to, data)}


@pytest.mark.parametrize("was", [None, 2, 4, 0], ids=["new", "older", "newer", "zero"])
def test_a_change_is_refused_if_the_record_is_not_what_it_was(views: Views, was: int | None) -> None:
    records = fill(views, "/a", to=3)
    change = Change(Record(VIEW, "/a", 5, "changed"), was)
    assert views.put([change]) == [change]
    assert list(views.range(VIEW, "", END)) == records


def test_a_change_of_a_record_that_is_not_there_is_refused(views: Views) -> None:
    change = Change(Record(VIEW, "/a", 5, "changed"), 3)
    assert views.put([change]) == [change]
    assert list(views.range(VIEW, "", END)) == []


def test_a_change_refused_can_be_made_again_from_what_is_there(views: Views) -> None:
    fill(views, "/a", to=3)
    record = Record(VIEW, "/a", 5, "changed")
    (refused,) = views.put([Change(record, 2)])
    assert views.put([Change(refused.record, views.get(VIEW, ["/a"])["/a"].to)]) == []
    assert views.get(VIEW, ["/a"]) == {"/a": record}


def test_putting_nothing_changes_nothing(views: Views) -> None:
    assert views.put([]) == []
    assert list(views.range(VIEW, "", END)) == []


@pytest.mark.parametrize("was", [None, 3], ids=["new", "changed"])
def test_a_change_repeated_after_a_lost_answer_changes_nothing(views: Views, was: int | None) -> None:
    if was is not None:
        fill(views, "/a", to=was)
    change = Change(Record(VIEW, "/a", 5, "ours"), was)
    assert views.put([change]) == []
    # Whether a repeat counts as written or as refused is the store's to say: the record is the same.
    assert views.put([change]) in ([], [change])
    assert list(views.range(VIEW, "", END)) == [change.record]


def test_one_change_refused_does_not_stop_the_others(views: Views) -> None:
    kept = fill(views, "/0", "/2", "/4", "/6", "/8", to=3)
    changes = [Change(Record(VIEW, f"/{n}", 5, f"changed {n}"), 3 if n % 4 == 0 else None) for n in range(10)]
    # 0, 4, 8 are what they were, 2 and 6 are not new, the odd ones are.
    assert views.put(changes) == [changes[2], changes[6]]
    assert list(views.range(VIEW, "", END)) == [kept[n // 2] if n in (2, 6) else changes[n].record for n in range(10)]


def test_changes_of_several_views_are_put_together(views: Views) -> None:
    changes = [Change(Record(f"1.1/{kind}", f"/{n}", 1, kind), None) for kind in "abc" for n in range(30)]
    assert views.put(changes) == []
    assert [list(views.range(f"1.1/{kind}", "", END)) for kind in "abc"] == [
        sorted((change.record for change in changes if change.record.data == kind), key=lambda record: record.item)
        for kind in "abc"
    ]


@pytest.mark.parametrize("backwards", [False, True], ids=["forward", "backwards"])
def test_a_range_begins_with_its_start_and_ends_before_its_end(filled: Views, backwards: bool) -> None:
    for start, end in product(["", *ITEMS[::3], "/a/", "ÿ", END], ["", *ITEMS[1::4], "/a/" + END, "ß" + END, END]):
        items = [item for item in ITEMS if start.encode() <= item.encode() < end.encode()]
        expected = [Record(VIEW, item, 1, item) for item in (items[::-1] if backwards else items)]
        assert (start, end, list(filled.range(VIEW, start, end, backwards))) == (start, end, expected)


def test_a_range_from_a_prefix_to_its_end_is_all_that_begins_with_it(filled: Views) -> None:
    assert [record.item for record in filled.range(VIEW, "/a/", "/a/" + END)] == ["/a/1", "/a/10", "/a/2"]
    assert [record.item for record in filled.range(VIEW, "日", "日" + END)] == ["日本"]


@pytest.mark.parametrize("item", ["/" + "x" * 999, "/" + "ß" * 450], ids=["long", "long and non-ASCII"])
def test_long_items_are_found(views: Views, item: str) -> None:
    records = fill(views, item)
    assert views.get(VIEW, [item]) == {item: records[0]}
    assert list(views.range(VIEW, item, item + END)) == records
    assert list(views.range(VIEW, item[:400], item[:400] + END, backwards=True)) == records


def test_ranges_over_many_pages_have_no_gap(views: Views, many: int) -> None:
    records = fill(views, *numbered(many))
    assert list(views.range(VIEW, "", END)) == records
    assert list(views.range(VIEW, "", END, backwards=True)) == records[::-1]
    for start, end in [("/00010", "/00290"), ("/00009x", "/00289x")]:
        assert list(views.range(VIEW, start, end)) == records[10:290]
        assert list(views.range(VIEW, start, end, backwards=True)) == records[10:290][::-1]


def test_ranges_about_as_long_as_a_page_are_whole(views: Views, many: int) -> None:
    records = fill(views, *numbered(many))
    for length in (1, 24, 25, 26, 124, 125, 126, 499, 500, 501):
        expected = records[:length]
        assert list(views.range(VIEW, "/", f"/{length:05d}")) == expected
        assert list(views.range(VIEW, "/", f"/{length:05d}", backwards=True)) == expected[::-1]


def test_ranges_of_large_records_have_no_gap(views: Views) -> None:
    records = [Record(VIEW, f"/{n}", 1, noise(300_000, seed=n)) for n in range(MORE_THAN_A_MEGABYTE)]
    assert views.put([Change(record, None) for record in records]) == []
    assert list(views.range(VIEW, "/", "/" + END)) == records
    assert list(views.range(VIEW, "/", "/" + END, backwards=True)) == records[::-1]
    assert views.get(VIEW, [record.item for record in records]) == {record.item: record for record in records}


def test_a_range_can_stop_anywhere(views: Views) -> None:
    records = fill(views, *numbered(60))
    assert next(views.range(VIEW, "", "/00030", backwards=True)) == records[29]
    assert next(views.range(VIEW, "/00029x", END)) == records[30]
    assert next(views.range(VIEW, "", "/00000", backwards=True), None) is None
    assert list(islice(views.range(VIEW, "", END), 40)) == records[:40]


def test_what_is_put_behind_a_reader_is_not_missed_before_it(views: Views, many: int) -> None:
    records = fill(views, *numbered(many))
    reading = views.range(VIEW, "", END)
    assert next(reading) == records[0]
    (last,) = fill(views, "/99999")
    assert list(reading) == [*records[1:], last]


def test_dropping_goes_on_until_nothing_is_left(views: Views, many: int) -> None:
    fill(views, *numbered(many))
    dropped = []
    while some := views.drop(VIEW):
        dropped.append(some)
        assert len(list(views.range(VIEW, "", END))) == many - sum(dropped)
    assert sum(dropped) == many
    assert len(dropped) > 1
    assert views.get(VIEW, ["/00000"]) == {}
    assert views.drop(VIEW) == 0


def test_dropping_one_view_leaves_the_others(views: Views) -> None:
    others = [Record(name, "/a", 1, name) for name in ("1.1/object:jobs", "1.1/object", "1.2/object:job", "1/receipt")]
    assert views.put([Change(record, None) for record in others]) == []
    fill(views, "/a", "/b")
    assert (views.drop(VIEW), views.drop(VIEW)) == (2, 0)
    assert [list(views.range(record.view, "", END)) for record in others] == [[record] for record in others]


def test_what_was_dropped_can_be_put_anew(views: Views) -> None:
    fill(views, "/a", to=9)
    views.drop(VIEW)
    (again,) = fill(views, "/a", to=1)
    assert list(views.range(VIEW, "", END)) == [again]


@pytest.mark.parametrize("new", [True, False], ids=["new", "changed"])
def test_of_writers_that_race_for_a_record_exactly_one_wins(shared_views: Views, new: bool) -> None:
    """All change the same record from the same state, in one put of several changes."""
    start = threading.Barrier(RACERS, timeout=RACE_S)

    def run(racer: int) -> list[list[str]]:
        refused = []
        for race in range(RACES):
            was = race - 1 if race and not new else None
            item = f"/{race}" if new else "/same"
            own = Change(Record(VIEW, f"/own/{racer}/{race}", race, ""), None)
            start.wait()
            put = shared_views.put([own, Change(Record(VIEW, item, race, f"racer {racer}"), was)])
            refused.append([change.record.item for change in put])
            start.wait()
        return refused

    with ThreadPoolExecutor(RACERS) as pool:
        refused = list(pool.map(run, range(RACERS)))
    contested = [f"/{race}" if new else "/same" for race in range(RACES)]
    outcomes = [sorted(refused[racer][race] for racer in range(RACERS)) for race in range(RACES)]
    assert outcomes == [[[], *([[item]] * (RACERS - 1))] for item in contested]
    last_winner = next(racer for racer in range(RACERS) if not refused[racer][-1])
    final = shared_views.get(VIEW, contested[-1:])
    assert final == {contested[-1]: Record(VIEW, contested[-1], RACES - 1, f"racer {last_winner}")}
    assert len(list(shared_views.range(VIEW, "/own/", "/own/" + END))) == RACERS * RACES


@pytest.fixture
def filled(views: Views) -> Views:
    """With one record for each of the items."""
    assert views.put([Change(Record(VIEW, item, 1, item), None) for item in ITEMS]) == []
    return views


def fill(views: Views, *items: str, to: int = 1) -> list[Record]:
    """Put new records; what they are."""
    records = [Record(VIEW, item, to, f"data of {item[:100]}") for item in items]
    assert views.put([Change(record, None) for record in records]) == []
    return records


def numbered(count: int) -> Sequence[str]:
    """So many items in their order."""
    return [f"/{n:05d}" for n in range(count)]
