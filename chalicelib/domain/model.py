"""The common ground of all values that come from or go to JSON."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


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
