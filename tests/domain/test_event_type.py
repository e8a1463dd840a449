"""Event types and patterns."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from chalicelib.domain.events.event_type import EventType, Pattern, ValidEventType, join_subtypes, matches

SUBTYPES = st.sampled_from(["a", "b", "ab", "é", ""])
EVENT_TYPES = st.lists(SUBTYPES, max_size=5).map(tuple)
PATTERNS = st.tuples(st.lists(SUBTYPES | st.just("?"), max_size=5), st.sampled_from([[], ["*"]])).map(
    lambda parts: (*parts[0], *parts[1])
)
VALID_TYPE = TypeAdapter[EventType](ValidEventType)
PATTERN = TypeAdapter[EventType](Pattern)


def matches_by_regex(event_type: EventType, pattern: EventType) -> bool:
    """A reference version that uses a regular expression."""
    parts = {"?": "[^/]*/", "*": ".*"}
    expression = "".join(parts.get(subtype, re.escape(subtype) + "/") for subtype in pattern)
    return re.fullmatch(expression, "".join(f"{subtype}/" for subtype in event_type)) is not None


def matches_by_recursion(event_type: EventType, pattern: EventType) -> bool:
    """A reference version that follows the definition."""
    match pattern, event_type:
        case ("*",), _:
            return True
        case (), ():
            return True
        case (part, *pattern_rest), (subtype, *type_rest) if part in ("?", subtype):
            return matches_by_recursion(tuple(type_rest), tuple(pattern_rest))
        case _:
            return False


@given(EVENT_TYPES, PATTERNS)
def test_matches_agrees_with_two_reference_versions(event_type: EventType, pattern: EventType) -> None:
    result = matches(event_type, pattern)
    assert result == matches_by_regex(event_type, pattern) == matches_by_recursion(event_type, pattern)


@given(EVENT_TYPES)
def test_matches_own_type_and_wildcards(event_type: EventType) -> None:
    assert matches(event_type, event_type)
    assert matches(event_type, ("*",))
    assert matches(event_type, (*event_type, "*"))
    assert matches(event_type, ("?",) * len(event_type))


@given(EVENT_TYPES)
def test_pattern_accepts_every_type_as_text_or_list(event_type: EventType) -> None:
    assert PATTERN.validate_python(list(event_type)) == event_type
    if event_type != ("",):  # the only type without a form as text
        assert PATTERN.validate_python(join_subtypes(event_type)) == event_type


@pytest.mark.parametrize(
    "value",
    [
        [],
        ["a"],
        ["job", "finish", "n1", "backup"],
        ["a b", "ä", ".", "-"],
        ["x" * 900],
        [""],
        ["a", "", "b"],
        [""] * 450,
    ],
)
def test_event_type_without_wildcards_is_valid(value: list[str]) -> None:
    assert VALID_TYPE.validate_python(value) == tuple(value)


@pytest.mark.parametrize(
    ("value", "location"),
    [
        (["a", "?"], (1,)),
        (["a", "*"], (1,)),
        (["a/b"], (0,)),
        (["a?"], (0,)),
        (["*a"], (0,)),
        (["a\n?"], (0,)),
        ("a/b", ()),
        ([1], (0,)),
        (None, ()),
        ([["a"]], (0,)),
    ],
)
def test_event_type_invalid_is_rejected(value: object, location: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError) as error_info:
        VALID_TYPE.validate_python(value)
    assert [error["loc"] for error in error_info.value.errors()] == [location]


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ("", ()),
        ("*", ("*",)),
        ("a/?/*", ("a", "?", "*")),
        (["a", "?", "*"], ("a", "?", "*")),
        ([], ()),
        ([""], ("",)),
        ("/", ("", "")),
        ("a//b", ("a", "", "b")),
        ("/a/", ("", "a", "")),
        ("/*", ("", "*")),
    ],
)
def test_pattern_accepts_text_or_list(value: object, pattern: EventType) -> None:
    assert PATTERN.validate_python(value) == pattern


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("*/a", r"'\*' is only allowed at the end of a pattern, not as in '\*/a'"),
        ("a/*/b", r"'\*' is only allowed at the end of a pattern, not as in 'a/\*/b'"),
        ("a*", r"'\?' and '\*' match whole subtypes and cannot be part of one, as in 'a\*'"),
        ("a/b?", r"as in 'b\?'"),
        ("**", r"as in '\*\*'"),
        (["a/b"], "as in 'a/b'"),
        (5, "valid tuple"),
        ([5], "valid string"),
    ],
)
def test_pattern_that_cannot_match_is_rejected(value: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        PATTERN.validate_python(value)


@given(st.lists(st.text(st.characters(exclude_characters="?*/", codec="utf-8")), max_size=4).map(tuple))
def test_event_type_validation_returns_it_unchanged(event_type: EventType) -> None:
    assert VALID_TYPE.validate_python(event_type) == event_type
