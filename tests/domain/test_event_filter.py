"""Selections and append conditions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chalicelib.domain.events.body import join_body
from chalicelib.domain.events.event import Event, NewEvent, encode
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.queries.event_filter import EitherSelection, Selection

EVENTS = {
    "job/start on /1": (("job", "start"), "/1"),
    "job/end on /1": (("job", "end"), "/1"),
    "job/start on /2": (("job", "start"), "/2"),
    "note on nothing": (("note",), None),
    "nothing on nothing": ((), None),
}


def named_events() -> list[tuple[str, Event]]:
    """`EVENTS` with EventIds 1, 2, 3 …"""
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
def test_selection_selects_by_type_and_key(selection: dict[str, Any], selected: list[str]) -> None:
    parsed_selection = Selection.model_validate(selection)
    assert [name for name, event in named_events() if parsed_selection.selects(event)] == selected
    assert not parsed_selection.selects_everything or selected == list(EVENTS)


@pytest.mark.parametrize(
    ("selection", "everything"),
    [({}, True), ({"types": ["*"]}, True), ({"types": []}, False), ({"keys": []}, False), ({"types": ["a/*"]}, False)],
)
def test_selection_selects_everything(selection: dict[str, Any], everything: bool) -> None:
    assert Selection.model_validate(selection).selects_everything is everything


@pytest.mark.parametrize(
    ("after", "match"),
    [(0, 1), (1, 3), (2, 3), (3, None), (99, None)],
)
def test_condition_first_match_after_position(after: int, match: int | None) -> None:
    condition = AppendCondition.model_validate({"failIfEventsMatch": {"types": ["job/start"]}, "after": after})
    first = condition.first_match(event for _, event in named_events())
    assert (first and first.event_id) == match


@pytest.mark.parametrize(("first_after", "second_after"), [(0, 1), (1, 0), (0, 2), (3, 3), (2, 4), (4, 3)])
def test_either_selects_events_after_each_position(first_after: int, second_after: int) -> None:
    either = EitherSelection(
        first=Selection(types=(("job", "start"),)),
        first_after=first_after,
        second=Selection(types=(("job", "end"), ("note",))),
        second_after=second_after,
    )
    selected = {event.event_id for _, event in named_events() if either.selects(event)}
    assert selected == {n for n in (1, 3) if n > first_after} | {n for n in (2, 4) if n > second_after}


def test_condition_with_empty_types_never_matches() -> None:
    condition = AppendCondition.model_validate({"failIfEventsMatch": {"types": []}})
    assert condition.first_match(event for _, event in named_events()) is None


def test_condition_without_filter_matches_any_event() -> None:
    condition = AppendCondition.model_validate({"failIfEventsMatch": {}})
    first = condition.first_match(event for _, event in named_events())
    assert first is not None
    assert first.event_id == 1


@pytest.mark.parametrize(
    ("given", "location"),
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
def test_condition_invalid_field_is_named_in_error(given: object, location: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as error_info:
        AppendCondition.model_validate(given)
    assert [error["loc"] for error in error_info.value.errors()] == [location]


OTHER = encode(NewEvent(type=("other",), key="/other")).decode()
SUBTYPES = st.sampled_from(["a", "b", "ab", '"', "é", "\\", "key"])
PATTERNS = st.builds(
    lambda head, star: (*head, *(("*",) if star else ())),
    st.lists(st.one_of(SUBTYPES, st.just("?")), max_size=3),
    st.booleans(),
)
KEYS = st.sampled_from(["/a", "/ab", '/"', "/é", "/\\", '","key":"/a'])


@given(
    st.lists(SUBTYPES, max_size=3),
    st.none() | KEYS,
    st.none() | st.lists(PATTERNS, max_size=3),
    st.none() | st.lists(KEYS, max_size=2),
)
def test_candidates_include_every_selected_event(
    subtypes: list[str], key: str | None, types: list[tuple[str, ...]] | None, keys: list[str] | None
) -> None:
    text = encode(NewEvent(type=tuple(subtypes), key=key)).decode()
    selection = Selection(types=None if types is None else tuple(types), keys=None if keys is None else tuple(keys))
    if selection.selects(Event(Id(1, 1, 1), 1, 1, text)):
        assert (1, text) in list(selection.candidates(join_body([OTHER, text, OTHER])))


def test_candidates_of_several_keys_are_ordered_and_unique() -> None:
    mentions_both = {"type": ["a"], "key": "/a", "payload": {"type": "json", "data": {"key": "/b", "other": 1}}}
    events = [NewEvent(type=("a",), key=f"/{'ba'[n % 2]}") for n in range(8)] + [NewEvent.model_validate(mentions_both)]
    texts = [encode(event).decode() for event in events]
    candidates = Selection(keys=("/a", "/b")).candidates(join_body([OTHER, *texts, OTHER]))
    assert list(candidates) == list(enumerate(texts, start=1))
