"""Which events a reader or an append condition means: by type, by key, by object."""

from functools import lru_cache
from itertools import takewhile
from typing import Annotated

from pydantic import AfterValidator, Field, SerializeAsAny
from pydantic_core import to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.event_types import EventType, Pattern, matches
from chalicelib.domain.events import Event, Key
from chalicelib.domain.model import Model
from chalicelib.domain.objects import ObjectRef
from chalicelib.domain.path_query import PathQuery


def _in_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(keys)))


Patterns = Annotated[tuple[Pattern, ...], Field(fail_fast=True, max_length=100)]
Keys = Annotated[tuple[Key, ...], Field(fail_fast=True, max_length=100), AfterValidator(_in_order)]


class Selection(Model):
    """Events whose type matches one of `types` and whose key is one of `keys`; what is absent selects all.

    An empty list is not absent: it selects nothing.
    """

    types: Patterns | None = None
    keys: Keys | None = None

    @property
    def everything(self) -> bool:
        """Whether no event can fail."""
        return self.keys is None and (self.types is None or ("*",) in self.types)

    @property
    def refs(self) -> tuple[ObjectRef, ...] | None:
        """The objects that together hold all selected events; None if they are not known so well."""
        if self.keys is None:
            return None
        return tuple(ref for key in self.keys for ref in vocabularies.refs_of_key(key))

    def selects(self, event: Event) -> bool:
        """Tell whether `event` is meant."""
        stored = event.stored
        return (self.keys is None or stored.key in self.keys) and self.selects_type(stored.type)

    def may_select(self, text: str) -> bool:
        """False only if the event that the log keeps as `text` is surely not meant; spares parsing most of them."""
        openings, keys = _hints(self.types, self.keys)
        if openings is not None and not text.startswith(openings):
            return False
        return keys is None or any(key in text for key in keys)

    def selects_type(self, event_type: EventType) -> bool:
        """Tell whether events of this type may be meant."""
        return self.types is None or any(matches(event_type, pattern) for pattern in self.types)


class ObjectSelection(Selection):
    """Events about the objects of a collection that a path query means."""

    collection: str
    query: PathQuery

    @property
    def everything(self) -> bool:
        """Never: an event may be about nothing."""
        return False

    @property
    def refs(self) -> tuple[ObjectRef, ...] | None:
        """The objects, if each is named."""
        found = [ObjectRef(self.collection, pattern.text) for pattern in self.query.patterns]
        return tuple(found) if all(vocabularies.is_unique(ref) for ref in found) else None

    def selects(self, event: Event) -> bool:
        """Tell whether `event` is meant."""
        stored = event.stored
        return super().selects(event) and any(
            ref.collection == self.collection and vocabularies.matches(self.query, ref)
            for ref in vocabularies.objects_of(stored)
        )


class Either(Selection):
    """Events that one selection means after one position, or another after another."""

    one: SerializeAsAny[Selection]
    one_after: int
    other: SerializeAsAny[Selection]
    other_after: int

    @property
    def everything(self) -> bool:
        """Never: positions count."""
        return False

    def selects(self, event: Event) -> bool:
        """Tell whether `event` is meant."""
        is_one = event.event_id > self.one_after and self.one.selects(event)
        return is_one or (event.event_id > self.other_after and self.other.selects(event))


@lru_cache(maxsize=1024)
def _hints(
    types: tuple[EventType, ...] | None, keys: tuple[str, ...] | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """What the text of a selected event begins with, and what it contains; None: anything."""
    fixed = None if types is None else [tuple(takewhile(_is_fixed, pattern)) for pattern in types]
    openings = None if fixed is None or () in fixed else tuple(_opening(subtypes) for subtypes in fixed)
    return openings, None if keys is None else tuple(f'"key":{_json(key)},' for key in keys)


def _is_fixed(subtype: str) -> bool:
    return subtype not in ("?", "*")


def _opening(subtypes: EventType) -> str:
    return f'{{"type":[{",".join(_json(subtype) for subtype in subtypes)}'


def _json(text: str) -> str:
    return to_json(text).decode()
