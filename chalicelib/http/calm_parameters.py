"""Models of the bodies of snoozes, silences and acknowledgements."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from chalicelib.domain.calm.mutes import MAX_COMMENT_CHARS
from chalicelib.domain.events.event_type import MAX_TYPE_OR_KEY_BYTES, Pattern, Subtype
from chalicelib.domain.events.ids import EventId
from chalicelib.domain.json_schema import with_members
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.domain.timestamps import Timestamp

Comment = Annotated[str, StringConstraints(max_length=MAX_COMMENT_CHARS)]
JobType = Annotated[Subtype, StringConstraints(min_length=1, max_length=MAX_TYPE_OR_KEY_BYTES)]


class SnoozeRequest(Model):
    """The body of a snooze. null, or a time in the past, ends it."""

    until: Timestamp | None


class MutesParameters(Model):
    """The query of silences or acknowledgements. The next page is before the last id."""

    before: EventId | None = None
    limit: Annotated[WholeNumber, Field(ge=1, le=1_000)] = 100


class SilenceRequest(Model):
    """The body of a silence: of a job type, or of a pattern of event types."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [with_members("type"), with_members("pattern")]})

    type: JobType | None = None
    pattern: Pattern | None = None
    until: Timestamp
    comment: Annotated[Comment, Field(default="")]

    @model_validator(mode="after")
    def _check_what(self) -> Self:
        if (self.type is None) == (self.pattern is None):
            raise ValueError("give either type (of a job) or pattern (of event types)")
        return self


class AcknowledgementRequest(Model):
    """The body of an acknowledgement: of a job type."""

    type: JobType
    until: Timestamp | None = None
    comment: Annotated[Comment, Field(default="")]
