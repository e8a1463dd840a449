"""Rules that models keep by code, as JSON Schema. One that is not here is an error, so none is forgotten."""

from collections.abc import Mapping

from chalicelib.domain.vocabularies.job.events import EVENTS
from chalicelib.http.openapi import patterns
from chalicelib.http.openapi.named_schemas import NAME, Schema


def _named(name: str) -> Schema:
    return {NAME: name}


def _given(*names: str) -> Schema:
    """Objects in which all of these are there, and not null."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}


def _listed(*names: str) -> str:
    """Texts that list some of these names, separated by commas."""
    name = rf"\s*(?:{'|'.join(names)})?\s*"
    return rf"^{name}(?:,{name})*$"


_SAYS_SOMETHING: Schema = {"anyOf": [_given("state"), _given("progress"), _given("log")]}


def _if(conditions: Schema, then: Schema) -> Schema:
    """Objects whose members are so must also be like that."""
    return {"if": {"properties": conditions, "required": list(conditions)}, "then": then}


def _config(**members: Schema) -> Schema:
    config = {"type": "object", "properties": members, "required": list(members)}
    return {"properties": {"config": config}, "required": ["config"]}


_PRIVATE: Schema = {"properties": {"scope": {"const": "private"}}, "required": ["scope"]}
_CONFIGURATION: Schema = {
    "allOf": [
        {"not": {**_given("types"), "anyOf": [_given("events"), _given("nodes")]}},
        {"anyOf": [_PRIVATE, {"not": _given("user")}]},
        {"properties": {"events": {"pattern": _listed("all", *EVENTS)}}},
        _if(
            {"channel": {"const": "mail"}},
            _config(**{name: {"type": "string", "pattern": patterns.ADDRESSES} for name in ("from", "to")}),
        ),
        _if({"channel": {"const": "slack"}}, _config(url={"type": "string", "pattern": patterns.WEBHOOK})),
        _if(
            {"channel": {"const": "app"}},
            {
                "anyOf": [
                    {**_PRIVATE, "not": {"properties": {"config": {"required": ["to"]}}, "required": ["config"]}},
                    {"not": _PRIVATE, **_config(to={"type": "string", "pattern": patterns.USERS})},
                ]
            },
        ),
    ]
}
"""Also, the filter has to be an expression, and hosts of webhooks have to be among those that are allowed."""

RULES: Mapping[str, Schema] = {
    "chalicelib.domain.model._not_bool": {},
    "chalicelib.domain.durations.parse": _named("Duration"),
    "chalicelib.domain.timestamps.parse": _named("GivenTime"),
    "chalicelib.domain.events.ids.Id._validate": _named("GivenId"),
    "chalicelib.domain.events.event_type._split": _named("TypePattern"),
    "chalicelib.domain.events.event_type.pattern_checked": {},
    "chalicelib.domain.queries.event_filter._in_order": {},
    "chalicelib.domain.log.append.refuse_many": {},
    "chalicelib.domain.events.event._base64_checked": {"contentEncoding": "base64", "pattern": patterns.BASE64},
    "chalicelib.domain.objects.path_query.PathQueryJson._one_of_both": {
        "not": _given("path", "paths"),
        "allOf": [
            {
                "properties": {
                    "path": {"pattern": patterns.PATHS_IN_URL},
                    "paths": {"items": {"pattern": patterns.PATH_IN_BODY}},
                }
            }
        ],
    },
    "chalicelib.domain.notifications.observer.Configuration._makes_sense": _CONFIGURATION,
    "chalicelib.domain.vocabularies.job.events.Progress._says_something": _SAYS_SOMETHING,
    "chalicelib.domain.vocabularies.job.events.ProgressJobSet._says_something": {
        "anyOf": [_given("state"), _given("progress")]
    },
    "chalicelib.domain.vocabularies.push.events.Start._not_too_large": {},
    "chalicelib.domain.vocabularies.scheduler.events._order_key_checked": {"allOf": [{"pattern": patterns.ORDER_KEY}]},
    "chalicelib.http.parameters._not_zero": {"not": {"const": 0}},
    "chalicelib.http.parameters.TimeseriesParameters._bounds_in_order": {},
    "chalicelib.http.observer_parameters.ReplayRequest._one_beginning": {
        "oneOf": [_given("after"), _given("since")],
    },
}
"""By the full name of the function: what takes the place of a type that is written otherwise, or is added to it."""
