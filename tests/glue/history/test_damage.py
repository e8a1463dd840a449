"""A broken export ends the run: the error names the file, and the lake is unchanged."""

import base64
import gzip
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from glue_jobs.errors import BrokenExport, Conflict, HistoryError
from glue_jobs.exports.reader import MAX_BODY_BYTES, MAX_LINE_BYTES
from tests.glue.history import exports
from tests.glue.history.conftest import Workspace
from tests.glue.history.exports import FILES, FOLDER, SUMMARY, Commit, Event, expected_rows, make_commits

BROKEN = "02-broken"
DATA = f"{FOLDER}/{BROKEN}/data/{BROKEN}-000.json.gz"
COMMIT = Commit(1, 5, (Event(payload='{"type":"json","data":1}'), Event(("job", "finish"))))
LINES = [exports.full(commit) for commit in make_commits(1, range(6, 60), events=3)]
GOOD = gzip.compress(b"".join(LINES))
HEAD = '"type":["a"],"key":null,"sourceTimestamp":null'
EVENT = f'{{{HEAD},"payload":null}}'

Bytes = Callable[[bytes], bytes]


def _zeros_at(content: bytes, index: int) -> bytes:
    return content[:index] + bytes(16) + content[index + 16 :]


ON_DISK: dict[str, Bytes] = {
    "nothing left": lambda _: b"",
    "cut in the header": lambda content: content[:5],
    "cut after the header": lambda content: content[:10],
    "cut in the middle": lambda content: content[: len(content) // 2],
    "cut before the checksum": lambda content: content[:-8],
    "cut by a byte": lambda content: content[:-1],
    "zeros early": lambda content: _zeros_at(content, 12),
    "zeros in the middle": lambda content: _zeros_at(content, len(content) // 2),
    "zeros at the end": lambda content: _zeros_at(content, len(content) - 16),
    "something after the end": lambda content: content + b"and so on",
    "one more byte": lambda content: content + b"\x1f",
    "half of another after it": lambda content: content + content[: len(content) // 2],
    "not compressed": gzip.decompress,
    "deflated but no gzip": lambda content: zlib.compress(gzip.decompress(content)),
    "other text": lambda _: b"<Error><Code>AccessDenied</Code></Error>",
}


def _assert_refused(workspace: Workspace, kind: type[Exception], *named: str) -> None:
    """Assert that the next load fails with these texts and leaves the lake unchanged."""
    exports.full_export(workspace.exports, "03-good", make_commits(1, range(100, 110)) + make_commits(2, range(1, 5)))
    before = exports.read_files(workspace.lake)
    with pytest.raises(kind) as caught:
        workspace.load()
    for name in named:
        assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert exports.read_files(workspace.lake) == before


@pytest.mark.parametrize("is_listed", [True, False], ids=["matching manifest", "stale manifest"])
@pytest.mark.parametrize("damage", ON_DISK.values(), ids=ON_DISK)
def test_broken_data_file_is_named(loaded: Workspace, damage: Bytes, is_listed: bool) -> None:
    broken = damage(GOOD)
    (path,) = exports.raw_export(loaded.exports, BROKEN, [(broken if is_listed else GOOD, len(LINES))])
    path.write_bytes(broken)
    _assert_refused(loaded, HistoryError, DATA)


def test_too_long_line_is_refused(loaded: Workspace) -> None:
    line = b"{" + b" " * 2 * MAX_LINE_BYTES + LINES[0][1:]
    exports.raw_export(loaded.exports, BROKEN, [(gzip.compress(line), 1)])
    _assert_refused(loaded, BrokenExport, DATA, "a line has more than")


def test_broken_file_among_others_is_named(loaded: Workspace) -> None:
    exports.raw_export(loaded.exports, BROKEN, [(GOOD, len(LINES)), (GOOD[:-3], len(LINES)), (GOOD, len(LINES))])
    _assert_refused(loaded, HistoryError, f"{BROKEN}-001.json.gz", "cut off")


def test_missing_data_file_is_named(loaded: Workspace) -> None:
    _, path = exports.export(loaded.exports, BROKEN, [LINES, LINES])
    path.unlink()
    _assert_refused(loaded, HistoryError, f"{BROKEN}-001.json.gz", "no such file")


def test_data_file_with_other_content_is_named(loaded: Workspace) -> None:
    (path,) = exports.export(loaded.exports, BROKEN, [LINES])
    path.write_bytes(gzip.compress(b"".join(LINES[::-1])))
    _assert_refused(loaded, HistoryError, DATA, "checksum")


@pytest.mark.parametrize("items", [0, len(LINES) - 1, len(LINES) + 1])
def test_data_file_with_other_item_count_is_named(loaded: Workspace, items: int) -> None:
    exports.raw_export(loaded.exports, BROKEN, [(GOOD, items)])
    _assert_refused(loaded, HistoryError, DATA, f"{len(LINES)} items", f"says {items}")


SUMMARIES: dict[str, bytes] = {
    "an item less": exports.line({"itemCount": len(LINES) - 1}),
    "an item more": exports.line({"itemCount": len(LINES) + 1}),
    "no count": exports.line({"exportArn": "arn"}),
    "not an object": b"[]",
    "not JSON": b'{"itemCount": ',
    "nothing": b"",
    "not UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("summary", SUMMARIES.values(), ids=SUMMARIES)
def test_invalid_summary_is_named(loaded: Workspace, summary: bytes) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    exports.manifest(loaded.exports / FOLDER / BROKEN / SUMMARY, summary)
    _assert_refused(loaded, BrokenExport, f"{FOLDER}/{BROKEN}/{SUMMARY}")


LISTS: dict[str, Bytes] = {
    "half a line": lambda content: content[: len(content) // 2],
    "not JSON": lambda _: b"data files\n",
    "not an object": lambda _: b"[]\n",
    "no count": lambda content: content.replace(b"itemCount", b"items"),
    "not a number": lambda content: content.replace(str(len(LINES)).encode(), b'"many"'),
    "no key": lambda content: content.replace(b"dataFileS3Key", b"key"),
    "not base64": lambda content: content.replace(b"==", b"=!"),
    "not UTF-8": lambda content: content.replace(b"itemCount", b"item\xff\xff\xff"),
}


@pytest.mark.parametrize("damage", LISTS.values(), ids=LISTS)
def test_invalid_list_of_files_is_named(loaded: Workspace, damage: Bytes) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    path = loaded.exports / FOLDER / BROKEN / FILES
    assert damage(path.read_bytes()) != path.read_bytes()
    exports.manifest(path, damage(path.read_bytes()))
    _assert_refused(loaded, BrokenExport, f"{FOLDER}/{BROKEN}/{FILES}")


@pytest.mark.parametrize("name", [SUMMARY, FILES])
def test_manifest_with_other_checksum_is_named(loaded: Workspace, name: str) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    path = loaded.exports / FOLDER / BROKEN / name
    path.with_suffix(".checksum").write_text(exports.md5_of(b"something else"))
    _assert_refused(loaded, BrokenExport, f"{FOLDER}/{BROKEN}/{name}", "checksum")


def test_missing_list_of_files_is_named(loaded: Workspace) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    (loaded.exports / FOLDER / BROKEN / FILES).unlink()
    _assert_refused(loaded, BrokenExport, f"{FOLDER}/{BROKEN}/{FILES}")


def test_data_file_with_other_checksum_is_named(loaded: Workspace) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    path = loaded.exports / FOLDER / BROKEN / FILES
    other = re.sub(rb'"md5Checksum":"[^"]*"', b'"md5Checksum":"%s"' % exports.md5_of(b"x").encode(), path.read_bytes())
    exports.manifest(path, other)
    _assert_refused(loaded, HistoryError, DATA, "checksum")


IN_LINES: dict[str, bytes] = {
    "not JSON": b"and so on\n",
    "half an object": exports.full(COMMIT)[:-20] + b"\n",
    "a number": b"5\n",
    "a list": b"[]\n",
    "null": b"null\n",
    "an empty object": b"{}\n",
    "an Item that is null": b'{"Item":null}\n',
    "an Item that is text": b'{"Item":"5"}\n',
    "an Item that is empty": b'{"Item":{}}\n',
    "invalid UTF-8": exports.full(COMMIT).replace(b"/job/1", b"/job/\xff\xfe"),
    "half of a surrogate pair": exports.full(COMMIT).replace(b"/job/1", rb"/job/\ud800"),
    "a new image without keys": exports.line({"NewImage": COMMIT.item}),
    "an old image": exports.line({"Keys": {}, "OldImage": COMMIT.item}),
    "an unknown member": exports.line({"Item": COMMIT.item, "Other": {}}),
    "an unknown attribute": exports.with_item(COMMIT, other={"S": "x"}),
    "an unknown attribute that is null": exports.with_item(COMMIT, other={"NULL": True}),
    "S instead of N": exports.with_item(COMMIT, server={"S": "1"}),
    "N instead of S": exports.with_item(COMMIT, body={"N": "1"}),
    "B instead of S": exports.with_item(COMMIT, body={"B": "MQ=="}),
    "S instead of B": exports.with_item(COMMIT, body=None, z={"S": "MQ=="}),
    "a number without its type": exports.with_item(COMMIT, session={"N": 5}),
    "text without its type": exports.line({"Item": {**COMMIT.item, "at": "5"}}),
    "no server": exports.with_item(COMMIT, server=None),
    "no session": exports.with_item(COMMIT, session=None),
    "no at": exports.with_item(COMMIT, at=None),
    "no n": exports.with_item(COMMIT, n=None),
    "a server with a fraction": exports.with_item(COMMIT, server={"N": "1.5"}),
    "a session that is not a number": exports.with_item(COMMIT, session={"N": "five"}),
    "a session that is empty": exports.with_item(COMMIT, session={"N": ""}),
    "a session that is too large": exports.with_item(COMMIT, session={"N": "9" * 30}),
    "a server that is too large": exports.with_item(COMMIT, server={"N": str(2**31)}),
    "an at that is too late": exports.with_item(COMMIT, at={"N": str(2**53)}),
    "an at before 1970": exports.with_item(COMMIT, at={"N": "-1"}),
    "body and z": exports.with_item(COMMIT, z={"B": "MQ=="}),
    "neither body nor z": exports.with_item(COMMIT, body=None),
    "z that is not base64": exports.with_item(COMMIT, body=None, z={"B": "no base64!"}),
    "z with less padding": exports.with_item(COMMIT, body=None, z={"B": "MQ="}),
    "the server's own item with an unknown attribute": exports.with_item(replace(COMMIT, server=0), other={"S": "x"}),
}


@pytest.mark.parametrize("line", IN_LINES.values(), ids=IN_LINES)
def test_invalid_line_is_named_by_its_file(loaded: Workspace, line: bytes) -> None:
    exports.export(loaded.exports, BROKEN, [[*LINES, line, *LINES]])
    _assert_refused(loaded, HistoryError, DATA)


def _deflated(content: bytes) -> bytes:
    return exports.with_item(COMMIT, body=None, z={"B": base64.b64encode(content).decode()})


INFLATED = COMMIT.body.encode()
IN_COMMITS: dict[str, bytes] = {
    "z that does not inflate": _deflated(b"no zlib"),
    "z that is cut": _deflated(zlib.compress(INFLATED)[:-1]),
    "z that is empty": _deflated(b""),
    "z with another checksum": _deflated(zlib.compress(INFLATED)[:-4] + b"abcd"),
    "z that is gzip": _deflated(gzip.compress(INFLATED)),
    "z that inflates to more than any commit": _deflated(
        zlib.compress(INFLATED.replace(b"1}", b"1" * MAX_BODY_BYTES + b"}"))
    ),
    "z that is not UTF-8": _deflated(zlib.compress(INFLATED.replace(b'"data":1', b'"data":"\xff"'))),
    "z with a key that is not UTF-8": _deflated(zlib.compress(INFLATED.replace(b"/job/1", b"/job/\xff"))),
    "n too small": exports.with_item(COMMIT, n={"N": "1"}),
    "n too large": exports.with_item(COMMIT, n={"N": "3"}),
    "n of zero": exports.with_item(COMMIT, n={"N": "0"}),
    "n below zero": exports.with_item(COMMIT, n={"N": "-2"}),
    "an empty body": exports.with_body(COMMIT, ""),
    "an empty array": exports.with_body(replace(COMMIT, events=()), "[]"),
    "an object": exports.with_body(replace(COMMIT, events=(Event(),)), EVENT),
    "null": exports.with_body(replace(COMMIT, events=(Event(),)), "null"),
    "an array that is not closed": exports.with_body(COMMIT, COMMIT.body[:-1]),
    "an array of numbers": exports.with_body(COMMIT, "[1,\n2]"),
    "events on one line": exports.with_body(COMMIT, COMMIT.body.replace("\n", "")),
    "no comma between events": exports.with_body(COMMIT, f"[{EVENT}\n{EVENT}]"),
    "an event that is null": exports.with_body(replace(COMMIT, events=(Event(),) * 3), f"[{EVENT},\nnull,\n{EVENT}]"),
    "an event without a payload": exports.with_body(COMMIT, f"[{EVENT},\n{{{HEAD}}}]"),
    "an event with an empty payload": exports.with_body(COMMIT, f'[{{{HEAD},"payload":}},\n{EVENT}]'),
    "an event that ends after its payload's name": exports.with_body(COMMIT, f'[{{{HEAD},"payload":,\n{EVENT}]'),
    "an event that is not closed": exports.with_body(COMMIT, f'[{{{HEAD},"payload":null,\n{EVENT}]'),
    "an event that is cut": exports.with_body(COMMIT, f'[{{{HEAD},"payload":{{"type":"json","da,\n{EVENT}]'),
    "an event that is two": exports.with_body(COMMIT, f"[{EVENT},\n{{{HEAD}}}{EVENT}]"),
    "a payload that is text": exports.with_body(COMMIT, f'[{EVENT},\n{{{HEAD},"payload":"text"}}]'),
    "a payload that is a number": exports.with_body(COMMIT, f'[{EVENT},\n{{{HEAD},"payload":5}}]'),
    "an unknown member before": exports.with_body(COMMIT, f'[{EVENT},\n{{{HEAD},"other":1,"payload":null}}]'),
    "an unknown member first": exports.with_body(COMMIT, f'[{EVENT},\n{{"other":null,{HEAD},"payload":null}}]'),
    "an unknown member after": exports.with_body(COMMIT, f'[{EVENT},\n{{{HEAD},"payload":null,"other":1}}]'),
    "a member twice": exports.with_body(COMMIT, f'[{EVENT},\n{{{HEAD},"key":"a","payload":null}}]'),
    "a type that is text": exports.with_body(COMMIT, f"[{EVENT},\n{EVENT.replace('[', '').replace(']', '')}]"),
    "a type that is null": exports.with_body(COMMIT, "[" + EVENT + ",\n" + EVENT.replace('["a"]', "null") + "]"),
    "no type": exports.with_body(COMMIT, "[" + EVENT + ",\n" + EVENT.replace('"type":["a"],', "") + "]"),
    "a subtype that is null": exports.with_body(COMMIT, "[" + EVENT + ",\n" + EVENT.replace('"a"', "null") + "]"),
    "a subtype that is a number": exports.with_body(COMMIT, "[" + EVENT + ",\n" + EVENT.replace('"a"', "1") + "]"),
    "a key that is a number": exports.with_body(
        COMMIT, "[" + EVENT + ",\n" + EVENT.replace('key":null', 'key":1') + "]"
    ),
    "an invalid time": exports.with_item(replace(COMMIT, events=(Event(source="soon"),))),
    "a time that is empty": exports.with_item(replace(COMMIT, events=(Event(source=""),))),
    "an invalid day": exports.with_item(replace(COMMIT, events=(Event(source="2026-02-30T00:00:00Z"),))),
    "a time without a zone": exports.with_item(replace(COMMIT, events=(Event(source="2026-02-03T00:00:00"),))),
    "a time of nanoseconds": exports.with_item(
        replace(COMMIT, events=(Event(source="2026-02-03T00:00:00.123456789Z"),))
    ),
}


@pytest.mark.parametrize("line", IN_COMMITS.values(), ids=IN_COMMITS)
def test_invalid_commit_is_named_by_its_session(loaded: Workspace, line: bytes) -> None:
    exports.export(loaded.exports, BROKEN, [[line]])
    _assert_refused(loaded, HistoryError, "session 5 of server 1", DATA)


def _variants(commit: Commit) -> dict[str, Commit]:
    return {
        "other events": replace(commit, events=(Event(("job", "other")),) * len(commit.events)),
        "another time": replace(commit, at=commit.begin_us + 1),
        "more events": replace(commit, events=(*commit.events, Event())),
        "other deflated events": replace(commit, events=(Event(key=None),) * len(commit.events), deflated=True),
    }


@pytest.mark.parametrize("other", _variants(COMMIT).values(), ids=_variants(COMMIT))
def test_exports_with_different_commits_are_refused(loaded: Workspace, other: Commit) -> None:
    exports.full_export(
        loaded.exports, "02-one", [*make_commits(1, range(4, 5)), COMMIT, *make_commits(1, range(6, 9))]
    )
    exports.full_export(loaded.exports, "02-other", [*make_commits(1, range(4, 5)), other])
    _assert_refused(loaded, HistoryError, "session 5 of server 1")


def test_export_with_different_commits_is_refused(loaded: Workspace) -> None:
    exports.full_export(loaded.exports, BROKEN, [COMMIT, COMMIT, _variants(COMMIT)["other events"]])
    _assert_refused(loaded, HistoryError, "session 5 of server 1")


def test_commit_that_differs_from_lake_is_refused(loaded: Workspace) -> None:
    known = make_commits(1, range(3, 4))[0]
    exports.full_export(loaded.exports, BROKEN, [_variants(known)["another time"]])
    _assert_refused(loaded, HistoryError, "session 3 of server 1", DATA)


def test_repaired_export_is_loaded(loaded: Workspace) -> None:
    (path,) = exports.export(loaded.exports, BROKEN, [LINES])
    path.write_bytes(GOOD[:-1])
    _assert_refused(loaded, HistoryError, DATA)
    exports.export(loaded.exports, BROKEN, [LINES])
    loaded.load()
    later = make_commits(1, range(1, 4)) + make_commits(1, range(6, 60), events=3) + make_commits(1, range(100, 110))
    assert loaded.rows == expected_rows(later + make_commits(2, range(1, 5)))


def test_errors_are_history_errors() -> None:
    assert issubclass(BrokenExport, HistoryError)
    assert issubclass(Conflict, HistoryError)


def test_broken_file_without_manifest_is_named(tmp_path: Path, workspace: Workspace) -> None:
    path = workspace.exports / "some" / "where.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(GOOD[:-9])
    with pytest.raises(HistoryError, match=re.escape("some/where.json.gz")):
        workspace.load()
    assert exports.read_files(tmp_path / "lake") == {}
