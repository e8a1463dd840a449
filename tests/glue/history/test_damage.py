"""What is broken ends the run: the error says where to look, and the lake stays as it was, byte for byte."""

import base64
import gzip
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from glue_jobs.errors import BrokenExport, Conflict, HistoryError
from glue_jobs.exports.inflate import MOST_BYTES
from glue_jobs.exports.reader import LONGEST_LINE_BYTES
from tests.glue.history import exports
from tests.glue.history.conftest import Place
from tests.glue.history.exports import FILES, FOLDER, SUMMARY, Commit, Event, commits_of, rows_of

BROKEN = "02-broken"
DATA = f"{FOLDER}/{BROKEN}/data/{BROKEN}-000.json.gz"
COMMIT = Commit(1, 5, (Event(payload='{"type":"json","data":1}'), Event(("job", "finish"))))
LINES = [exports.full(commit) for commit in commits_of(1, range(6, 60), events=3)]
GOOD = gzip.compress(b"".join(LINES))
HEAD = '"type":["a"],"key":null,"sourceTimestamp":null'
EVENT = f'{{{HEAD},"payload":null}}'

Bytes = Callable[[bytes], bytes]


def _zeros_at(content: bytes, place: int) -> bytes:
    return content[:place] + bytes(16) + content[place + 16 :]


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


def _refused(place: Place, kind: type[Exception], *named: str) -> None:
    """The next load says no, names all this, and leaves the lake alone."""
    exports.full_export(place.exports, "03-good", commits_of(1, range(100, 110)) + commits_of(2, range(1, 5)))
    before = exports.files_in(place.lake)
    with pytest.raises(kind) as caught:
        place.load()
    for name in named:
        assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert exports.files_in(place.lake) == before


@pytest.mark.parametrize("is_listed", [True, False], ids=["the manifest fits", "the manifest is of the file before"])
@pytest.mark.parametrize("damage", ON_DISK.values(), ids=ON_DISK)
def test_a_data_file_that_is_broken_is_named(loaded: Place, damage: Bytes, is_listed: bool) -> None:
    broken = damage(GOOD)
    (path,) = exports.raw_export(loaded.exports, BROKEN, [(broken if is_listed else GOOD, len(LINES))])
    path.write_bytes(broken)
    _refused(loaded, HistoryError, DATA)


def test_a_line_that_inflates_to_more_than_any_item_is_refused(loaded: Place) -> None:
    line = b"{" + b" " * 2 * LONGEST_LINE_BYTES + LINES[0][1:]
    exports.raw_export(loaded.exports, BROKEN, [(gzip.compress(line), 1)])
    _refused(loaded, BrokenExport, DATA, "a line has more than")


def test_a_broken_file_among_others_is_the_one_that_is_named(loaded: Place) -> None:
    exports.raw_export(loaded.exports, BROKEN, [(GOOD, len(LINES)), (GOOD[:-3], len(LINES)), (GOOD, len(LINES))])
    _refused(loaded, HistoryError, f"{BROKEN}-001.json.gz", "cut off")


def test_a_data_file_that_is_missing_is_named(loaded: Place) -> None:
    _, path = exports.export(loaded.exports, BROKEN, [LINES, LINES])
    path.unlink()
    _refused(loaded, HistoryError, f"{BROKEN}-001.json.gz", "no such file")


def test_a_file_with_another_content_than_the_manifest_knew_is_named(loaded: Place) -> None:
    (path,) = exports.export(loaded.exports, BROKEN, [LINES])
    path.write_bytes(gzip.compress(b"".join(LINES[::-1])))
    _refused(loaded, HistoryError, DATA, "checksum")


@pytest.mark.parametrize("items", [0, len(LINES) - 1, len(LINES) + 1])
def test_a_file_with_more_or_fewer_items_than_its_manifest_says_is_named(loaded: Place, items: int) -> None:
    exports.raw_export(loaded.exports, BROKEN, [(GOOD, items)])
    _refused(loaded, HistoryError, DATA, f"{len(LINES)} items", f"says {items}")


SUMMARIES: dict[str, bytes] = {
    "an item less": exports.line({"itemCount": len(LINES) - 1}),
    "an item more": exports.line({"itemCount": len(LINES) + 1}),
    "no count": exports.line({"exportArn": "arn"}),
    "no object": b"[]",
    "no JSON": b'{"itemCount": ',
    "nothing": b"",
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("summary", SUMMARIES.values(), ids=SUMMARIES)
def test_a_summary_that_is_wrong_is_named(loaded: Place, summary: bytes) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    exports.manifest(loaded.exports / FOLDER / BROKEN / SUMMARY, summary)
    _refused(loaded, BrokenExport, f"{FOLDER}/{BROKEN}/{SUMMARY}")


LISTS: dict[str, Bytes] = {
    "half a line": lambda content: content[: len(content) // 2],
    "no JSON": lambda _: b"data files\n",
    "no object": lambda _: b"[]\n",
    "no count": lambda content: content.replace(b"itemCount", b"items"),
    "no number": lambda content: content.replace(str(len(LINES)).encode(), b'"many"'),
    "no key": lambda content: content.replace(b"dataFileS3Key", b"key"),
    "no base64": lambda content: content.replace(b"==", b"=!"),
    "no text": lambda content: content.replace(b"itemCount", b"item\xff\xff\xff"),
}


@pytest.mark.parametrize("damage", LISTS.values(), ids=LISTS)
def test_a_list_of_files_that_is_wrong_is_named(loaded: Place, damage: Bytes) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    path = loaded.exports / FOLDER / BROKEN / FILES
    assert damage(path.read_bytes()) != path.read_bytes()
    exports.manifest(path, damage(path.read_bytes()))
    _refused(loaded, BrokenExport, f"{FOLDER}/{BROKEN}/{FILES}")


@pytest.mark.parametrize("name", [SUMMARY, FILES])
def test_a_manifest_with_another_checksum_is_named(loaded: Place, name: str) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    path = loaded.exports / FOLDER / BROKEN / name
    path.with_suffix(".checksum").write_text(exports.md5_of(b"something else"))
    _refused(loaded, BrokenExport, f"{FOLDER}/{BROKEN}/{name}", "checksum")


def test_a_summary_without_a_list_of_files_names_the_list(loaded: Place) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    (loaded.exports / FOLDER / BROKEN / FILES).unlink()
    _refused(loaded, BrokenExport, f"{FOLDER}/{BROKEN}/{FILES}")


def test_one_data_file_with_another_checksum_in_the_manifest_is_named(loaded: Place) -> None:
    exports.export(loaded.exports, BROKEN, [LINES])
    path = loaded.exports / FOLDER / BROKEN / FILES
    other = re.sub(rb'"md5Checksum":"[^"]*"', b'"md5Checksum":"%s"' % exports.md5_of(b"x").encode(), path.read_bytes())
    exports.manifest(path, other)
    _refused(loaded, HistoryError, DATA, "checksum")


IN_LINES: dict[str, bytes] = {
    "no JSON": b"and so on\n",
    "half an object": exports.full(COMMIT)[:-20] + b"\n",
    "a number": b"5\n",
    "a list": b"[]\n",
    "null": b"null\n",
    "an empty object": b"{}\n",
    "an Item that is null": b'{"Item":null}\n',
    "an Item that is text": b'{"Item":"5"}\n',
    "an Item that is empty": b'{"Item":{}}\n',
    "bytes that are no text": exports.full(COMMIT).replace(b"/job/1", b"/job/\xff\xfe"),
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
    "a session that is no number": exports.with_item(COMMIT, session={"N": "five"}),
    "a session that is empty": exports.with_item(COMMIT, session={"N": ""}),
    "a session that is too large": exports.with_item(COMMIT, session={"N": "9" * 30}),
    "a server that is too large": exports.with_item(COMMIT, server={"N": str(2**31)}),
    "an at that is too late": exports.with_item(COMMIT, at={"N": str(2**53)}),
    "an at before 1970": exports.with_item(COMMIT, at={"N": "-1"}),
    "body and z": exports.with_item(COMMIT, z={"B": "MQ=="}),
    "neither body nor z": exports.with_item(COMMIT, body=None),
    "z that is no base64": exports.with_item(COMMIT, body=None, z={"B": "no base64!"}),
    "z with less padding": exports.with_item(COMMIT, body=None, z={"B": "MQ="}),
    "the server's own item with an unknown attribute": exports.with_item(replace(COMMIT, server=0), other={"S": "x"}),
}


@pytest.mark.parametrize("line", IN_LINES.values(), ids=IN_LINES)
def test_a_line_that_is_no_commit_is_named_by_its_file(loaded: Place, line: bytes) -> None:
    exports.export(loaded.exports, BROKEN, [[*LINES, line, *LINES]])
    _refused(loaded, HistoryError, DATA)


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
        zlib.compress(INFLATED.replace(b"1}", b"1" * MOST_BYTES + b"}"))
    ),
    "z that is no text": _deflated(zlib.compress(INFLATED.replace(b'"data":1', b'"data":"\xff"'))),
    "z with a key that is no text": _deflated(zlib.compress(INFLATED.replace(b"/job/1", b"/job/\xff"))),
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
    "a time that is none": exports.with_item(replace(COMMIT, events=(Event(source="soon"),))),
    "a time that is empty": exports.with_item(replace(COMMIT, events=(Event(source=""),))),
    "a day that is none": exports.with_item(replace(COMMIT, events=(Event(source="2026-02-30T00:00:00Z"),))),
    "a time without a zone": exports.with_item(replace(COMMIT, events=(Event(source="2026-02-03T00:00:00"),))),
    "a time of nanoseconds": exports.with_item(
        replace(COMMIT, events=(Event(source="2026-02-03T00:00:00.123456789Z"),))
    ),
}


@pytest.mark.parametrize("line", IN_COMMITS.values(), ids=IN_COMMITS)
def test_a_commit_that_holds_no_events_is_named_by_its_number(loaded: Place, line: bytes) -> None:
    exports.export(loaded.exports, BROKEN, [[line]])
    _refused(loaded, HistoryError, "session 5 of server 1", DATA)


def _other(commit: Commit) -> dict[str, Commit]:
    return {
        "other events": replace(commit, events=(Event(("job", "other")),) * len(commit.events)),
        "another time": replace(commit, at=commit.begin_us + 1),
        "more events": replace(commit, events=(*commit.events, Event())),
        "other deflated events": replace(commit, events=(Event(key=None),) * len(commit.events), deflated=True),
    }


@pytest.mark.parametrize("other", _other(COMMIT).values(), ids=_other(COMMIT))
def test_two_exports_that_tell_of_different_commits_under_one_number_are_refused(loaded: Place, other: Commit) -> None:
    exports.full_export(loaded.exports, "02-one", [*commits_of(1, range(4, 5)), COMMIT, *commits_of(1, range(6, 9))])
    exports.full_export(loaded.exports, "02-other", [*commits_of(1, range(4, 5)), other])
    _refused(loaded, HistoryError, "session 5 of server 1")


def test_one_export_that_tells_of_different_commits_under_one_number_is_refused(loaded: Place) -> None:
    exports.full_export(loaded.exports, BROKEN, [COMMIT, COMMIT, _other(COMMIT)["other events"]])
    _refused(loaded, HistoryError, "session 5 of server 1")


def test_a_commit_that_differs_from_the_one_in_the_lake_is_refused(loaded: Place) -> None:
    known = commits_of(1, range(3, 4))[0]
    exports.full_export(loaded.exports, BROKEN, [_other(known)["another time"]])
    _refused(loaded, HistoryError, "session 3 of server 1", DATA)


def test_what_was_broken_is_loaded_once_it_is_whole(loaded: Place) -> None:
    (path,) = exports.export(loaded.exports, BROKEN, [LINES])
    path.write_bytes(GOOD[:-1])
    _refused(loaded, HistoryError, DATA)
    exports.export(loaded.exports, BROKEN, [LINES])
    loaded.load()
    later = commits_of(1, range(1, 4)) + commits_of(1, range(6, 60), events=3) + commits_of(1, range(100, 110))
    assert loaded.rows == rows_of(later + commits_of(2, range(1, 5)))


def test_the_errors_are_of_one_family() -> None:
    assert issubclass(BrokenExport, HistoryError)
    assert issubclass(Conflict, HistoryError)


def test_a_broken_plain_file_is_named(tmp_path: Path, place: Place) -> None:
    path = place.exports / "some" / "where.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(GOOD[:-9])
    with pytest.raises(HistoryError, match=re.escape("some/where.json.gz")):
        place.load()
    assert exports.files_in(tmp_path / "lake") == {}
