"""Models of the queries and bodies of the observers' routes."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from chalicelib.domain.events.ids import EventId, Id
from chalicelib.domain.json_schema import with_members
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.timestamps import Timestamp


class ObserversParameters(Model):
    """The query of the observers. With `limit` they are ordered by name. The next page starts after the last name.

    So they are without it, if there are more than 1,000.
    """

    after: Annotated[str, Field(max_length=200)] = ""
    limit: Annotated[WholeNumber, Field(ge=1, le=1_000)] | None = None


class FailuresParameters(Model):
    """The query of an observer's failures."""

    after: Annotated[str, Field(max_length=1_000)] = ""
    limit: Annotated[WholeNumber, Field(ge=1, le=1_000)] = 100


DeliveryCursor = Annotated[str, Field(max_length=600, pattern=r"^[!-~]*$")]


class DeliveriesParameters(Model):
    """The query of the deliveries of an observer. The next page has the `cursor` of the previous one."""

    cursor: DeliveryCursor = ""
    limit: Annotated[WholeNumber, Field(ge=1, le=200)] = 50


class EventDeliveriesParameters(Model):
    """The query of the deliveries about an event, which `event` or `eventId` names."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [with_members("event"), with_members("eventId")]})

    event: Id | None = None
    event_id: EventId | None = Field(None, alias="eventId")
    cursor: DeliveryCursor = ""
    limit: Annotated[WholeNumber, Field(ge=1, le=200)] = 50

    @model_validator(mode="after")
    def _check_event(self) -> Self:
        if (self.event is None) == (self.event_id is None):
            raise ValueError("give either event (server.session.instance) or eventId")
        return self


class RetryRequest(Model):
    """The body of a retry. Without `ids` all failed deliveries are retried."""

    ids: Annotated[tuple[str, ...], Field(fail_fast=True, max_length=1_000)] | None = None


class ReplayRequest(Model):
    """The body of a replay. It starts after the position `after` or at the time `since`.

    A replay runs in parts: the `replay` of the previous response continues it.
    """

    model_config = ConfigDict(json_schema_extra={"oneOf": [with_members("after"), with_members("since")]})

    after: EventId | None = None
    since: Timestamp | None = None
    until: EventId | None = None
    replay: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")] | None = None
    dry_run: Annotated[bool, Field(alias="dryRun", strict=True)] = False
    """Only count the deliveries."""

    @model_validator(mode="after")
    def _check_start(self) -> Self:
        if (self.after is None) == (self.since is None):
            raise ValueError("give either after (an eventId) or since (a time)")
        return self


class ReadRequest(Model):
    """The body of a read mark: the `eventId` of the last message that was read."""

    event_id: EventId = Field(alias="eventId")


class PreviewRequest(Model):
    """The body of a preview: a configuration, and an event. Default: the latest that the observer would send."""

    configuration: Configuration
    event: Id | None = None


class TestRequest(Model):
    """The body of a test: an event. Default: the latest event that the observer would send."""

    __test__ = False  # pytest would collect it

    event: Id | None = None
