"""The fast append parser returns exactly the result of pydantic, or None."""

import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.domain.errors import Refused
from chalicelib.domain.events.event import decode
from chalicelib.domain.log.append import MAX_BYTES, MAX_EVENTS, encode_within_limits
from chalicelib.http import fast_append_parser, requests
from chalicelib.http.parameters import AppendRequest
from tests.domain.test_event import AWKWARD, JSON_VALUES, KEYS, TAGS, TYPES

PLAIN: dict[str, Any] = {
    "type": ["job", "finish", "n1", "backup"],
    "key": "/job/117",
    "payload": {"type": "json", "data": {"success": "1", "params": {"path": "/srv/é", "keep": 7}}},
}
TIMES = st.sampled_from(
    [None, "2016-11-04T11:07:36.606Z", "2016-11-04 12:07+01:00", {"s": -1, "us": 5}, {"s": 1}, "noon", 7, True, {}]
)
ODD: list[Any] = [None, True, 0, -1, 1.5, "", "?", "a/b", "*", [], {}, "x" * 300, "é" * 230, [""], ["a", None]]
ODD += [["a", "a"], ["a"] * 16, ["a"] * 17, ["x" * 200], ["é" * 200], ["\U0001f600" * 200], ["x" * 201]]


def parse_with_pydantic(body: bytes) -> tuple[str, ...] | None:
    """The result of the complete parser. None if the body is invalid, empty or has a condition."""
    try:
        append = requests.parse_json(AppendRequest, body)
        return encode_within_limits(append.events) if append.events and append.condition is None else None
    except Refused:
        return None


def assert_same_result(body: bytes) -> tuple[str, ...] | None:
    texts = fast_append_parser.parse_simple_append(body)
    if texts is not None:
        expected = parse_with_pydantic(body)
        assert expected is not None, body
        assert [list(json.loads(text)) for text in texts] == [list(json.loads(text)) for text in expected]
        # 1, 1.0 and True are equal, but their repr differs.
        assert [repr(decode(text)) for text in texts] == [repr(decode(text)) for text in expected]
        assert not any("\n" in text or "\r" in text for text in texts)
    return texts


def body_of(*events: object, **members: object) -> bytes:
    return json.dumps({"events": list(events), **members}).encode()


@given(TYPES.filter(bool), KEYS, JSON_VALUES, TAGS)
@example(("a",), None, AWKWARD, ())
@example(("", "a", "", ""), None, None, ())
@example((AWKWARD.replace("/", ""),), AWKWARD, {AWKWARD: [AWKWARD]}, (AWKWARD, "\x7f"))
@example(("a",), None, [-0.0, 1e308, 1e16, 5e-324, 2**64, -(10**400), 0.1, True, 1, 1.0], ())
def test_typical_append_uses_fast_parser(
    event_type: tuple[str, ...], key: str | None, data: Any, tags: tuple[str, ...]
) -> None:
    event = {"type": event_type, "key": key, "payload": {"type": "json", "data": data}, "tags": tags}
    texts = assert_same_result(body_of(event, PLAIN, {"type": ["a"]}, {"type": ["a"], "payload": None}))
    assert texts is not None
    assert len(texts) == 4


def test_simple_append_is_encoded_like_pydantic() -> None:
    assert fast_append_parser.parse_simple_append(body_of(PLAIN)) == parse_with_pydantic(body_of(PLAIN))
    assert fast_append_parser.parse_simple_append(body_of({**PLAIN, "sourceTimestamp": "2016-11-04T12:07+01:00"})) == (
        '{"type":["job","finish","n1","backup"],"key":"/job/117","sourceTimestamp":"2016-11-04T11:07:00.000000Z",'
        '"payload":{"type":"json","data":{"success":"1","params":{"path":"/srv/é","keep":7}}}}',
    )


@given(TIMES, st.sampled_from(ODD), st.sampled_from(["type", "key", "payload", "tags", "more", "data"]), st.booleans())
def test_unusual_members_give_the_same_result(time: Any, odd: Any, member: str, lacks: bool) -> None:
    event = {**PLAIN, "sourceTimestamp": time, member: odd}
    if member == "data":
        event["payload"] = {"type": "json"} if lacks else {"type": "binary", "data": odd}
    if lacks and member in PLAIN:
        del event[member]
    assert_same_result(body_of(event))


@pytest.mark.parametrize("tags", [None, [], ["a"], ["b", "a", "b"], ['"\\\n\u2028é/']])
def test_tags_are_encoded_like_pydantic(tags: list[str] | None) -> None:
    body = body_of({**PLAIN, "tags": tags}, PLAIN)
    assert fast_append_parser.parse_simple_append(body) == parse_with_pydantic(body)


@pytest.mark.parametrize(
    "body",
    [
        body_of(),
        body_of(PLAIN, condition=None),
        body_of(PLAIN, more=1),
        body_of(*[{"type": ["a"]}] * (MAX_EVENTS + 1)),
        body_of({"type": ["a"], "payload": {"type": "json", "data": "x" * MAX_BYTES}}),
        body_of({"type": ["a"], "payload": {"type": "json", "data": "é" * (MAX_BYTES // 2)}}),
        body_of({"type": ["a"], "payload": {"type": "binary", "name": "a", "data": "MTIz"}}),
        body_of({"type": [""] * 451}),
        b'{"events":[{"type":["a"],"payload":{"type":"json","data":1e999}}]}',
        b'{"events":[{"type":["a"],"payload":{"type":"json","data":NaN}}]}',
        b'{"events":[{"type":["a"],"payload":{"type":"json","data":"\\ud800"}}]}',
        b'{"events":[{"type":["a"],"payload":{"type":"json","data":"\xff"}}]}',
        b'{"events":[{"type":["a"],"payload":{"type":"json","data":%b}}]}' % (b"9" * 5000),
        *(
            b'{"events":[{"type":["a"],"payload":{"type":"json","data":%b%b}}]}' % (b"[" * depth, b"]" * depth)
            for depth in (180, 200, 800, 3000, 100_000)
        ),
        b"\xef\xbb\xbf" + body_of(PLAIN),
        body_of(PLAIN) + b"x",
        b"",
        b"null",
    ],
    ids=lambda body: repr(body[:40]) + str(len(body)),
)
def test_complex_append_is_left_to_pydantic(body: bytes) -> None:
    assert fast_append_parser.parse_simple_append(body) is None


def test_many_flat_events_use_fast_parser() -> None:
    texts = assert_same_result(body_of(*[PLAIN] * 500))
    assert texts is not None


def test_damaged_append_gives_the_same_result() -> None:
    rng = random.Random(1)
    whole = body_of(PLAIN, {**PLAIN, "sourceTimestamp": {"s": 1, "us": 2}})
    plain = 0
    for _ in range(3_000):
        body = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(body))
            body[place : place + rng.randint(0, 2)] = rng.choice(
                [b"", b'"', b"\\", b"{", b"]", b",", b"0", b"e", b"\n"]
            )
        plain += assert_same_result(bytes(body)) is not None
    assert 300 < plain < 2_700
