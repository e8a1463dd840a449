"""Contract of the `Views` port, which every adapter fulfils."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product

import pytest

from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.views.record import MAX_CHARACTER, ConditionalWrite, Record
from chalicelib.services.ports import Views
from tests.builders import incompressible_text

VIEW = "1.1/object:job"
ITEMS = ["!", "/", "/a", "/a/1", "/a/10", "/a/2", "/a0", "/b", "A", "a", "z", "ß", "é", "日本", "\uffee", "🎉"]
"""In the order of their UTF-8 bytes. In UTF-16 the last two would be swapped."""
MORE_THAN_PAGES = {True: 1100, False: 300}
"""More records than SQLite (True) or DynamoDB (False) reads or drops at once."""
MORE_THAN_A_MEGABYTE = 6
"""This number of records of a quarter of a megabyte exceeds a page of DynamoDB."""
RACERS = 4
RACES = 25
RACE_TIMEOUT_S = 30.0


@pytest.fixture(params=["sqlite", "moto", "ministack", "boto3", "dynamodb_local", "localstack"])
def views(request: pytest.FixtureRequest) -> Views:
    """Each store, empty."""
    views_under_test: Views = request.getfixturevalue(f"{request.param}_views")
    return views_under_test


@pytest.fixture
def many_records(views: Views) -> int:
    """More records than the store reads or drops at once."""
    return MORE_THAN_PAGES[isinstance(views, SqliteViews)]


@pytest.fixture(params=["sqlite", "ministack", "boto3", "dynamodb_local", "localstack"])
def shared_views(request: pytest.FixtureRequest) -> Views:
    """Each store that threads can share, empty. Moto cannot be shared."""
    views_under_test: Views = request.getfixturevalue(f"{request.param}_views")
    return views_under_test


def test_new_view_is_empty(views: Views) -> None:
    assert views.get(VIEW, ["/a"]) == {}
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == []
    assert views.drop(VIEW) == 0


def test_put_new_record_is_returned_unchanged(views: Views) -> None:
    record = Record(VIEW, "/a", 2**45 + 7, '{"n":[1]}')
    assert views.put([ConditionalWrite(record, None)]) == []
    assert views.get(VIEW, ["/a"]) == {"/a": record}
    assert list(views.range(VIEW, "/", MAX_CHARACTER)) == [record]


@pytest.mark.parametrize(
    "data",
    [
        "7",
        "{}",
        '{"path":"/ß/日本/🎉"}',
        r'{"path":"\u0000 \" \\ \n"}',
        "it's '; DROP TABLE record; -- :was #to",
        "[" + "1," * 2_000 + "1]",
        incompressible_text(1_100),
        incompressible_text(300_000),
        incompressible_text(1_000_000),
    ],
    ids=["number", "object", "non-ASCII", "escapes", "SQL", "sessions", "some noise", "much noise", "several items"],
)
def test_put_stores_data_unchanged(views: Views, data: str) -> None:
    record = Record(VIEW, "/a", 1, data)
    assert views.put([ConditionalWrite(record, None)]) == []
    assert (views.get(VIEW, ["/a"]), list(views.range(VIEW, "", MAX_CHARACTER))) == ({"/a": record}, [record])


def test_put_replaces_large_record_by_large_and_by_small_one(views: Views) -> None:
    """Larger than an item of DynamoDB."""
    others = [Record(VIEW, "/", 1, "first"), Record(VIEW, "/a\0" + "0" * 17 + "1", 1, "last")]
    views.put([ConditionalWrite(other, None) for other in others])
    expected_version = None
    for version, size in ((1, 900_000), (2, 1_300_000), (3, 700_000), (4, 100)):
        record = Record(VIEW, "/a", version, incompressible_text(size, version))
        assert views.put([ConditionalWrite(record, expected_version)]) == []
        refused = ConditionalWrite(Record(VIEW, "/a", version + 1, incompressible_text(800_000, 9)), version + 5)
        assert views.put([refused]) == [refused]
        assert views.get(VIEW, ["/", "/a"]) == {"/": others[0], "/a": record}
        assert list(views.range(VIEW, "", MAX_CHARACTER)) == [others[0], record, others[1]]
        assert list(views.range(VIEW, "", MAX_CHARACTER, backwards=True)) == [others[1], record, others[0]]
        expected_version = version
    while views.drop(VIEW):
        pass
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == []


def test_get_returns_only_existing_items(views: Views) -> None:
    a, b = fill(views, "/a", "/b")
    assert views.get(VIEW, ["/b", "/missing", "/a", "/", "/A", "/a "]) == {"/a": a, "/b": b}


def test_get_of_nothing_returns_nothing(views: Views) -> None:
    fill(views, "/a")
    assert views.get(VIEW, []) == {}


def test_get_of_repeated_item_returns_it_once(views: Views) -> None:
    (a,) = fill(views, "/a")
    assert views.get(VIEW, ["/a", "/a", "/b", "/b"]) == {"/a": a}


def test_get_of_several_pages_returns_all_items(views: Views, many_records: int) -> None:
    records = fill(views, *numbered(many_records))
    items = [f"/{n:05d}" for n in range(0, many_records * 2, 2)]
    assert views.get(VIEW, items) == {record.item: record for record in records[::2]}


def test_views_are_separate(views: Views) -> None:
    names = ["1/x", "1.1/x", "11/x", "1.1/X", "1.1/x:y"]
    records = [Record(name, "/a", n, str(n)) for n, name in enumerate(names)]
    assert views.put([ConditionalWrite(record, None) for record in records]) == []
    assert [views.get(name, ["/a"]) for name in names] == [{"/a": record} for record in records]
    assert [list(views.range(name, "", MAX_CHARACTER)) for name in names] == [[record] for record in records]


def test_put_replaces_record(views: Views) -> None:
    fill(views, "/a", version=3)
    changed = Record(VIEW, "/a", 8, "changed")
    assert views.put([ConditionalWrite(changed, 3)]) == []
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == [changed]


def test_put_of_larger_and_smaller_data_is_stored(views: Views) -> None:
    fill(views, "/a", version=0)
    for version, data in enumerate(["x" * 3_000, "x", incompressible_text(3_000), "", "x" * 900], start=1):
        assert views.put([ConditionalWrite(Record(VIEW, "/a", version, data), version - 1)]) == []
        assert views.get(VIEW, ["/a"]) == {"/a": Record(VIEW, "/a", version, data)}


@pytest.mark.parametrize("expected_version", [None, 2, 4, 0], ids=["new", "older", "newer", "zero"])
def test_put_with_other_version_is_refused(views: Views, expected_version: int | None) -> None:
    records = fill(views, "/a", version=3)
    change = ConditionalWrite(Record(VIEW, "/a", 5, "changed"), expected_version)
    assert views.put([change]) == [change]
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == records


def test_put_with_version_of_missing_record_is_refused(views: Views) -> None:
    change = ConditionalWrite(Record(VIEW, "/a", 5, "changed"), 3)
    assert views.put([change]) == [change]
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == []


def test_put_refused_can_be_repeated_with_stored_version(views: Views) -> None:
    fill(views, "/a", version=3)
    record = Record(VIEW, "/a", 5, "changed")
    (refused,) = views.put([ConditionalWrite(record, 2)])
    assert views.put([ConditionalWrite(refused.record, views.get(VIEW, ["/a"])["/a"].version)]) == []
    assert views.get(VIEW, ["/a"]) == {"/a": record}


def test_put_of_nothing_changes_nothing(views: Views) -> None:
    assert views.put([]) == []
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == []


@pytest.mark.parametrize("expected_version", [None, 3], ids=["new", "changed"])
def test_put_repeated_changes_nothing(views: Views, expected_version: int | None) -> None:
    if expected_version is not None:
        fill(views, "/a", version=expected_version)
    change = ConditionalWrite(Record(VIEW, "/a", 5, "ours"), expected_version)
    assert views.put([change]) == []
    # A store may treat the repeat as written or as refused. The record is the same.
    assert views.put([change]) in ([], [change])
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == [change.record]


def test_put_with_one_refused_change_applies_others(views: Views) -> None:
    kept = fill(views, "/0", "/2", "/4", "/6", "/8", version=3)
    changes = [ConditionalWrite(Record(VIEW, f"/{n}", 5, f"changed {n}"), 3 if n % 4 == 0 else None) for n in range(10)]
    # 0, 4 and 8 have the expected version. 2 and 6 exist already. The odd ones are new.
    assert views.put(changes) == [changes[2], changes[6]]
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == [
        kept[n // 2] if n in (2, 6) else changes[n].record for n in range(10)
    ]


def test_put_of_several_views_is_applied(views: Views) -> None:
    changes = [ConditionalWrite(Record(f"1.1/{kind}", f"/{n}", 1, kind), None) for kind in "abc" for n in range(30)]
    assert views.put(changes) == []
    assert [list(views.range(f"1.1/{kind}", "", MAX_CHARACTER)) for kind in "abc"] == [
        sorted((change.record for change in changes if change.record.data == kind), key=lambda record: record.item)
        for kind in "abc"
    ]


@pytest.mark.parametrize("backwards", [False, True], ids=["forward", "backwards"])
def test_range_includes_start_and_excludes_end(filled: Views, backwards: bool) -> None:
    for start, end in product(
        ["", *ITEMS[::3], "/a/", "ÿ", MAX_CHARACTER],
        ["", *ITEMS[1::4], "/a/" + MAX_CHARACTER, "ß" + MAX_CHARACTER, MAX_CHARACTER],
    ):
        items = [item for item in ITEMS if start.encode() <= item.encode() < end.encode()]
        expected = [Record(VIEW, item, 1, item) for item in (items[::-1] if backwards else items)]
        assert (start, end, list(filled.range(VIEW, start, end, backwards))) == (start, end, expected)


def test_range_of_prefix_returns_all_items_with_prefix(filled: Views) -> None:
    assert [record.item for record in filled.range(VIEW, "/a/", "/a/" + MAX_CHARACTER)] == ["/a/1", "/a/10", "/a/2"]
    assert [record.item for record in filled.range(VIEW, "日", "日" + MAX_CHARACTER)] == ["日本"]


@pytest.mark.parametrize("item", ["/" + "x" * 999, "/" + "ß" * 450], ids=["long", "long and non-ASCII"])
def test_long_items_are_found(views: Views, item: str) -> None:
    records = fill(views, item)
    assert views.get(VIEW, [item]) == {item: records[0]}
    assert list(views.range(VIEW, item, item + MAX_CHARACTER)) == records
    assert list(views.range(VIEW, item[:400], item[:400] + MAX_CHARACTER, backwards=True)) == records


def test_range_over_many_pages_has_no_gap(views: Views, many_records: int) -> None:
    records = fill(views, *numbered(many_records))
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == records
    assert list(views.range(VIEW, "", MAX_CHARACTER, backwards=True)) == records[::-1]
    for start, end in [("/00010", "/00290"), ("/00009x", "/00289x")]:
        assert list(views.range(VIEW, start, end)) == records[10:290]
        assert list(views.range(VIEW, start, end, backwards=True)) == records[10:290][::-1]


def test_range_around_page_size_is_complete(views: Views, many_records: int) -> None:
    records = fill(views, *numbered(many_records))
    for length in (1, 24, 25, 26, 124, 125, 126, 499, 500, 501):
        expected = records[:length]
        assert list(views.range(VIEW, "/", f"/{length:05d}")) == expected
        assert list(views.range(VIEW, "/", f"/{length:05d}", backwards=True)) == expected[::-1]


def test_range_of_large_records_has_no_gap(views: Views) -> None:
    records = [Record(VIEW, f"/{n}", 1, incompressible_text(300_000, seed=n)) for n in range(MORE_THAN_A_MEGABYTE)]
    assert views.put([ConditionalWrite(record, None) for record in records]) == []
    assert list(views.range(VIEW, "/", "/" + MAX_CHARACTER)) == records
    assert list(views.range(VIEW, "/", "/" + MAX_CHARACTER, backwards=True)) == records[::-1]
    assert views.get(VIEW, [record.item for record in records]) == {record.item: record for record in records}


def test_range_can_be_abandoned(views: Views) -> None:
    records = fill(views, *numbered(60))
    assert next(views.range(VIEW, "", "/00030", backwards=True)) == records[29]
    assert next(views.range(VIEW, "/00029x", MAX_CHARACTER)) == records[30]
    assert next(views.range(VIEW, "", "/00000", backwards=True), None) is None
    assert list(islice(views.range(VIEW, "", MAX_CHARACTER), 40)) == records[:40]


def test_range_includes_record_put_ahead_while_reading(views: Views, many_records: int) -> None:
    records = fill(views, *numbered(many_records))
    records_iterator = views.range(VIEW, "", MAX_CHARACTER)
    assert next(records_iterator) == records[0]
    (last,) = fill(views, "/99999")
    assert list(records_iterator) == [*records[1:], last]


def test_delete_removes_only_given_records(views: Views) -> None:
    """More than DynamoDB deletes at once. Records that do not exist are ignored."""
    items = numbered(60)
    (kept,) = fill(views, "/kept", version=9)
    fill(views, *items)
    other = Record("1.1/object:jobs", items[0], 1, "{}")
    assert views.put([ConditionalWrite(other, None)]) == []
    views.delete(VIEW, [*items, "/unknown", items[0]])
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == [kept]
    assert views.get(other.view, [other.item]) == {other.item: other}
    views.delete(VIEW, [])
    views.delete(VIEW, items)
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == [kept]


def test_put_after_delete_stores_new_record(views: Views) -> None:
    fill(views, "/a", version=9)
    views.delete(VIEW, ["/a"])
    assert views.put([ConditionalWrite(Record(VIEW, "/a", 10, "{}"), 9)]) != []
    (new_record,) = fill(views, "/a", version=1)
    assert views.get(VIEW, ["/a"]) == {"/a": new_record}


def test_drop_repeated_deletes_all_records(views: Views, many_records: int) -> None:
    fill(views, *numbered(many_records))
    dropped = []
    while count := views.drop(VIEW):
        dropped.append(count)
        assert len(list(views.range(VIEW, "", MAX_CHARACTER))) == many_records - sum(dropped)
    assert sum(dropped) == many_records
    assert len(dropped) > 1
    assert views.get(VIEW, ["/00000"]) == {}
    assert views.drop(VIEW) == 0


def test_drop_leaves_other_views(views: Views) -> None:
    others = [Record(name, "/a", 1, name) for name in ("1.1/object:jobs", "1.1/object", "1.2/object:job", "1/receipt")]
    assert views.put([ConditionalWrite(record, None) for record in others]) == []
    fill(views, "/a", "/b")
    assert (views.drop(VIEW), views.drop(VIEW)) == (2, 0)
    assert [list(views.range(record.view, "", MAX_CHARACTER)) for record in others] == [[record] for record in others]


def test_put_after_drop_stores_new_record(views: Views) -> None:
    fill(views, "/a", version=9)
    views.drop(VIEW)
    (new_record,) = fill(views, "/a", version=1)
    assert list(views.range(VIEW, "", MAX_CHARACTER)) == [new_record]


@pytest.mark.parametrize("new", [True, False], ids=["new", "changed"])
def test_race_for_record_has_one_winner(shared_views: Views, new: bool) -> None:
    """All writers change the same record from the same version, in a put of several changes."""
    start = threading.Barrier(RACERS, timeout=RACE_TIMEOUT_S)

    def run(racer: int) -> list[list[str]]:
        refused = []
        for race in range(RACES):
            expected_version = race - 1 if race and not new else None
            item = f"/{race}" if new else "/same"
            own_write = ConditionalWrite(Record(VIEW, f"/own/{racer}/{race}", race, ""), None)
            start.wait()
            put = shared_views.put(
                [own_write, ConditionalWrite(Record(VIEW, item, race, f"racer {racer}"), expected_version)]
            )
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
    assert len(list(shared_views.range(VIEW, "/own/", "/own/" + MAX_CHARACTER))) == RACERS * RACES


@pytest.fixture
def filled(views: Views) -> Views:
    """A view with one record per item."""
    assert views.put([ConditionalWrite(Record(VIEW, item, 1, item), None) for item in ITEMS]) == []
    return views


def fill(views: Views, *items: str, version: int = 1) -> list[Record]:
    """Put new records and return them."""
    records = [Record(VIEW, item, version, f"data of {item[:100]}") for item in items]
    assert views.put([ConditionalWrite(record, None) for record in records]) == []
    return records


def numbered(count: int) -> Sequence[str]:
    """`count` items in order."""
    return [f"/{n:05d}" for n in range(count)]
