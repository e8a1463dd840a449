"""The history has one row for each event, and all of it is as it was written."""

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue_jobs.lake import event_writer
from glue_jobs.transforms.events import events_of
from tests.glue.history import exports
from tests.glue.history.conftest import Place
from tests.glue.history.exports import NOON_US, Commit, Event, commits_of, rows_of


def a_json(data: str) -> str:
    return f'{{"type":"json","data":{data}}}'


DEEP = a_json("[" * 5_000 + "]" * 5_000)
DIGITS = a_json("[" + "7" * 5_000 + ",-0." + "3" * 5_000 + ",1E-400]")

EVENTS = {
    "nothing but a type": Event(key=None),
    "no subtypes": Event(type=()),
    "many subtypes": Event(type=tuple(f"t{number}" for number in range(200))),
    "an empty payload": Event(payload=a_json('""')),
    "data that is null": Event(payload=a_json("null")),
    "data that says null": Event(payload=a_json('"null"')),
    "binary data": Event(payload='{"type":"binary","name":"","data":"AAEC/w=="}'),
    "text of everywhere": Event(("größe", "サイズ"), "/ключ/🙂", None, a_json('"\U0001f600 \U00010348 é e\u0301"')),
    "separators of lines": Event(("a\u2028b", "c\u0085d"), "\u2029", None, a_json('"\u2028\u2029\u0085"')),
    "escapes": Event(("a\nb", "\t"), "\r\n\x00\x7f\x1f", None, a_json(r'"\n\r\t\u0000\ud83d\ude00\/"')),
    "a surrogate alone": Event(payload=a_json(r'"\ud800 and \udc00"')),
    "quotes": Event(('"', '""'), '"/job/"1"', None, a_json(r'"\"\"\\\""')),
    "backslashes": Event(("\\", '\\"'), "\\\\", None, a_json(r'"\\\\"')),
    "the name of the payload in the key": Event(key=',"payload":'),
    "the name of the payload in a subtype": Event(type=(',"payload":', 'x","payload":{"y":"')),
    "the name of the payload as subtypes": Event(type=(",", "payload", ":")),
    "the name of the payload as the key": Event(type=("payload",), key="payload"),
    "the name of the payload in the payload": Event(payload=a_json('{"a":1,"payload":{"b":2,"payload":null}}')),
    "what separates events": Event(("},", "{"), "},{", None, a_json(r'"},\n{"')),
    "what looks like the next event": Event(payload=a_json('{"x":[{"type":["a"]},{"type":["b"],"payload":null}]}')),
    "an empty key": Event(key=""),
    "a long payload": Event(payload=a_json('"' + "lorem ipsum " * 25_000 + '"')),
    "a long key": Event(key="ü" * 450),
    "deep nesting": Event(payload=DEEP),
    "long numbers": Event(payload=DIGITS),
    "spaces in the payload": Event(payload='{ "type" : "json" , "data" : [ 1 , 2 ] }'),
    "members twice": Event(payload=a_json('{"a":1,"a":2}')),
    "a time": Event(source="2016-11-04T11:07:36.606001Z"),
    "a time without a fraction": Event(source="2016-11-04T11:07:36Z"),
    "a time with milliseconds": Event(source="2016-11-04T11:07:36.606Z"),
    "a time before 1970": Event(source="1969-12-31T23:59:59.999999Z"),
    "the first time": Event(source="0001-01-01T00:00:00.000000Z"),
    "the last time": Event(source="9999-12-31T23:59:59.999999Z"),
    "the day of a leap": Event(source="2024-02-29T00:00:00.000000Z"),
}


@pytest.mark.parametrize("deflated", [False, True], ids=["plain", "deflated"])
@pytest.mark.parametrize("write", [exports.full_export, exports.incremental_export])
def test_every_column_of_every_event_is_as_it_was_written(place: Place, write: object, deflated: bool) -> None:
    alone = [Commit(1, number, (event,), deflated=deflated) for number, event in enumerate(EVENTS.values(), start=1)]
    together = Commit(2, 1, tuple(EVENTS.values()), deflated=deflated)
    assert callable(write)
    write(place.exports, "01-all", [*alone, together])
    place.load()
    assert place.rows == rows_of([*alone, together])


def test_plain_and_deflated_commits_of_several_servers_come_out_of_one_export(place: Place) -> None:
    commits = [commit for server in (1, 2, 700, 2**31 - 1) for commit in commits_of(server, range(1, 20), events=3)]
    exports.full_export(place.exports, "01-full", commits[::-1], file_items=7)
    place.load()
    assert place.rows == rows_of(commits)


def test_full_and_incremental_exports_come_together(place: Place) -> None:
    exports.full_export(place.exports, "01-full", commits_of(1, range(1, 6)) + commits_of(2, range(1, 3)))
    exports.incremental_export(place.exports, "02-more", commits_of(1, range(6, 8)))
    exports.incremental_export(place.exports, "03-more", commits_of(1, range(8, 9)) + commits_of(3, range(1, 2)))
    load = place.load()
    assert load is not None
    assert load.exports == ["01-full", "02-more", "03-more"]
    assert place.rows == rows_of(commits_of(1, range(1, 9)) + commits_of(2, range(1, 3)) + commits_of(3, range(1, 2)))


def test_full_and_incremental_lines_may_be_in_one_file(place: Place) -> None:
    one, two, three = commits_of(1, range(1, 4))
    exports.export(place.exports, "01-mixed", [[exports.full(one), exports.changed(two), exports.full(three)]])
    place.load()
    assert place.rows == rows_of([one, two, three])


def test_the_logs_of_the_server_itself_are_not_in_the_history(place: Place) -> None:
    own = [commit for server in (0, -1, -700) for commit in commits_of(server, range(1, 4))]
    exports.full_export(place.exports, "01-full", own + commits_of(1, range(1, 3)))
    place.load()
    assert place.rows == rows_of(commits_of(1, range(1, 3)))
    assert [folder.name for folder in (place.lake / "events").iterdir()] == ["server=1"]


def test_an_export_of_the_servers_own_logs_alone_adds_nothing(place: Place) -> None:
    exports.full_export(place.exports, "01-full", commits_of(0, range(1, 4)))
    load = place.load()
    assert load is not None
    assert (load.files, place.rows) == ([], [])


def test_what_was_deleted_stays(loaded: Place) -> None:
    before = exports.files_in(loaded.lake, "events")
    exports.incremental_export(loaded.exports, "02-gone", [], gone=commits_of(1, range(1, 3)))
    loaded.load()
    assert exports.files_in(loaded.lake, "events") == before


def test_deletions_among_commits_change_nothing(place: Place) -> None:
    commits = commits_of(1, range(1, 10))
    lines = [made(one) for one in commits for made in (exports.changed, lambda one: exports.deleted(1, one.session))]
    exports.export(place.exports, "01-both", [lines])
    place.load()
    assert place.rows == rows_of(commits)


def test_a_commit_that_will_expire_is_in_the_history(place: Place) -> None:
    commits = [replace(commit, more=(("ttl", "N", "1793534400"),)) for commit in commits_of(1, range(1, 5))]
    exports.full_export(place.exports, "01-full", commits[:2])
    exports.incremental_export(place.exports, "02-more", commits[2:])
    place.load()
    assert place.rows == rows_of(commits)


def test_a_commit_with_and_without_its_end_is_the_same(place: Place) -> None:
    one = commits_of(1, range(1, 2))[0]
    exports.full_export(place.exports, "01-full", [one])
    exports.full_export(place.exports, "02-full", [replace(one, more=(("ttl", "N", "1793534400"),))])
    place.load()
    assert place.rows == rows_of([one])


@pytest.mark.parametrize(
    ("at", "day"),
    [
        pytest.param(NOON_US // 86_400_000_000 * 86_400_000_000, "2026-11-01", id="first of a day"),
        pytest.param(NOON_US // 86_400_000_000 * 86_400_000_000 - 1, "2026-10-31", id="last of a day"),
        pytest.param(1, "1970-01-01", id="first of all"),
        pytest.param(2**53 - 3, "2255-06-05", id="last of all"),
    ],
)
def test_a_commit_belongs_to_the_day_in_utc_on_which_it_began(place: Place, at: int, day: str) -> None:
    commit = Commit(1, 1, (Event(), Event(), Event()), at=at)
    exports.full_export(place.exports, "01-full", [commit])
    load = place.load()
    assert load is not None
    assert load.days == {(1, day)}
    assert place.rows == rows_of([commit])


def test_days_that_go_back_and_forth_are_each_in_their_place(place: Place) -> None:
    at = [NOON_US + shift * exports.DAY_US for shift in (0, 1, 0, 5, 1, 0)]
    commits = [Commit(1, number, (Event(),) * 3, at=one + number) for number, one in enumerate(at, start=1)]
    exports.full_export(place.exports, "01-full", commits)
    place.load()
    assert place.rows == rows_of(commits)


def test_sessions_of_many_tasks_are_all_there(place: Place) -> None:
    sessions = [1, 9_999, 10_000, 10_001, 19_999, 20_000, 5_000_000, 2**53]
    commits = [replace(commit, at=NOON_US) for commit in commits_of(1, sessions)]
    exports.full_export(place.exports, "01-full", commits, file_items=3)
    place.load()
    assert place.rows == rows_of(commits)


@given(st.lists(st.builds(Event, st.tuples(st.text(), st.text()), st.none() | st.text()), min_size=1, max_size=4))
def test_any_text_of_types_and_keys_is_taken_as_it_is(events: list[Event]) -> None:
    texts = [text for event in events for text in (*event.type, event.key or "")]
    said = [replace(event, payload=a_json(json.dumps(texts, ensure_ascii=False))) for event in events]
    commit = Commit(1, 1, tuple(said))
    batch = pa.RecordBatch.from_pylist(
        [{"session": 1, "at": commit.begin_us, "n": len(said), "body": commit.body, "z": None}],
        pa.schema(
            [("session", pa.int64()), ("at", pa.int64()), ("n", pa.int32()), ("body", pa.string()), ("z", pa.binary())]
        ),
    )
    found = events_of(batch).to_pylist()
    assert [(tuple(row["type"]), row["key"], row["payload"]) for row in found] == [
        (event.type, event.key, event.payload) for event in said
    ]


def test_any_program_can_read_it(place: Place) -> None:
    exports.full_export(place.exports, "01-full", commits_of(1, range(1, 30)) + commits_of(2, range(1, 3)))
    place.load()
    pattern = Path(place.lake) / "events/*/*/*.parquet"
    asked = f"select server, type[2], count(*) from '{pattern}' where type[1] = 'job' group by all order by all"
    assert duckdb.connect().execute(asked).fetchall() == [(1, "progress", 58), (2, "progress", 4)]


def test_large_commits_are_taken_a_few_at_a_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_writer, "BYTES_AT_ONCE", 1_000)
    monkeypatch.setattr(event_writer, "GROUP_BYTES", 4_000)
    commits = [replace(commit, deflated=bool(commit.session % 2)) for commit in commits_of(1, range(1, 60), events=3)]
    exports.full_export(place.exports, "01", commits)
    place.load()
    assert place.rows == rows_of(commits)
    (path, *_) = sorted(place.lake.rglob("events/*/*/*.parquet"))
    assert pq.ParquetFile(path).num_row_groups > 1
