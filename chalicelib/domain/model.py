"""The common ground of all values that come from or go to JSON."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A frozen value; unknown fields are refused; members are camelCase on the wire."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
