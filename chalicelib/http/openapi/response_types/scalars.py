"""Times and numbers in responses."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

Time = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2016-11-04T11:07:36.606001Z"]})
]
"""ISO-8601 in UTC, to the microsecond."""

SpacedTime = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$",
            "examples": ["2014-07-10 05:17:44.995958Z"],
        }
    ),
]
"""The format of push-jobs."""

Count = Annotated[int, Field(ge=0)]
