"""Selections, and the append conditions made of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chalicelib.domain.events.body import body_of
from chalicelib.domain.events.event import Event, NewEvent, encode
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.queries.event_filter import Selection

EVENTS = {
    "job/start on /1": (("job", "start"), "/1"),
    "job/end on /1": (("job", "end"), "/1"),
    "job/start on /2": (("job", "start"), "/2"),
    "note on nothing": (("note",), None),
    "nothing on nothing": ((), None),
}


def numbered() -> list[tuple[str, Event]]:
    """The events by name, with EventIds 1, 2, 3 …"""
    return [
        (name, Event(Id(1, number, 1), number, number, encode(NewEvent(type=type_, key=key)).decode()))
        for number, (name, (type_, key)) in enumerate(EVENTS.items(), start=1)
    ]


@pytest.mark.parametrize(
    ("selection", "selected"),
    [
        ({}, list(EVENTS)),
        ({"types": None, "keys": None}, list(EVENTS)),
        ({"types": []}, []),
        ({"keys": []}, []),
        ({"types": ["*"], "keys": []}, []),
        ({"types": [], "keys": ["/1"]}, []),
        ({"types": ["*"]}, list(EVENTS)),
        ({"types": ["note", "*"]}, list(EVENTS)),
        ({"types": ["job/start"]}, ["job/start on /1", "job/start on /2"]),
        ({"types": ["job/*"]}, ["job/start on /1", "job/end on /1", "job/start on /2"]),
        ({"types": [""]}, ["nothing on nothing"]),
        ({"types": [["job", "?"], ["note"]]}, list(EVENTS)[:4]),
        ({"keys": ["/1"]}, ["job/start on /1", "job/end on /1"]),
        ({"keys": ["/1", "/2"]}, list(EVENTS)[:3]),
        ({"types": ["job/start"], "keys": ["/1"]}, ["job/start on /1"]),
        ({"types": ["note"], "keys": ["/1"]}, []),
    ],
)
def test_a_selection_selects_by_type_and_key(selection: dict[str, Any], selected: list[str]) -> None:
    wanted = Selection.model_validate(selection)
    assert [name for name, event in numbered() if wanted.selects(event)] == selected
    assert not wanted.everything or selected == list(EVENTS)


@pytest.mark.parametrize(
    ("selection", "everything"),
    [({}, True), ({"types": ["*"]}, True), ({"types": []}, False), ({"keys": []}, False), ({"types": ["a/*"]}, False)],
)
def test_a_selection_knows_whether_it_selects_everything(selection: dict[str, Any], everything: bool) -> None:
    assert Selection.model_validate(selection).everything is everything


@pytest.mark.parametrize(
    ("after", "match"),
    [(0, 1), (1, 3), (2, 3), (3, None), (99, None)],
)
def test_a_condition_is_broken_by_the_first_match_after_its_position(after: int, match: int | None) -> None:
    condition = AppendCondition.model_validate({"failIfEventsMatch": {"types": ["job/start"]}, "after": after})
    found = condition.first_match(event for _, event in numbered())
    assert (found and found.event_id) == match


def test_a_condition_on_nothing_is_never_broken() -> None:
    condition = AppendCondition.model_validate({"failIfEventsMatch": {"types": []}})
    assert condition.first_match(event for _, event in numbered()) is None


def test_a_condition_on_everything_is_broken_by_anything() -> None:
    condition = AppendCondition.model_validate({"failIfEventsMatch": {}})
    found = condition.first_match(event for _, event in numbered())
    assert found is not None
    assert found.event_id == 1


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, ("failIfEventsMatch",)),
        ({"failIfEventsMatch": None}, ("failIfEventsMatch",)),
        ({"failIfEventsMatch": {"type": ["a"]}}, ("failIfEventsMatch", "type")),
        ({"failIfEventsMatch": {"types": "a"}}, ("failIfEventsMatch", "types")),
        ({"failIfEventsMatch": {"types": ["*/a"]}}, ("failIfEventsMatch", "types", 0)),
        ({"failIfEventsMatch": {"types": ["a"] * 101}}, ("failIfEventsMatch", "types")),
        ({"failIfEventsMatch": {"keys": "/1"}}, ("failIfEventsMatch", "keys")),
        ({"failIfEventsMatch": {"keys": [str(i) for i in range(101)]}}, ("failIfEventsMatch", "keys")),
        ({"failIfEventsMatch": {}, "after": -1}, ("after",)),
        ({"failIfEventsMatch": {}, "after": 2**53}, ("after",)),
        ({"failIfEventsMatch": {}, "after": None}, ("after",)),
        ({"failIfEventsMatch": {}, "before": 1}, ("before",)),
    ],
)
def test_what_is_no_condition_is_refused_and_the_place_is_named(given: object, place: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as refusal:
        AppendCondition.model_validate(given)
    assert [error["loc"] for error in refusal.value.errors()] == [place]


OTHER = encode(NewEvent(type=("other",), key="/other")).decode()
SOME_SUBTYPES = st.sampled_from(["a", "b", "ab", '"', "é", "\\", "key"])
SOME_PATTERNS = st.builds(
    lambda head, star: (*head, *(("*",) if star else ())),
    st.lists(st.one_of(SOME_SUBTYPES, st.just("?")), max_size=3),
    st.booleans(),
)
SOME_KEYS = st.sampled_from(["/a", "/ab", '/"', "/é", "/\\", '","key":"/a'])


@given(
    st.lists(SOME_SUBTYPES, max_size=3),
    st.none() | SOME_KEYS,
    st.none() | st.lists(SOME_PATTERNS, max_size=3),
    st.none() | st.lists(SOME_KEYS, max_size=2),
)
def test_no_event_that_is_meant_is_left_out_unparsed(
    kind: list[str], key: str | None, types: list[tuple[str, ...]] | None, keys: list[str] | None
) -> None:
    text = encode(NewEvent(type=tuple(kind), key=key)).decode()
    selection = Selection(types=None if types is None else tuple(types), keys=None if keys is None else tuple(keys))
    if selection.selects(Event(Id(1, 1, 1), 1, 1, text)):
        assert (1, text) in list(selection.candidates(body_of([OTHER, text, OTHER])))
