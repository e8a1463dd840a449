"""Event types: lists of subtypes, and the patterns that select them."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from chalicelib.domain.json_schema import JsonSchema, named_schema

EventType = tuple[str, ...]
"""Subtypes from general to specific. A subtype may be empty. In patterns, `?` and a final `*` are wildcards."""

MAX_TYPE_OR_KEY_BYTES = 900
"""A type and a key must each fit in a DynamoDB sort key with room for a prefix."""

MAX_SUBTYPES = MAX_TYPE_OR_KEY_BYTES // 2
"""A limit of its own, because empty subtypes take no room in `MAX_TYPE_OR_KEY_BYTES`."""

RESERVED_CHARACTERS = frozenset("?*/")
"""Not allowed in subtypes, because they have a meaning in patterns or separate subtypes."""


def matches(event_type: EventType, pattern: EventType) -> bool:
    """`?` matches exactly one subtype, a final `*` matches any number, including none."""
    if pattern and pattern[-1] == "*":
        pattern = pattern[:-1]
        event_type = event_type[: len(pattern)]
    return event_type == pattern or (
        "?" in pattern
        and len(event_type) == len(pattern)
        and all(part in ("?", subtype) for part, subtype in zip(pattern, event_type, strict=True))
    )


def is_literal(subtype: str) -> bool:
    """Whether a part of a pattern is not a wildcard."""
    return subtype not in ("?", "*")


def join_subtypes(event_type: EventType) -> str:
    """The type as one string, with `/` between subtypes. The type with one empty subtype has no such form."""
    return "/".join(event_type)


def check_pattern(pattern: EventType) -> EventType:
    """Return `pattern`. Raises `ValueError` if no event type could match it."""
    if len(pattern) > MAX_SUBTYPES or sum(map(len, pattern)) > MAX_TYPE_OR_KEY_BYTES:
        raise ValueError(f"a pattern may have at most {MAX_SUBTYPES} subtypes and {MAX_TYPE_OR_KEY_BYTES} characters")
    for subtype in pattern:
        if subtype not in ("?", "*") and not RESERVED_CHARACTERS.isdisjoint(subtype):
            raise ValueError(f"'?' and '*' match whole subtypes and cannot be part of one, as in '{subtype}'")
    if "*" in pattern[:-1]:
        raise ValueError(f"'*' is only allowed at the end of a pattern, not as in '{join_subtypes(pattern)}'")
    return pattern


def _split_pattern(value: object) -> object:
    """Accept a pattern as a string such as `a/?/*`. The empty string is the empty type, `/` is two empty subtypes."""
    if isinstance(value, str):
        return tuple(value.split("/")) if value else ()
    return value


SUBTYPE_REGEX = r"^[^?*/]*$"
Subtype = Annotated[str, StringConstraints(pattern=SUBTYPE_REGEX)]
"""Any text without reserved characters. A regular expression, because this is validated for every event."""

ValidEventType = Annotated[tuple[Subtype, ...], Field(fail_fast=True, max_length=MAX_SUBTYPES)]
"""The type of an event, without wildcards."""

TYPE_PATTERN = r"^(?:(?:\?|[^?*/]*)/)*(?:\?|\*|[^?*/]*)$"
_PATTERN_SUBTYPE_SCHEMA: JsonSchema = {"type": "string", "pattern": r"^(?:\?|[^?*/]*)$"}


def _list_ending_with_wildcard(length: int) -> JsonSchema:
    """Lists of `length` subtypes that end with `*`. JSON Schema can only state each length separately."""
    before = [_PATTERN_SUBTYPE_SCHEMA] * (length - 1)
    return {"type": "array", "prefixItems": [*before, {"const": "*"}], "items": False, "minItems": length}


Pattern = Annotated[
    EventType,
    BeforeValidator(_split_pattern),
    AfterValidator(check_pattern),
    named_schema(
        "TypePattern",
        {
            "description": "A pattern of types: `?` stands for one subtype, a final `*` for any number.",
            "anyOf": [
                {"type": "string", "pattern": TYPE_PATTERN, "examples": ["job/finish/*"]},
                {"type": "array", "items": _PATTERN_SUBTYPE_SCHEMA},
                *(_list_ending_with_wildcard(length) for length in range(1, 9)),
            ],
        },
    ),
]
