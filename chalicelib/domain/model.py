"""The common ground of all values that come from or go to JSON."""

from typing import Annotated, TypeGuard

from pydantic import BaseModel, BeforeValidator, ConfigDict


def is_whole(value: object) -> TypeGuard[int | float]:
    """Whether it is a whole number as JSON means it: 7.0 is 7, and true is none."""
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def _not_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not true or false")
    return value


WholeNumber = Annotated[int, BeforeValidator(_not_bool)]
"""A number; pydantic alone would take true for 1."""


class Model(BaseModel):
    """A frozen value; unknown fields are refused; members are camelCase on the wire."""

    # Built when first used: a function that starts waits only for what its request needs.
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)
