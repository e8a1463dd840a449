"""The history has one row per event with all its values."""

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
from glue_jobs.transforms.events import parse_events
from tests.glue.history import exports
from tests.glue.history.conftest import Workspace
from tests.glue.history.exports import NOON_US, Commit, Event, expected_rows, make_commits


def json_payload(data: str) -> str:
    return f'{{"type":"json","data":{data}}}'


DEEP = json_payload("[" * 5_000 + "]" * 5_000)
DIGITS = json_payload("[" + "7" * 5_000 + ",-0." + "3" * 5_000 + ",1E-400]")

EVENTS = {
    "nothing but a type": Event(key=None),
    "no subtypes": Event(type=()),
    "one empty subtype": Event(type=("",)),
    "empty subtypes": Event(type=("", "a", "", "")),
    "many subtypes": Event(type=tuple(f"t{number}" for number in range(200))),
    "an empty payload": Event(payload=json_payload('""')),
    "data that is null": Event(payload=json_payload("null")),
    "data that says null": Event(payload=json_payload('"null"')),
    "binary data": Event(payload='{"type":"binary","name":"","data":"AAEC/w=="}'),
    "text of everywhere": Event(
        ("größe", "サイズ"), "/ключ/🙂", None, json_payload('"\U0001f600 \U00010348 é e\u0301"')
    ),
    "separators of lines": Event(("a\u2028b", "c\u0085d"), "\u2029", None, json_payload('"\u2028\u2029\u0085"')),
    "escapes": Event(("a\nb", "\t"), "\r\n\x00\x7f\x1f", None, json_payload(r'"\n\r\t\u0000\ud83d\ude00\/"')),
    "a surrogate alone": Event(payload=json_payload(r'"\ud800 and \udc00"')),
    "quotes": Event(('"', '""'), '"/job/"1"', None, json_payload(r'"\"\"\\\""')),
    "backslashes": Event(("\\", '\\"'), "\\\\", None, json_payload(r'"\\\\"')),
    "the name of the payload in the key": Event(key=',"payload":'),
    "the name of the payload in a subtype": Event(type=(',"payload":', 'x","payload":{"y":"')),
    "the name of the payload as subtypes": Event(type=(",", "payload", ":")),
    "the name of the payload as the key": Event(type=("payload",), key="payload"),
    "the name of the payload in the payload": Event(payload=json_payload('{"a":1,"payload":{"b":2,"payload":null}}')),
    "event separators": Event(("},", "{"), "},{", None, json_payload(r'"},\n{"')),
    "text like another event": Event(payload=json_payload('{"x":[{"type":["a"]},{"type":["b"],"payload":null}]}')),
    "an empty key": Event(key=""),
    "a long payload": Event(payload=json_payload('"' + "lorem ipsum " * 25_000 + '"')),
    "a long key": Event(key="ü" * 450),
    "deep nesting": Event(payload=DEEP),
    "long numbers": Event(payload=DIGITS),
    "spaces in the payload": Event(payload='{ "type" : "json" , "data" : [ 1 , 2 ] }'),
    "members twice": Event(payload=json_payload('{"a":1,"a":2}')),
    "a time": Event(source="2016-11-04T11:07:36.606001Z"),
    "a time without a fraction": Event(source="2016-11-04T11:07:36Z"),
    "a time with milliseconds": Event(source="2016-11-04T11:07:36.606Z"),
    "a time before 1970": Event(source="1969-12-31T23:59:59.999999Z"),
    "the first time": Event(source="0001-01-01T00:00:00.000000Z"),
    "the last time": Event(source="9999-12-31T23:59:59.999999Z"),
    "tags": Event(tags=("show:1", "seat:12")),
    "tags behind a payload": Event(payload=json_payload('{"tags":["a"]}'), tags=("b",)),
    "tags that look like the end": Event(payload=json_payload("[]"), tags=("]}", '"],"tags":["', "}\n")),
    "the name of the tags in the payload": Event(payload=json_payload('{"x":1,"tags":["y"]}')),
    "the day of a leap": Event(source="2024-02-29T00:00:00.000000Z"),
}


@pytest.mark.parametrize("deflated", [False, True], ids=["plain", "deflated"])
@pytest.mark.parametrize("write", [exports.full_export, exports.incremental_export])
def test_events_keep_all_values(workspace: Workspace, write: object, deflated: bool) -> None:
    alone = [Commit(1, number, (event,), deflated=deflated) for number, event in enumerate(EVENTS.values(), start=1)]
    together = Commit(2, 1, tuple(EVENTS.values()), deflated=deflated)
    assert callable(write)
    write(workspace.exports, "01-all", [*alone, together])
    workspace.load()
    assert workspace.rows == expected_rows([*alone, together])


def test_export_with_plain_and_deflated_commits_is_loaded(workspace: Workspace) -> None:
    commits = [commit for server in (1, 2, 700, 2**31 - 1) for commit in make_commits(server, range(1, 20), events=3)]
    exports.full_export(workspace.exports, "01-full", commits[::-1], file_items=7)
    workspace.load()
    assert workspace.rows == expected_rows(commits)


def test_full_and_incremental_exports_are_combined(workspace: Workspace) -> None:
    exports.full_export(workspace.exports, "01-full", make_commits(1, range(1, 6)) + make_commits(2, range(1, 3)))
    exports.incremental_export(workspace.exports, "02-more", make_commits(1, range(6, 8)))
    exports.incremental_export(
        workspace.exports, "03-more", make_commits(1, range(8, 9)) + make_commits(3, range(1, 2))
    )
    load = workspace.load()
    assert load is not None
    assert load.exports == ["01-full", "02-more", "03-more"]
    assert workspace.rows == expected_rows(
        make_commits(1, range(1, 9)) + make_commits(2, range(1, 3)) + make_commits(3, range(1, 2))
    )


def test_full_and_incremental_lines_in_one_file(workspace: Workspace) -> None:
    one, two, three = make_commits(1, range(1, 4))
    exports.export(workspace.exports, "01-mixed", [[exports.full(one), exports.changed(two), exports.full(three)]])
    workspace.load()
    assert workspace.rows == expected_rows([one, two, three])


def test_internal_logs_are_not_in_history(workspace: Workspace) -> None:
    own = [commit for server in (0, -1, -700) for commit in make_commits(server, range(1, 4))]
    exports.full_export(workspace.exports, "01-full", own + make_commits(1, range(1, 3)))
    workspace.load()
    assert workspace.rows == expected_rows(make_commits(1, range(1, 3)))
    assert [folder.name for folder in (workspace.lake / "events").iterdir()] == ["server=1"]


def test_export_of_internal_logs_only_adds_nothing(workspace: Workspace) -> None:
    exports.full_export(workspace.exports, "01-full", make_commits(0, range(1, 4)))
    load = workspace.load()
    assert load is not None
    assert (load.files, workspace.rows) == ([], [])


def test_commits_deleted_from_log_stay_in_history(loaded: Workspace) -> None:
    before = exports.read_files(loaded.lake, "events")
    exports.incremental_export(loaded.exports, "02-gone", [], gone=make_commits(1, range(1, 3)))
    loaded.load()
    assert exports.read_files(loaded.lake, "events") == before


def test_deletions_in_export_are_ignored(workspace: Workspace) -> None:
    commits = make_commits(1, range(1, 10))
    lines = [made(one) for one in commits for made in (exports.changed, lambda one: exports.deleted(1, one.session))]
    exports.export(workspace.exports, "01-both", [lines])
    workspace.load()
    assert workspace.rows == expected_rows(commits)


def test_commit_with_ttl_is_in_history(workspace: Workspace) -> None:
    commits = [replace(commit, more=(("ttl", "N", "1793534400"),)) for commit in make_commits(1, range(1, 5))]
    exports.full_export(workspace.exports, "01-full", commits[:2])
    exports.incremental_export(workspace.exports, "02-more", commits[2:])
    workspace.load()
    assert workspace.rows == expected_rows(commits)


def test_commit_with_and_without_ttl_is_the_same(workspace: Workspace) -> None:
    one = make_commits(1, range(1, 2))[0]
    exports.full_export(workspace.exports, "01-full", [one])
    exports.full_export(workspace.exports, "02-full", [replace(one, more=(("ttl", "N", "1793534400"),))])
    workspace.load()
    assert workspace.rows == expected_rows([one])


@pytest.mark.parametrize(
    ("at", "day"),
    [
        pytest.param(NOON_US // 86_400_000_000 * 86_400_000_000, "2026-11-01", id="first of a day"),
        pytest.param(NOON_US // 86_400_000_000 * 86_400_000_000 - 1, "2026-10-31", id="last of a day"),
        pytest.param(1, "1970-01-01", id="first of all"),
        pytest.param(2**53 - 3, "2255-06-05", id="last of all"),
    ],
)
def test_commit_is_on_utc_day_of_its_first_event(workspace: Workspace, at: int, day: str) -> None:
    commit = Commit(1, 1, (Event(), Event(), Event()), at=at)
    exports.full_export(workspace.exports, "01-full", [commit])
    load = workspace.load()
    assert load is not None
    assert load.days == {(1, day)}
    assert workspace.rows == expected_rows([commit])


def test_commits_with_alternating_days_are_split_by_day(workspace: Workspace) -> None:
    at = [NOON_US + shift * exports.DAY_US for shift in (0, 1, 0, 5, 1, 0)]
    commits = [Commit(1, number, (Event(),) * 3, at=one + number) for number, one in enumerate(at, start=1)]
    exports.full_export(workspace.exports, "01-full", commits)
    workspace.load()
    assert workspace.rows == expected_rows(commits)


def test_sessions_of_many_tasks_are_complete(workspace: Workspace) -> None:
    sessions = [1, 9_999, 10_000, 10_001, 19_999, 20_000, 5_000_000, 2**53]
    commits = [replace(commit, at=NOON_US) for commit in make_commits(1, sessions)]
    exports.full_export(workspace.exports, "01-full", commits, file_items=3)
    workspace.load()
    assert workspace.rows == expected_rows(commits)


@given(st.lists(st.builds(Event, st.tuples(st.text(), st.text()), st.none() | st.text()), min_size=1, max_size=4))
def test_any_text_in_types_and_keys_is_kept(events: list[Event]) -> None:
    texts = [text for event in events for text in (*event.type, event.key or "")]
    said = [replace(event, payload=json_payload(json.dumps(texts, ensure_ascii=False))) for event in events]
    commit = Commit(1, 1, tuple(said))
    batch = pa.RecordBatch.from_pylist(
        [{"session": 1, "at": commit.begin_us, "n": len(said), "body": commit.body, "z": None}],
        pa.schema(
            [("session", pa.int64()), ("at", pa.int64()), ("n", pa.int32()), ("body", pa.string()), ("z", pa.binary())]
        ),
    )
    found = parse_events(batch).to_pylist()
    assert [(tuple(row["type"]), row["key"], row["payload"]) for row in found] == [
        (event.type, event.key, event.payload) for event in said
    ]


def test_history_is_readable_by_duckdb(workspace: Workspace) -> None:
    exports.full_export(workspace.exports, "01-full", make_commits(1, range(1, 30)) + make_commits(2, range(1, 3)))
    workspace.load()
    pattern = Path(workspace.lake) / "events/*/*/*.parquet"
    asked = f"select server, type[2], count(*) from '{pattern}' where type[1] = 'job' group by all order by all"
    assert duckdb.connect().execute(asked).fetchall() == [(1, "progress", 58), (2, "progress", 4)]


def test_large_commits_are_split_into_batches(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_writer, "BATCH_BYTES", 1_000)
    monkeypatch.setattr(event_writer, "GROUP_BYTES", 4_000)
    commits = [replace(commit, deflated=bool(commit.session % 2)) for commit in make_commits(1, range(1, 60), events=3)]
    exports.full_export(workspace.exports, "01", commits)
    workspace.load()
    assert workspace.rows == expected_rows(commits)
    (path, *_) = sorted(workspace.lake.rglob("events/*/*/*.parquet"))
    assert pq.ParquetFile(path).num_row_groups > 1
