"""How events are numbered."""

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
def test_an_id_is_read_as_it_is_written(server: int, session: int, instance: int) -> None:
    id_ = Id(server, session, instance)
    assert Id.parse(str(id_)) == ID.validate_python(str(id_)) == ID.validate_python(id_._asdict()) == id_
    assert str(id_) == f"{server}.{session}.{instance}"


def test_a_number_of_an_id_may_be_written_with_a_point_as_in_all_json() -> None:
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
def test_what_is_no_id_is_refused(value: object) -> None:
    with pytest.raises(ValidationError, match="an event id is"):
        ID.validate_python(value)


def test_ids_are_ordered_by_server_session_instance() -> None:
    texts = ["1.10.1", "1.2.10", "2.1.1", "1.2.9", "1.9.1"]
    assert [str(id_) for id_ in sorted(map(Id.parse, texts))] == ["1.2.9", "1.2.10", "1.9.1", "1.10.1", "2.1.1"]


@pytest.mark.parametrize("value", [0, 1, 1_478_257_656_606_001, 2**53 - 1])
def test_an_event_id_fits_in_53_bits(value: int) -> None:
    assert EVENT_ID.validate_python(value) == value


@pytest.mark.parametrize("value", [-1, 2**53, 1.5, "x", None])
def test_what_is_no_event_id_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        EVENT_ID.validate_python(value)


@given(st.integers(0, 2**43), st.integers(0, 2**53))
def test_the_next_event_id_rises_and_is_never_behind_the_clock(now_ms: int, last: int) -> None:
    found = next_event_id(now_ms, last)
    assert found > last
    assert found >= now_ms * 1000
    assert found in (last + 1, now_ms * 1000)


def test_the_head_of_a_log_names_its_last_event() -> None:
    assert [Head(7).id, Head(7, 3, 2, 1_001).id] == [Id(7, 0, 0), Id(7, 3, 2)]
