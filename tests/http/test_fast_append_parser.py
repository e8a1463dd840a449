"""Plain appends: the fast reader says exactly what the ordinary one says, or nothing."""

import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.domain.errors import Refused
from chalicelib.domain.events.event import decode
from chalicelib.domain.log.append import MOST_BYTES, MOST_EVENTS, encoded
from chalicelib.http import fast_append_parser, requests
from chalicelib.http.parameters import AppendRequest
from tests.domain.test_event import AWKWARD, JSON_VALUES, KEYS, TYPES

PLAIN: dict[str, Any] = {
    "type": ["job", "finish", "n1", "backup"],
    "key": "/job/117",
    "payload": {"type": "json", "data": {"success": "1", "params": {"path": "/srv/é", "keep": 7}}},
}
TIMES = st.sampled_from(
    [None, "2016-11-04T11:07:36.606Z", "2016-11-04 12:07+01:00", {"s": -1, "us": 5}, {"s": 1}, "noon", 7, True, {}]
)
ODD: list[Any] = [None, True, 0, -1, 1.5, "", "?", "a/b", "*", [], {}, "x" * 300, "é" * 230, [""], ["a", None]]


def ordinary(body: bytes) -> tuple[str, ...] | None:
    """What the ordinary reader makes of it; nothing if that is not for the fast one, or refused."""
    try:
        wanted = requests.json(AppendRequest, body)
        return encoded(wanted.events) if wanted.events and wanted.condition is None else None
    except Refused:
        return None


def assert_the_same(body: bytes) -> tuple[str, ...] | None:
    texts = fast_append_parser.texts(body)
    if texts is not None:
        expected = ordinary(body)
        assert expected is not None, body
        assert [list(json.loads(text)) for text in texts] == [list(json.loads(text)) for text in expected]
        # repr tells 1, 1.0 and True apart, which == does not.
        assert [repr(decode(text)) for text in texts] == [repr(decode(text)) for text in expected]
        assert not any("\n" in text or "\r" in text for text in texts)
    return texts


def body_of(*events: object, **members: object) -> bytes:
    return json.dumps({"events": list(events), **members}).encode()


@given(TYPES.filter(bool), KEYS, JSON_VALUES)
@example(("a",), None, AWKWARD)
@example((AWKWARD.replace("/", ""),), AWKWARD, {AWKWARD: [AWKWARD]})
@example(("a",), None, [-0.0, 1e308, 1e16, 5e-324, 2**64, -(10**400), 0.1, True, 1, 1.0])
def test_what_publishers_send_is_plain(event_type: tuple[str, ...], key: str | None, data: Any) -> None:
    event = {"type": event_type, "key": key, "payload": {"type": "json", "data": data}}
    texts = assert_the_same(body_of(event, PLAIN, {"type": ["a"]}, {"type": ["a"], "payload": None}))
    assert texts is not None
    assert len(texts) == 4


def test_plain_text_is_encoded_as_ever() -> None:
    assert fast_append_parser.texts(body_of(PLAIN)) == ordinary(body_of(PLAIN))
    assert fast_append_parser.texts(body_of({**PLAIN, "sourceTimestamp": "2016-11-04T12:07+01:00"})) == (
        '{"type":["job","finish","n1","backup"],"key":"/job/117","sourceTimestamp":"2016-11-04T11:07:00.000000Z",'
        '"payload":{"type":"json","data":{"success":"1","params":{"path":"/srv/é","keep":7}}}}',
    )


@given(TIMES, st.sampled_from(ODD), st.sampled_from(["type", "key", "payload", "more", "data"]), st.booleans())
def test_odd_members_are_left_to_the_ordinary_reader_or_read_like_it(
    time: Any, odd: Any, member: str, lacks: bool
) -> None:
    event = {**PLAIN, "sourceTimestamp": time, member: odd}
    if member == "data":
        event["payload"] = {"type": "json"} if lacks else {"type": "binary", "data": odd}
    if lacks and member in PLAIN:
        del event[member]
    assert_the_same(body_of(event))


@pytest.mark.parametrize(
    "body",
    [
        body_of(),
        body_of(PLAIN, condition=None),
        body_of(PLAIN, more=1),
        body_of(*[{"type": ["a"]}] * (MOST_EVENTS + 1)),
        body_of({"type": ["a"], "payload": {"type": "json", "data": "x" * MOST_BYTES}}),
        body_of({"type": ["a"], "payload": {"type": "json", "data": "é" * (MOST_BYTES // 2)}}),
        body_of({"type": ["a"], "payload": {"type": "binary", "name": "a", "data": "MTIz"}}),
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
def test_what_is_not_plain_is_left_to_the_ordinary_reader(body: bytes) -> None:
    assert fast_append_parser.texts(body) is None


def test_many_shallow_events_are_plain_however_many_brackets_they_have_together() -> None:
    texts = assert_the_same(body_of(*[PLAIN] * 500))
    assert texts is not None


def test_damaged_requests_are_read_like_the_ordinary_reader_does() -> None:
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
        plain += assert_the_same(bytes(body)) is not None
    assert 300 < plain < 2_700
