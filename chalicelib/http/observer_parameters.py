"""Parameters of observers' routes."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from chalicelib.domain.events.ids import EventId, Id
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.timestamps import Timestamp


class FailuresParameters(Model):
    """The query of an observer's failures."""

    after: str = ""
    limit: Annotated[WholeNumber, Field(ge=1, le=1_000)] = 100


class RetryRequest(Model):
    """The body of a retry: which deliveries, or all of them."""

    ids: Annotated[tuple[str, ...], Field(fail_fast=True, max_length=1_000)] | None = None


class ReplayRequest(Model):
    """The body of a replay: from a position or a time on, up to another, all in one or going on with one begun."""

    after: EventId | None = None
    since: Timestamp | None = None
    until: EventId | None = None
    replay: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")] | None = None

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        if (self.after is None) == (self.since is None):
            raise ValueError("give either after, an eventId, or since, a time")
        return self


class PreviewRequest(Model):
    """The body of a preview: the observer as it would be put, and an event, or the latest that it is about."""

    configuration: Configuration
    event: Id | None = None


class TestRequest(Model):
    """The body of a test: which event, or the latest that the observer is about."""

    __test__ = False  # or pytest takes it for one

    event: Id | None = None
