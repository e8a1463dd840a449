"""Encoding, decoding and validation of events."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from chalicelib.domain.events.event import Event, EventFields, NewEvent, decode, encode
from chalicelib.domain.events.ids import Id

AWKWARD = '\u2028\u2029\x85\x00\x1f\n\r\t"\\/é漢\U0001f600 Infinity NaN ,\n'
TEXT = st.text(st.characters(codec="utf-8"))
SCALARS = st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    SCALARS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
SUBTYPES = st.text(st.characters(codec="utf-8", exclude_characters="?*/"), min_size=1, max_size=20)
TYPES = st.lists(SUBTYPES, max_size=4).map(tuple)
KEYS = st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=50)
TAGS = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), max_size=16, unique=True).map(tuple)
MOMENTS = st.none() | st.integers(-(10**16), 10**16)


def a_json_event(data: Any) -> NewEvent:
    return NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": data}})


@given(TYPES, KEYS, MOMENTS, JSON_VALUES, TAGS)
@example((), None, None, AWKWARD, ())
@example((AWKWARD.replace("/", ""),), AWKWARD, -1, {AWKWARD: [AWKWARD]}, (AWKWARD, "]}", '"],"tags":["'))
@example((), None, None, [-0.0, 1e308, 5e-324, 2**64, -(10**400), 0.1, True, 1, 1.0], ("a",))
def test_decode_is_inverse_of_encode(
    event_type: tuple[str, ...], key: str | None, source_us: int | None, data: Any, tags: tuple[str, ...]
) -> None:
    sent = {
        "type": list(event_type),
        "key": key,
        "sourceTimestamp": None if source_us is None else {"s": source_us // 10**6, "us": source_us % 10**6},
        "payload": {"type": "json", "data": data},
        "tags": tags,
    }
    text = encode(NewEvent.model_validate(sent)).decode()
    assert "\n" not in text
    assert "\r" not in text
    # repr distinguishes 1, 1.0 and True, == does not.
    assert repr(decode(text)) == repr(EventFields(event_type, key, source_us, {"type": "json", "data": data}, tags))


@given(TYPES, KEYS, MOMENTS, JSON_VALUES, TAGS)
@example((), None, None, {"tags": [[]]}, ())
@example((), None, None, "]}", ("]}",))
def test_wire_text_is_valid_json_for_any_event(
    event_type: tuple[str, ...], key: str | None, source_us: int | None, data: Any, tags: tuple[str, ...]
) -> None:
    event = NewEvent.model_validate(
        {
            "type": event_type,
            "key": key,
            "sourceTimestamp": None if source_us is None else {"s": source_us // 10**6, "us": source_us % 10**6},
            "payload": {"type": "json", "data": data},
            "tags": tags,
        }
    )
    wire = Event(Id(1, 7, 2), 1_478_257_656_606_001, 1_478_257_656_606_000, encode(event).decode()).wire_text
    read = json.loads(wire)
    assert repr(read.pop("payload")) == repr({"type": "json", "data": data})
    assert isinstance(read.pop("sourceTimestamp"), type(None) if source_us is None else str)
    assert read == {
        "id": {"server": 1, "session": 7, "instance": 2},
        "eventId": 1_478_257_656_606_001,
        "position": None,
        "type": list(event_type),
        "key": key,
        "timestamp": "2016-11-04T11:07:36.606000Z",
        "tags": list(tags),
    }


def test_wire_text_has_exactly_the_documented_members() -> None:
    event = NewEvent.model_validate(
        {
            "type": ["job", "finish", "n1", "backup"],
            "key": "/job/117",
            "sourceTimestamp": "2016-11-04T12:07:36.5+01:00",
            "payload": {"type": "json", "data": {"success": "1"}},
        }
    )
    wire = Event(Id(1, 7, 1), 1_478_257_656_606_001, 1_478_257_656_606_001, encode(event).decode(), 9).wire_text
    assert json.loads(wire) == {
        "id": {"server": 1, "session": 7, "instance": 1},
        "eventId": 1_478_257_656_606_001,
        "position": 9,
        "type": ["job", "finish", "n1", "backup"],
        "key": "/job/117",
        "timestamp": "2016-11-04T11:07:36.606001Z",
        "sourceTimestamp": "2016-11-04T11:07:36.500000Z",
        "payload": {"type": "json", "data": {"success": "1"}},
        "tags": [],
    }


@pytest.mark.parametrize("payload", [None, {"type": "json", "data": ["]}"]}, {"type": "json", "data": {"tags": ["a"]}}])
@pytest.mark.parametrize("tags", [None, [], ["a"], ["b", "a"]])
def test_wire_text_always_has_tags(payload: object, tags: list[str] | None) -> None:
    event = NewEvent.model_validate({"type": ["a"], "payload": payload, "tags": tags})
    wire = json.loads(Event(Id(1, 7, 1), 7, 7, encode(event).decode()).wire_text)
    assert (wire["payload"], wire["tags"]) == (payload, tags or [])


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ({"type": []}, '{"type":[],"key":null,"sourceTimestamp":null,"payload":null}'),
        (
            {"type": ["a"], "payload": {"type": "json", "data": None}},
            '{"type":["a"],"key":null,"sourceTimestamp":null,"payload":{"type":"json","data":null}}',
        ),
        (
            {"type": ["a"], "payload": {"type": "binary", "name": "abc", "data": "MTIz"}},
            '{"type":["a"],"key":null,"sourceTimestamp":null,"payload":{"type":"binary","name":"abc","data":"MTIz"}}',
        ),
        (
            {"type": ["a"], "key": "/k", "sourceTimestamp": {"s": 0, "us": 1}, "payload": None},
            '{"type":["a"],"key":"/k","sourceTimestamp":"1970-01-01T00:00:00.000001Z","payload":null}',
        ),
        ({"type": [], "tags": []}, '{"type":[],"key":null,"sourceTimestamp":null,"payload":null}'),
        ({"type": [], "tags": None}, '{"type":[],"key":null,"sourceTimestamp":null,"payload":null}'),
        (
            {"type": [], "tags": ["b", "a", "b"]},
            '{"type":[],"key":null,"sourceTimestamp":null,"payload":null,"tags":["b","a"]}',
        ),
        (
            {"type": [], "payload": {"type": "json", "data": {}}, "tags": ['"é\n']},
            '{"type":[],"key":null,"sourceTimestamp":null,"payload":{"type":"json","data":{}},"tags":["\\"é\\n"]}',
        ),
    ],
)
def test_encode_returns_documented_text(sent: dict[str, object], stored: str) -> None:
    assert encode(NewEvent.model_validate(sent)).decode() == stored


def test_encode_null_payload_differs_from_no_payload() -> None:
    null, none = a_json_event(None), NewEvent(type=("a",))
    assert [decode(encode(event).decode()).payload for event in (null, none)] == [{"type": "json", "data": None}, None]


@pytest.mark.parametrize(
    "data",
    [
        float("inf"),
        float("-inf"),
        float("nan"),
        {"a": [1, {"b": float("inf")}]},
        {"a": [1, {"b": float("nan")}]},
        ["Infinity", float("-inf")],
        ["NaN", float("nan")],
    ],
)
def test_encode_non_finite_number_raises_value_error(data: Any) -> None:
    with pytest.raises(ValueError, match="number"):
        encode(a_json_event(data))


@pytest.mark.parametrize("data", ["Infinity", {"Infinity": "-Infinity"}, ["NaN"], 1.7976931348623157e308])
def test_encode_string_infinity_is_accepted(data: Any) -> None:
    assert decode(encode(a_json_event(data)).decode()).payload == {"type": "json", "data": data}


@pytest.mark.parametrize("data", ["", "YQ==", "YWI=", "YWJj", "+/+/", "A" * 4000])
def test_encode_binary_data_is_unchanged(data: str) -> None:
    payload = {"type": "binary", "name": "n", "data": data}
    event = NewEvent.model_validate({"type": ["a"], "payload": payload})
    assert decode(encode(event).decode()).payload == payload


@pytest.mark.parametrize(
    "data", ["Y", "YQ", "YQ=", "=", "====", "YQ==YQ==", "Y Q==", "YQ==\n", "-_-_", "é", "YQ=="[::-1]]
)
def test_new_event_invalid_base64_is_rejected(data: str) -> None:
    with pytest.raises(ValidationError, match="binary data must be base64 in the standard alphabet"):
        NewEvent.model_validate({"type": ["a"], "payload": {"type": "binary", "name": "n", "data": data}})


@pytest.mark.parametrize(
    ("sent", "location"),
    [
        ({}, ("type",)),
        ({"type": ["a"], "colour": "red"}, ("colour",)),
        ({"type": ["a"], "id": {}}, ("id",)),
        ({"type": ["a"], "eventId": 1}, ("eventId",)),
        ({"type": ["a"], "timestamp": None}, ("timestamp",)),
        ({"type": ["a"], "key": ""}, ("key",)),
        ({"type": ["a"], "key": 5}, ("key",)),
        ({"type": ["a"], "key": ["k"]}, ("key",)),
        ({"type": ["a"], "sourceTimestamp": 5}, ("sourceTimestamp",)),
        ({"type": ["a"], "tags": "a"}, ("tags",)),
        ({"type": ["a"], "tags": [5]}, ("tags", 0)),
        ({"type": ["a"], "tags": ["a", ""]}, ("tags", 1)),
        ({"type": ["a"], "tags": ["x" * 201]}, ("tags", 0)),
        ({"type": ["a"], "tags": [str(n) for n in range(17)]}, ("tags",)),
        ({"type": ["a"], "payload": 5}, ("payload",)),
        ({"type": ["a"], "payload": {}}, ("payload",)),
        ({"type": ["a"], "payload": {"type": "xml", "data": ""}}, ("payload",)),
        ({"type": ["a"], "payload": {"type": "json"}}, ("payload", "json", "data")),
        ({"type": ["a"], "payload": {"type": "json", "data": 1, "more": 2}}, ("payload", "json", "more")),
        ({"type": ["a"], "payload": {"type": "json", "data": 1, "name": "n"}}, ("payload", "json", "name")),
        ({"type": ["a"], "payload": {"type": "binary", "data": ""}}, ("payload", "binary", "name")),
        ({"type": ["a"], "payload": {"type": "binary", "name": "n"}}, ("payload", "binary", "data")),
        ({"type": ["a"], "payload": {"type": "binary", "name": "n", "data": 5}}, ("payload", "binary", "data")),
    ],
)
def test_new_event_invalid_field_is_named_in_error(sent: object, location: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as error_info:
        NewEvent.model_validate(sent)
    assert [error["loc"] for error in error_info.value.errors()] == [location]


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ({"type": ["x" * 901]}, "type"),
        ({"type": ["x" * 450, "y" * 450]}, "type"),
        ({"type": ["é" * 451]}, "type"),
        ({"type": ["a"], "key": "é" * 451}, "key"),
        ({"type": ["a"], "key": "漢" * 900}, "key"),
    ],
)
def test_encode_type_or_key_over_900_bytes_raises(sent: object, name: str) -> None:
    with pytest.raises(ValueError, match=f"a {name} may have at most 900 bytes"):
        encode(NewEvent.model_validate(sent))


def test_encode_type_and_key_of_900_bytes_succeeds() -> None:
    event = NewEvent.model_validate({"type": ["é" * 225, "x" * 449], "key": "漢" * 300})
    assert decode(encode(event).decode()) == EventFields(("é" * 225, "x" * 449), "漢" * 300, None, None)


def test_new_event_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        NewEvent(type=("a",)).key = "k"  # type: ignore[misc]


def test_events_order_by_id_in_a_log_and_by_time_across_logs() -> None:
    """The later event of another server may have a lower session."""
    first, second = (Event(Id(1, session, 1), session, 100, "{}") for session in (1, 2))
    other = Event(Id(2, 1, 1), 1, 101, "{}")
    assert sorted([other, second, first]) == [first, second, other]
    assert other > second > first
    assert not first > second
    assert not first > Event(first.id, first.event_id, first.at_us, first.text)
