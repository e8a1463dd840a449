"""The query of pings."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from chalicelib.domain.model import Model
from chalicelib.domain.pings.ping import NAME_PATTERN, RID_PATTERN


class PingParameters(Model):
    """The query of a ping."""

    rid: Annotated[str, Field(pattern=RID_PATTERN), AfterValidator(str.lower)] | None = None
    create: Literal["0", "1"] = "0"
    node: Annotated[str, Field(pattern=NAME_PATTERN)] | None = None
