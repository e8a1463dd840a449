"""Which events a reader or an append condition means: by type, by key, by object."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile
from typing import Annotated

from pydantic import AfterValidator, Field, SerializeAsAny
from pydantic_core import to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.body import texts_of, texts_with
from chalicelib.domain.events.event import Event, Key
from chalicelib.domain.events.event_type import EventType, Pattern, is_fixed, matches
from chalicelib.domain.model import Model
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef


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

    def candidates(self, body: str) -> Iterable[tuple[int, str]]:
        """Number, from 0, and JSON of each event of a commit's body that may be meant; spares parsing most of them.

        Written for speed: of many events few are meant.
        """
        openings, keys = _hints(self.types, self.keys)
        if keys is not None:
            found: Iterable[tuple[int, str]] = sorted({one for key in keys for one in texts_with(key, body)})
        elif openings is None or any(opening in body for opening in openings):
            found = enumerate(texts_of(body))
        else:
            return ()
        return found if openings is None else [(number, text) for number, text in found if text.startswith(openings)]

    def selects_type(self, event_type: EventType) -> bool:
        """Tell whether events of this type may be meant."""
        if self.types is None:
            return True
        for pattern in self.types:  # noqa: SIM110  (twice as fast, and asked for every type there is)
            if matches(event_type, pattern):
                return True
        return False


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
    fixed = None if types is None else [tuple(takewhile(is_fixed, pattern)) for pattern in types]
    openings = None if fixed is None or () in fixed else tuple(_opening(subtypes) for subtypes in fixed)
    return openings, None if keys is None else tuple(f'"key":{_json(key)},' for key in keys)


def _opening(subtypes: EventType) -> str:
    return f'{{"type":[{",".join(_json(subtype) for subtype in subtypes)}'


def _json(text: str) -> str:
    return to_json(text).decode()
