"""Selections: which events they select, and which texts they consider."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.domain.events.body import join_body
from chalicelib.domain.events.event import Event, NewEvent, encode
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.objects.ref import TAGGED, ObjectRef
from chalicelib.domain.queries.event_filter import AnySelection, EitherSelection, Selection
from tests.exactness.model import type_matches

EVENTS: dict[str, tuple[tuple[str, ...], str | None, tuple[str, ...]]] = {
    "job/start on /1": (("job", "start"), "/1", ("a",)),
    "job/end on /1": (("job", "end"), "/1", ("b", "a")),
    "job/start on /2": (("job", "start"), "/2", ()),
    "note on nothing": (("note",), None, ("b", "c")),
    "nothing on nothing": ((), None, ()),
}


def named_events() -> list[tuple[str, Event]]:
    """`EVENTS` with EventIds 1, 2, 3 …"""
    return [
        (name, Event(Id(1, number, 1), number, number, encode(NewEvent(type=type_, key=key, tags=tags)).decode()))
        for number, (name, (type_, key, tags)) in enumerate(EVENTS.items(), start=1)
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
        ({"tags": []}, list(EVENTS)),
        ({"tags": ["a"]}, ["job/start on /1", "job/end on /1"]),
        ({"tags": ["b", "a"]}, ["job/end on /1"]),
        ({"tags": ["a", "b", "c"]}, []),
        ({"tags": ["A"]}, []),
        ({"tags": ["b"], "types": ["job/*"]}, ["job/end on /1"]),
        ({"tags": ["b"], "keys": ["/1"]}, ["job/end on /1"]),
        ({"tags": ["b"], "keys": ["/2"]}, []),
        ({"tags": ["a"], "keys": ["/1"], "types": ["job/start"]}, ["job/start on /1"]),
    ],
)
def test_selection_selects_by_type_key_and_tags(selection: dict[str, Any], selected: list[str]) -> None:
    parsed_selection = Selection.model_validate(selection)
    assert [name for name, event in named_events() if parsed_selection.selects(event)] == selected
    assert not parsed_selection.selects_everything or selected == list(EVENTS)


@pytest.mark.parametrize(
    ("selection", "everything"),
    [
        ({}, True),
        ({"types": ["*"]}, True),
        ({"tags": []}, True),
        ({"types": []}, False),
        ({"keys": []}, False),
        ({"types": ["a/*"]}, False),
        ({"tags": ["a"]}, False),
        ({"types": ["*"], "tags": ["a"]}, False),
    ],
)
def test_selection_selects_everything(selection: dict[str, Any], everything: bool) -> None:
    parsed_selection = Selection.model_validate(selection)
    assert parsed_selection.selects_everything is everything
    assert AnySelection(items=(Selection(types=()), parsed_selection)).selects_everything is everything


@pytest.mark.parametrize(
    ("selection", "groups"),
    [
        (Selection(types=(("job", "*"),)), ()),
        (Selection(tags=("a", "b")), ((ObjectRef(TAGGED, "a"),), (ObjectRef(TAGGED, "b"),))),
        (Selection(keys=()), ((),)),
    ],
    ids=["types", "tags", "no key"],
)
def test_object_groups_name_each_tag(selection: Selection, groups: object) -> None:
    assert selection.object_groups == groups


def test_object_groups_of_keys_and_tags_are_separate() -> None:
    by_keys, by_tag = Selection(keys=("/1", "/2"), tags=("a",)).object_groups
    assert {ref.path for ref in by_keys} >= {"/1", "/2"}
    assert by_tag == (ObjectRef(TAGGED, "a"),)


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


OTHER = encode(NewEvent(type=("other",), key="/other")).decode()
SUBTYPES = st.sampled_from(["a", "b", "ab", '"', "é", "\\", "key"])
PATTERNS = st.builds(
    lambda head, star: (*head, *(("*",) if star else ())),
    st.lists(st.one_of(SUBTYPES, st.just("?")), max_size=3),
    st.booleans(),
)
KEYS = st.sampled_from(["/a", "/ab", '/"', "/é", "/\\", '","key":"/a'])
TAGS = st.lists(st.sampled_from(["a", "/a", '"', "é", "\\", "key", '"],"tags":["a']), max_size=3, unique=True).map(
    tuple
)
ITEMS = st.builds(
    Selection,
    types=st.none() | st.lists(PATTERNS, max_size=3).map(tuple),
    keys=st.none() | st.lists(KEYS, max_size=2).map(tuple),
    tags=st.none() | TAGS,
)
NEW_EVENTS = st.builds(NewEvent, type=st.lists(SUBTYPES, max_size=3).map(tuple), key=st.none() | KEYS, tags=TAGS)


def selects_naively(item: Selection, event: NewEvent) -> bool:
    """The rule, written with sets and loops."""
    return (
        (item.types is None or any(type_matches(event.type, pattern) for pattern in item.types))
        and (item.keys is None or event.key in set(item.keys))
        and set(item.tags or ()) <= set(event.tags or ())
    )


@given(st.lists(NEW_EVENTS, min_size=1, max_size=4), st.lists(ITEMS, min_size=1, max_size=3))
def test_selections_equal_naive_implementation(new_events: list[NewEvent], items: list[Selection]) -> None:
    texts = [encode(event).decode() for event in new_events]
    events = [Event(Id(1, 1, n), n, 1, text) for n, text in enumerate(texts, start=1)]
    expected = [[selects_naively(item, event) for event in new_events] for item in items]
    assert [[item.selects(event) for event in events] for item in items] == expected
    union = AnySelection(items=tuple(items))
    assert [union.selects(event) for event in events] == [any(column) for column in zip(*expected, strict=True)]


@given(NEW_EVENTS, st.lists(ITEMS, min_size=1, max_size=3))
def test_candidates_include_every_selected_event(new_event: NewEvent, items: list[Selection]) -> None:
    text = encode(new_event).decode()
    for selection in (*items, AnySelection(items=tuple(items))):
        candidates = list(selection.candidates(join_body([OTHER, text, OTHER])))
        assert candidates == sorted(set(candidates))
        if selection.selects(Event(Id(1, 1, 1), 1, 1, text)):
            assert (1, text) in candidates


def test_candidates_by_tag_skip_other_events() -> None:
    texts = [encode(NewEvent(type=("a",), tags=(tag,))).decode() for tag in ("x", "y", "xy", "x")]
    assert [index for index, _ in Selection(tags=("x",)).candidates(join_body(texts))] == [0, 3]


def test_candidates_of_several_keys_are_ordered_and_unique() -> None:
    mentions_both = {"type": ["a"], "key": "/a", "payload": {"type": "json", "data": {"key": "/b", "other": 1}}}
    events = [NewEvent(type=("a",), key=f"/{'ba'[n % 2]}") for n in range(8)] + [NewEvent.model_validate(mentions_both)]
    texts = [encode(event).decode() for event in events]
    candidates = Selection(keys=("/a", "/b")).candidates(join_body([OTHER, *texts, OTHER]))
    assert list(candidates) == list(enumerate(texts, start=1))
