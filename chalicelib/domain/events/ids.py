"""The two identifiers of an event: `Id` and `EventId`."""

import re
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from chalicelib.domain.json_schema import NAMED_SCHEMA, JsonSchema, closed_object, pattern_of
from chalicelib.domain.model import WholeNumber, is_whole_number

EVENT_ID_END = 2**53

EventId = Annotated[WholeNumber, Field(ge=0, lt=EVENT_ID_END)]
"""Microseconds since 1970, increased where needed to be unique. JavaScript reads integers below 2**53 exactly."""

_ID = re.compile(r"(\d{1,15})\.(\d{1,15})\.(\d{1,15})", re.ASCII)
ID_PATTERN = pattern_of(_ID)
_PART_SCHEMA: JsonSchema = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
_ID_SCHEMA: JsonSchema = {
    "description": "The id of an event, written `server.session.instance`, or as an object.",
    "anyOf": [
        {"type": "string", "pattern": ID_PATTERN, "examples": ["1.7.1"]},
        closed_object(server=_PART_SCHEMA, session=_PART_SCHEMA, instance=_PART_SCHEMA),
    ],
}


class Id(NamedTuple):
    """The log, the commit in the log, and the position in the commit. All count from 1.

    Session 0 and instance 0 denote the position before the first event.
    """

    server: int
    session: int
    instance: int

    def __str__(self) -> str:
        return f"{self.server}.{self.session}.{self.instance}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `server.session.instance`. Raises `ValueError`."""
        match = _ID.fullmatch(text)
        if match is None:
            raise ValueError(f"an event id is written server.session.instance, such as 1.7.1, not '{text}'")
        return cls(*map(int, match.groups()))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._validate)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return {NAMED_SCHEMA: {"GivenId": _ID_SCHEMA}}

    @classmethod
    def _validate(cls, value: object) -> Self:
        """Accept text such as `1.7.1`, or an object with the three numbers."""
        match value:
            case cls():
                return value
            case str():
                return cls.parse(value)
            case {"server": server, "session": session, "instance": instance, **rest} if not rest and (
                is_whole_number(server) and is_whole_number(session) and is_whole_number(instance)
            ):
                return cls.parse(f"{int(server)}.{int(session)}.{int(instance)}")
            case _:
                raise ValueError('an event id is "1.7.1" or {"server": 1, "session": 7, "instance": 1}')


def next_event_id(now_ms: int, last_event_id: int) -> int:
    """The current time, or the successor of `last_event_id` if the clock is not ahead of it."""
    return max(now_ms * 1000, last_event_id + 1)
