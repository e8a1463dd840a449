"""The base class of values that are read from or written to JSON."""

from typing import Annotated, TypeGuard

from pydantic import BaseModel, BeforeValidator, ConfigDict


def is_whole_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a whole number in the sense of JSON: 7.0 is one, true is not."""
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def _check_whole_number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    if isinstance(value, str) and ("_" in value or value != value.strip()):
        raise ValueError("a number has digits only, without spaces and underscores")
    return value


WholeNumber = Annotated[int, BeforeValidator(_check_whole_number)]
"""Unlike `int`, does not accept true as 1, nor 1_000 or texts with spaces."""


class Model(BaseModel):
    """A frozen value that rejects unknown fields. Members are camelCase in JSON."""

    # Validators are built on first use, so that a Lambda function starts without waiting for all of them.
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)
