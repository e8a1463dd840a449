"""Event queries as clients write them."""

from typing import Any

import pytest
from pydantic import ValidationError

from chalicelib.domain.queries.event_filter import AnySelection, Selection
from chalicelib.domain.queries.event_query import EventQuery

A = {"types": ["a/*"]}
B = {"keys": ["/b"], "tags": ["t", "u"]}


@pytest.mark.parametrize(
    ("query", "selection"),
    [
        ({}, Selection()),
        ({"types": None, "keys": None, "tags": None, "items": None}, Selection()),
        ({"items": []}, Selection()),
        ({"items": [{}]}, Selection()),
        ({"items": [A, {}]}, Selection()),
        ({"items": [A, {"types": ["*"]}]}, Selection()),
        (A, Selection(types=(("a", "*"),))),
        (B, Selection(keys=("/b",), tags=("t", "u"))),
        ({"items": [B]}, Selection(keys=("/b",), tags=("t", "u"))),
        ({"items": [A, A]}, Selection(types=(("a", "*"),))),
        ({"items": [{**A, "keys": None}]}, Selection(types=(("a", "*"),))),
        (
            {"items": [A, B, A]},
            AnySelection(items=(Selection(types=(("a", "*"),)), Selection(keys=("/b",), tags=("t", "u")))),
        ),
    ],
)
def test_query_becomes_simplest_selection(query: dict[str, Any], selection: Selection) -> None:
    assert EventQuery.model_validate(query).selection == selection


@pytest.mark.parametrize(
    ("query", "location"),
    [
        ({"type": ["a"]}, ("type",)),
        ({"types": "a"}, ("types",)),
        ({"types": []}, ("types",)),
        ({"keys": []}, ("keys",)),
        ({"tags": []}, ("tags",)),
        ({"types": ["*/a"]}, ("types", 0)),
        ({"types": ["a"] * 101}, ("types",)),
        ({"keys": "/1"}, ("keys",)),
        ({"keys": [str(n) for n in range(101)]}, ("keys",)),
        ({"tags": [""]}, ("tags", 0)),
        ({"tags": [str(n) for n in range(17)]}, ("tags",)),
        ({"items": {}}, ("items",)),
        ({"items": [{"items": []}]}, ("items", 0, "items")),
        ({"items": [A, {"types": []}]}, ("items", 1, "types")),
        ({"items": [A] * 101}, ("items",)),
        ({"items": [A], "types": ["a"]}, ()),
        ({"items": [], "tags": ["a"]}, ()),
    ],
)
def test_query_invalid_field_is_named_in_error(query: object, location: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as error_info:
        EventQuery.model_validate(query)
    assert [error["loc"] for error in error_info.value.errors()] == [location]


def test_query_with_too_many_terms_is_rejected() -> None:
    items = [{"keys": [f"/{item}/{n}" for n in range(100)]} for item in range(10)]
    EventQuery.model_validate({"items": items})
    with pytest.raises(ValidationError, match="the items have 1001 types, keys and tags; at most 1000 are allowed"):
        EventQuery.model_validate({"items": [*items, {"tags": ["one more"]}]})
