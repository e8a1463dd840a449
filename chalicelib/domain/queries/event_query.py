"""Event queries as clients write them: one item, or a list of items of which an event matches at least one."""

from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from chalicelib.domain.events.event import Tags
from chalicelib.domain.json_schema import with_members
from chalicelib.domain.model import Model
from chalicelib.domain.queries.event_filter import AnySelection, Keys, Patterns, Selection

MAX_ITEMS = 100
MAX_TERMS = 1_000
"""Each term of a query costs work for each event, or a read."""


def _check_not_empty(values: tuple[object, ...]) -> tuple[object, ...]:
    if not values:
        raise ValueError("the list is empty; leave it out to match any event")
    return values


_NOT_EMPTY = AfterValidator(_check_not_empty)
_NOT_EMPTY_SCHEMA = Field(json_schema_extra={"minItems": 1})


class QueryItem(Model):
    """Events whose type matches one of `types`, whose key is one of `keys`, and that have all `tags`.

    A list that is absent matches any event. No list may be empty.
    """

    types: Annotated[Patterns, _NOT_EMPTY, _NOT_EMPTY_SCHEMA] | None = None
    keys: Annotated[Keys, _NOT_EMPTY, _NOT_EMPTY_SCHEMA] | None = None
    tags: Annotated[Tags, _NOT_EMPTY, _NOT_EMPTY_SCHEMA] | None = None

    @property
    def selection(self) -> Selection:
        return Selection(types=self.types, keys=self.keys, tags=self.tags)

    @property
    def term_count(self) -> int:
        return sum(map(len, (self.types or (), self.keys or (), self.tags or ())))


Items = Annotated[tuple[QueryItem, ...], Field(fail_fast=True, max_length=MAX_ITEMS)]


def select_any(items: tuple[QueryItem, ...]) -> Selection:
    """The events that match at least one of `items`. Without items, every event."""
    selections = tuple(dict.fromkeys(item.selection for item in items))
    if not selections or any(selection.selects_everything for selection in selections):
        return Selection()
    return selections[0] if len(selections) == 1 else AnySelection(items=selections)


def check_terms(items: tuple[QueryItem, ...]) -> None:
    """Raises `ValueError` if the items have too many types, keys and tags."""
    if (count := sum(item.term_count for item in items)) > MAX_TERMS:
        raise ValueError(f"the items have {count} types, keys and tags; at most {MAX_TERMS} are allowed in one query")


class EventQuery(QueryItem):
    """Either one item, or `items`. Without any of these members, every event matches."""

    model_config = ConfigDict(
        json_schema_extra={"not": {"anyOf": [with_members("items", name) for name in ("types", "keys", "tags")]}}
    )

    items: Items | None = None

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if self.items is not None:
            if self.term_count:
                raise ValueError("give either items, or types, keys and tags")
            check_terms(self.items)
        return self

    @property
    def selection(self) -> Selection:
        return super().selection if self.items is None else select_any(self.items)
