"""Event types and the patterns that select them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from chalicelib.domain.events.event_type import CheckedEventType, EventType, Pattern, joined, matches

SUBTYPES = st.sampled_from(["a", "b", "ab", "é"])
EVENT_TYPES = st.lists(SUBTYPES, max_size=5).map(tuple)
PATTERNS = st.tuples(st.lists(SUBTYPES | st.just("?"), max_size=5), st.sampled_from([[], ["*"]])).map(
    lambda parts: (*parts[0], *parts[1])
)
CHECKED_TYPE = TypeAdapter[EventType](CheckedEventType)
PATTERN = TypeAdapter[EventType](Pattern)


def selects_by_expression(event_type: EventType, query: EventType) -> bool:
    """Matching once more, with a regular expression over text."""
    parts = {"?": "[^/]+/", "*": ".*"}
    expression = "".join(parts.get(subtype, re.escape(subtype) + "/") for subtype in query)
    return re.fullmatch(expression, "".join(f"{subtype}/" for subtype in event_type)) is not None


def selects_by_recursion(event_type: EventType, query: EventType) -> bool:
    """Matching once more, as the sentence says it."""
    match query, event_type:
        case ("*",), _:
            return True
        case (), ():
            return True
        case (wanted, *query_rest), (found, *type_rest) if wanted in ("?", found):
            return selects_by_recursion(tuple(type_rest), tuple(query_rest))
        case _:
            return False


@given(EVENT_TYPES, PATTERNS)
def test_matching_agrees_with_two_other_ways_to_say_it(event_type: EventType, query: EventType) -> None:
    found = matches(event_type, query)
    assert found == selects_by_expression(event_type, query) == selects_by_recursion(event_type, query)


@given(EVENT_TYPES)
def test_a_type_selects_itself_and_star_selects_every_type(event_type: EventType) -> None:
    assert matches(event_type, event_type)
    assert matches(event_type, ("*",))
    assert matches(event_type, (*event_type, "*"))
    assert matches(event_type, ("?",) * len(event_type))


@given(EVENT_TYPES)
def test_every_type_can_be_written_as_a_pattern(event_type: EventType) -> None:
    assert PATTERN.validate_python(joined(event_type)) == PATTERN.validate_python(list(event_type)) == event_type


@pytest.mark.parametrize("value", [[], ["a"], ["job", "finish", "n1", "backup"], ["a b", "ä", ".", "-"], ["x" * 900]])
def test_an_event_may_have_any_type_without_wildcards(value: list[str]) -> None:
    assert CHECKED_TYPE.validate_python(value) == tuple(value)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (["a", "?"], (1,)),
        (["a", "*"], (1,)),
        (["a/b"], (0,)),
        (["a?"], (0,)),
        (["*a"], (0,)),
        (["a\n?"], (0,)),
        (["a", ""], (1,)),
        ("a/b", ()),
        ([1], (0,)),
        (None, ()),
        ([["a"]], (0,)),
    ],
)
def test_a_type_that_no_event_may_have_is_refused(value: object, place: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError) as refusal:
        CHECKED_TYPE.validate_python(value)
    assert [error["loc"] for error in refusal.value.errors()] == [place]


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ("", ()),
        ("*", ("*",)),
        ("a/?/*", ("a", "?", "*")),
        (["a", "?", "*"], ("a", "?", "*")),
        ([], ()),
    ],
)
def test_a_pattern_is_text_or_a_list(value: object, pattern: EventType) -> None:
    assert PATTERN.validate_python(value) == pattern


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("*/a", r"'\*' stands last, unlike in '\*/a'"),
        ("a/*/b", r"'\*' stands last, unlike in 'a/\*/b'"),
        ("a*", r"'\?' and '\*' stand for whole subtypes, unlike in 'a\*'"),
        ("a/b?", r"unlike in 'b\?'"),
        ("**", r"unlike in '\*\*'"),
        (["a/b"], "unlike in 'a/b'"),
        (5, "valid tuple"),
        ([5], "valid string"),
    ],
)
def test_a_pattern_that_could_select_nothing_is_refused(value: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        PATTERN.validate_python(value)


@given(st.lists(st.text(st.characters(exclude_characters="?*/", codec="utf-8"), min_size=1), max_size=4).map(tuple))
def test_a_checked_type_is_unchanged(event_type: EventType) -> None:
    assert CHECKED_TYPE.validate_python(event_type) == event_type
