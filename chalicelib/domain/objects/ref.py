"""References to objects, and their states."""

from collections.abc import Mapping
from typing import Any, NamedTuple

State = Mapping[str, Any]
"""An object's overview, a small JSON object whose size does not grow with the object's history."""

KEYED = ""
"""The collection of keys that belong to no vocabulary. Their events can be queried, but they have no state."""

TAGGED = "#"
"""The collection of tags. Their events can be queried, but they have no state."""


ASSIGNABLE_END = 2**52
"""The server assigns smaller numbers. Greater ones of publishers do not count, so they cannot use up all numbers."""
_MAX_DIGITS = len(str(ASSIGNABLE_END))


class ObjectRef(NamedTuple):
    """The collection of an object, and its path in the collection."""

    collection: str
    path: str


def number_in_path(path: str) -> int:
    """The number of an object whose path is `/<number>`. 0 for other paths, and for numbers that are never assigned."""
    digits = path[1:]
    number = int(digits) if len(digits) <= _MAX_DIGITS and digits.isascii() and digits.isdecimal() else 0
    return number if number < ASSIGNABLE_END else 0
