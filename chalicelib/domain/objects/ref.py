"""References to objects, and their states."""

from collections.abc import Mapping
from typing import Any, NamedTuple

State = Mapping[str, Any]
"""An object's overview, a small JSON object whose size does not grow with the object's history."""

KEYED = ""
"""The collection of keys that belong to no vocabulary. Their events can be queried, but they have no state."""

TAGGED = "#"
"""The collection of tags. Their events can be queried, but they have no state."""


class ObjectRef(NamedTuple):
    """The collection of an object, and its path in the collection."""

    collection: str
    path: str
