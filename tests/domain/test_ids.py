"""Ids and EventIds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import EventId, Id, next_event_id

NUMBERS = st.integers(0, 10**15 - 1)
ID = TypeAdapter[Id](Id)
EVENT_ID = TypeAdapter[int](EventId)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_id_parses_back_from_text_and_object(server: int, session: int, instance: int) -> None:
    id_ = Id(server, session, instance)
    assert Id.parse(str(id_)) == ID.validate_python(str(id_)) == ID.validate_python(id_._asdict()) == id_
    assert str(id_) == f"{server}.{session}.{instance}"


def test_id_object_accepts_whole_floats() -> None:
    assert ID.validate_python({"server": 1.0, "session": 2, "instance": 3.0}) == Id(1, 2, 3)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1",
        "1.2",
        "1.2.3.4",
        "1.2.-3",
        "1.2.a",
        " 1.2.3",
        "1.2.3\n",
        "1.2.٣",
        f"1.2.{10**15}",
        {"server": 1, "session": 2},
        {"server": 1, "session": 2, "instance": 3, "more": 4},
        {"server": 1, "session": 2, "instance": "3"},
        {"server": 1, "session": 2, "instance": -3},
        {"server": 1, "session": 2, "instance": True},
        {"server": 1, "session": 2, "instance": 3.5},
        [1, 2, 3],
        7,
        None,
    ],
)
def test_id_invalid_value_is_rejected(value: object) -> None:
    with pytest.raises(ValidationError, match="an event id is"):
        ID.validate_python(value)


def test_ids_sort_by_server_session_instance() -> None:
    texts = ["1.10.1", "1.2.10", "2.1.1", "1.2.9", "1.9.1"]
    assert [str(id_) for id_ in sorted(map(Id.parse, texts))] == ["1.2.9", "1.2.10", "1.9.1", "1.10.1", "2.1.1"]


@pytest.mark.parametrize("value", [0, 1, 1_478_257_656_606_001, 2**53 - 1])
def test_event_id_below_2_to_53_is_valid(value: int) -> None:
    assert EVENT_ID.validate_python(value) == value


@pytest.mark.parametrize("value", [-1, 2**53, 1.5, "x", None])
def test_event_id_invalid_value_is_rejected(value: object) -> None:
    with pytest.raises(ValidationError):
        EVENT_ID.validate_python(value)


@given(st.integers(0, 2**43), st.integers(0, 2**53))
def test_next_event_id_increases_and_follows_clock(now_ms: int, last: int) -> None:
    event_id = next_event_id(now_ms, last)
    assert event_id > last
    assert event_id >= now_ms * 1000
    assert event_id in (last + 1, now_ms * 1000)


def test_head_id_is_id_of_last_event() -> None:
    assert [Head(7).id, Head(7, 3, 2, 1_001).id] == [Id(7, 0, 0), Id(7, 3, 2)]
