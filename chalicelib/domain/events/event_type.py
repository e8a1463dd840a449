"""Event types: lists of subtypes, and the patterns that select them."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

EventType = tuple[str, ...]
"""Subtypes from the general to the special; in queries `?` and a final `*` stand for others."""

LONGEST_BYTES = 900
"""A type and a key must each fit in a DynamoDB sort key with room for a prefix."""

MOST_SUBTYPES = LONGEST_BYTES // 2
"""More do not fit in so many bytes."""

RESERVED = frozenset("?*/")
"""What no subtype has: patterns and written types need these."""


def matches(event_type: EventType, query: EventType) -> bool:
    """Tell whether `query` selects `event_type`.

    "?" stands for exactly one subtype, a final "*" for any number, even none.
    """
    if query and query[-1] == "*":
        query = query[:-1]
        event_type = event_type[: len(query)]
    return event_type == query or (
        "?" in query
        and len(event_type) == len(query)
        and all(wanted in ("?", found) for wanted, found in zip(query, event_type, strict=True))
    )


def is_fixed(subtype: str) -> bool:
    """Tell whether a part of a pattern stands for itself alone."""
    return subtype not in ("?", "*")


def joined(event_type: EventType) -> str:
    """The type as one string, subtypes separated by `/`."""
    return "/".join(event_type)


def pattern_checked(query: EventType) -> EventType:
    """`query` itself, if it can select anything: `*` stands last, wildcards stand alone, and types may be as long."""
    if len(query) > MOST_SUBTYPES or sum(map(len, query)) > LONGEST_BYTES:
        raise ValueError(f"a pattern may have at most {MOST_SUBTYPES} subtypes and {LONGEST_BYTES} characters")
    for subtype in query:
        if subtype not in ("?", "*") and not RESERVED.isdisjoint(subtype):
            raise ValueError(f"in a pattern '?' and '*' stand for whole subtypes, unlike in '{subtype}'")
    if "*" in query[:-1]:
        raise ValueError(f"in a pattern '*' stands last, unlike in '{joined(query)}'")
    return query


def _split(value: object) -> object:
    """A pattern may be written `a/?/*`; the empty string is the empty type."""
    if isinstance(value, str):
        return tuple(value.split("/")) if value else ()
    return value


SUBTYPE = r"^[^?*/]+$"
Subtype = Annotated[str, StringConstraints(pattern=SUBTYPE)]
"""Any text without the characters that mean something in patterns. Checked in compiled code: this is the hot path."""

CheckedEventType = Annotated[tuple[Subtype, ...], Field(fail_fast=True, max_length=MOST_SUBTYPES)]
"""A type that an event may have."""

Pattern = Annotated[EventType, BeforeValidator(_split), AfterValidator(pattern_checked)]
