"""Selections: filters for events by type, key, tag and object."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, takewhile
from typing import Annotated

from pydantic import AfterValidator, Field, SerializeAsAny
from pydantic_core import to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.body import find_in_body, split_body
from chalicelib.domain.events.event import Event, Key, Tags
from chalicelib.domain.events.event_type import EventType, Pattern, is_literal, matches
from chalicelib.domain.model import Model
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import TAGGED, ObjectRef


def _sort_unique(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(keys)))


Patterns = Annotated[tuple[Pattern, ...], Field(fail_fast=True, max_length=100)]
Keys = Annotated[tuple[Key, ...], Field(fail_fast=True, max_length=100), AfterValidator(_sort_unique)]


_AFFECTED_OBJECTS_COST = 10
"""Finding the objects of an event takes about as long as this number of comparisons."""

ObjectGroup = tuple[ObjectRef, ...]
"""Objects that together contain all selected events."""


class Selection(Model):
    """Events whose type matches one of `types`, whose key is one of `keys`, and that have all `tags`.

    A missing list selects all events. An empty list of types or keys selects none.
    """

    types: Patterns | None = None
    keys: Keys | None = None
    # Left out if absent, so that the digest of a request without tags is that of earlier versions.
    tags: Tags | None = Field(None, exclude_if=lambda tags: tags is None)

    @property
    def selects_everything(self) -> bool:
        return self.keys is None and not self.tags and (self.types is None or ("*",) in self.types)

    @property
    def alternatives(self) -> "tuple[Selection, ...]":
        """Selections that together select the same events. Each can be looked up separately."""
        return (self,)

    @property
    def object_groups(self) -> tuple[ObjectGroup, ...]:
        """The ways to name objects that together contain all selected events. Empty if there is none."""
        groups = [(ObjectRef(TAGGED, tag),) for tag in self.tags or ()]
        if self.keys is None:
            return tuple(groups)
        return (tuple(ref for key in self.keys for ref in vocabularies.objects_with_key(key)), *groups)

    @property
    def required_keys(self) -> frozenset[str] | None:
        """The keys of which every selected event has one. None: events with any key, or without one."""
        keys = [each.keys for each in self.alternatives]
        return None if None in keys else frozenset(chain.from_iterable(each or () for each in keys))

    @property
    def match_cost(self) -> int:
        """The number of comparisons that `selects` makes at most."""
        return 1 + len(self.keys or ()) + len(self.tags or ()) + sum(len(pattern) + 1 for pattern in self.types or ())

    def selects(self, event: Event) -> bool:
        fields = event.fields
        return (
            (self.keys is None or fields.key in self.keys)
            and (not self.tags or all(tag in fields.tags for tag in self.tags))
            and self.selects_type(fields.type)
        )

    def selects_type(self, event_type: EventType) -> bool:
        if self.types is None:
            return True
        for pattern in self.types:  # noqa: SIM110  (twice as fast as any(), and called for every event)
            if matches(event_type, pattern):
                return True
        return False

    def candidates(self, body: str) -> Iterable[tuple[int, str]]:
        """Index and JSON of those events in a commit's body that may be selected.

        Searches the text, because parsing every event would be much slower when only few are selected.
        """
        prefixes, key_members = _text_hints(self.types, self.keys)
        texts: Iterable[tuple[int, str]]
        if key_members is not None:
            texts = sorted({item for member in key_members for item in find_in_body(member, body)})
        elif self.tags:
            texts = find_in_body(_json(self.tags[0]), body)
        elif prefixes is None or any(prefix in body for prefix in prefixes):
            texts = enumerate(split_body(body))
        else:
            return ()
        return texts if prefixes is None else [(index, text) for index, text in texts if text.startswith(prefixes)]


class ObjectSelection(Selection):
    """Events about the objects of a collection that match a path query."""

    collection: str
    query: PathQuery

    @property
    def selects_everything(self) -> bool:
        """Always false, because there are events that are not about any object."""
        return False

    @property
    def object_groups(self) -> tuple[ObjectGroup, ...]:
        """With the objects of the query, if it names each of them."""
        refs = tuple(ObjectRef(self.collection, pattern.text) for pattern in self.query.patterns)
        groups = super().object_groups
        return (refs, *groups) if all(vocabularies.is_unique(ref) for ref in refs) else groups

    @property
    def match_cost(self) -> int:
        return super().match_cost + _AFFECTED_OBJECTS_COST * len(self.query.patterns)

    def selects(self, event: Event) -> bool:
        return super().selects(event) and any(
            ref.collection == self.collection and vocabularies.matches(self.query, ref)
            for ref in vocabularies.affected_objects(event.fields)
        )


class AnySelection(Selection):
    """The union of selections."""

    items: tuple[Selection, ...]

    @property
    def selects_everything(self) -> bool:
        return any(item.selects_everything for item in self.items)

    @property
    def alternatives(self) -> tuple[Selection, ...]:
        return self.items

    @property
    def match_cost(self) -> int:
        return sum(item.match_cost for item in self.items)

    def selects(self, event: Event) -> bool:
        return any(item.selects(event) for item in self.items)

    def candidates(self, body: str) -> Iterable[tuple[int, str]]:
        return sorted(dict(chain.from_iterable(item.candidates(body) for item in self.items)).items())


class EitherSelection(Selection):
    """The union of two selections, each with its own start position."""

    first: SerializeAsAny[Selection]
    first_after: int
    second: SerializeAsAny[Selection]
    second_after: int

    @property
    def selects_everything(self) -> bool:
        """Always false, because of the start positions."""
        return False

    @property
    def alternatives(self) -> tuple[Selection, ...]:
        """Without the start positions, which the caller checks with `selects`."""
        return (*self.first.alternatives, *self.second.alternatives)

    @property
    def match_cost(self) -> int:
        return self.first.match_cost + self.second.match_cost

    def selects(self, event: Event) -> bool:
        is_first = event.event_id > self.first_after and self.first.selects(event)
        return is_first or (event.event_id > self.second_after and self.second.selects(event))


@lru_cache(maxsize=1024)
def _text_hints(
    types: tuple[EventType, ...] | None, keys: tuple[str, ...] | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Possible prefixes of a selected event's text, and the `"key":…` members it may contain. None: any."""
    literals = None if types is None else [tuple(takewhile(is_literal, pattern)) for pattern in types]
    prefixes = None if literals is None or () in literals else tuple(_type_prefix(subtypes) for subtypes in literals)
    return prefixes, None if keys is None else tuple(f'"key":{_json(key)},' for key in keys)


def _type_prefix(subtypes: EventType) -> str:
    return f'{{"type":[{",".join(_json(subtype) for subtype in subtypes)}'


def _json(text: str) -> str:
    return to_json(text).decode()
