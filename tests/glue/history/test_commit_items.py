"""Items of format 2: checksums, runs of several commits, and events with tags."""

import base64
import zlib

import pyarrow as pa
import pytest

from glue_jobs.errors import BrokenExport
from glue_jobs.exports.commit_items import single_commits
from glue_jobs.exports.reader import ITEM
from glue_jobs.transforms.commits import parse_commits
from glue_jobs.transforms.events import parse_events

EVENT = '{"type":["a"],"key":null,"sourceTimestamp":null,"payload":%s}'
TEXTS = [EVENT % payload for payload in ('{"type":"json","data":1}', "null", '{"type":"json","data":[2]}')]


def checksum(session: int, at: int, count: int, prev: int, before: int, body: str) -> int:
    """As documented: CRC-32 of the fields, one line each, then of the body."""
    fields = f"1 {session} {at} {count} {prev} {before}\nr{session}\nanna\nkey {session}\nd{session}\n"
    return zlib.crc32(body.encode(), zlib.crc32(fields.encode()))


def run_item() -> dict[str, dict[str, str]]:
    """A run of two commits, with two events and one event."""
    first, second = f"[{TEXTS[0]},\n{TEXTS[1]}]", f"[{TEXTS[2]}]"
    return {
        "server": {"N": "1"},
        "session": {"N": "7"},
        "at": {"N": "1000"},
        "n": {"N": "3"},
        "prev": {"N": "999"},
        "before": {"N": "40"},
        "k": {"N": "2"},
        "ns": {"S": "2\n1"},
        "req": {"S": "r7\nr8"},
        "by": {"S": "anna\nanna"},
        "idem": {"S": "d7 key 7\nd8 key 8"},
        "crc": {"S": f"{checksum(7, 1000, 2, 999, 40, first)}\n{checksum(8, 1002, 1, 1001, 42, second)}"},
        "body": {"S": f"[{TEXTS[0]},\n{TEXTS[1]},\n{TEXTS[2]}]"},
    }


def test_run_is_split_into_its_commits() -> None:
    batch = parse_commits(pa.array([run_item()], ITEM), "file")
    columns = [batch.column(name).to_pylist() for name in ("session", "at", "n")]
    assert columns == [[7, 8], [1000, 1002], [2, 1]]
    events = parse_events(batch)
    assert events["event_id"].to_pylist() == [1000, 1001, 1002]
    assert events["payload"].to_pylist() == ['{"type":"json","data":1}', None, '{"type":"json","data":[2]}']


def deflated(text: str) -> dict[str, str]:
    return {"B": base64.b64encode(zlib.compress(text.encode())).decode()}


def test_run_with_deflated_keys_is_verified() -> None:
    item = run_item()
    keys = item.pop("idem")["S"]
    assert len(single_commits(pa.array([{**item, "zidem": deflated(keys)}], ITEM), "file")) == 2
    for damaged in (deflated("d7 key 7\nd8 key 9"), {"B": "AAAA"}):
        with pytest.raises(BrokenExport, match="session 7 of server 1 is damaged"):
            single_commits(pa.array([{**item, "zidem": damaged}], ITEM), "file")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", {"N": "1001"}),
        ("before", {"N": "41"}),
        ("ns", {"S": "1\n2"}),
        ("by", {"S": "anna\nben"}),
        ("req", {"S": "r7"}),
        ("crc", {"S": "1\n2"}),
        ("body", {"S": f"[{TEXTS[0]},\n{TEXTS[1]},\n{TEXTS[1]}]"}),
    ],
)
def test_changed_item_is_named_as_damaged(name: str, value: dict[str, str]) -> None:
    items = pa.array([{**run_item(), name: value}], ITEM)
    with pytest.raises(BrokenExport, match="file: session 7 of server 1 is damaged"):
        single_commits(items, "file")


def test_tags_are_not_part_of_the_payload() -> None:
    payload = '{"type":"json","data":{"x":1,"tags":["y"]}}'
    texts = [
        EVENT % payload,
        (EVENT % payload)[:-1] + ',"tags":["a","b \\",\\"tags\\":["]}',
        (EVENT % "null")[:-1] + ',"tags":["a"]}',
    ]
    item = {
        "server": {"N": "1"},
        "session": {"N": "1"},
        "at": {"N": "1000"},
        "n": {"N": "3"},
        "prev": {"N": "0"},
        "req": {"S": "r"},
        "body": {"S": "[" + ",\n".join(texts) + "]"},
    }
    events = parse_events(parse_commits(pa.array([item], ITEM), "file"))
    assert events["payload"].to_pylist() == [payload, payload, None]
    assert events["type"].to_pylist() == [["a"]] * 3
