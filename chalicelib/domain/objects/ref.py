"""Objects: what events are about, and the states that they fold into."""

from collections.abc import Mapping
from typing import Any, NamedTuple

State = Mapping[str, Any]
"""An object's overview: a JSON object, small, without anything that grows with its history."""

KEYED = ""
"""The collection of keys that no vocabulary knows: their events are found, but they have no state."""


class ObjectRef(NamedTuple):
    """Which object: its collection, and its path in it."""

    collection: str
    path: str
