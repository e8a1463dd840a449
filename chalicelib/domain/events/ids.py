"""How events are numbered."""

import re
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from chalicelib.domain.model import WholeNumber, is_whole

EVENT_ID_END = 2**53

EventId = Annotated[WholeNumber, Field(ge=0, lt=EVENT_ID_END)]
"""Milliseconds since 1970 times 1000, made unique. 53 bits, so JavaScript reads it exactly."""

_ID = re.compile(r"(\d{1,15})\.(\d{1,15})\.(\d{1,15})", re.ASCII)


class Id(NamedTuple):
    """Which event: the log, the commit in it, the place in the commit. All count from 1.

    Session 0 and instance 0 name what precedes the first.
    """

    server: int
    session: int
    instance: int

    def __str__(self) -> str:
        return f"{self.server}.{self.session}.{self.instance}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The id written as `server.session.instance`."""
        found = _ID.fullmatch(text)
        if found is None:
            raise ValueError(f"an event id is written server.session.instance, such as 1.7.1, not '{text}'")
        return cls(*map(int, found.groups()))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._validate)

    @classmethod
    def _validate(cls, value: object) -> Self:
        """An id is text `1.7.1` or an object with the three numbers."""
        match value:
            case cls():
                return value
            case str():
                return cls.parse(value)
            case {"server": server, "session": session, "instance": instance, **rest} if not rest and (
                is_whole(server) and is_whole(session) and is_whole(instance)
            ):
                return cls.parse(f"{int(server)}.{int(session)}.{int(instance)}")
            case _:
                raise ValueError('an event id is "1.7.1" or {"server": 1, "session": 7, "instance": 1}')


def next_event_id(now_ms: int, last: int) -> int:
    """The EventId of the next event: the clock's, unless that would not rise."""
    return max(now_ms * 1000, last + 1)
