"""Parameters: what requests may say, as models."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from chalicelib.domain.durations import Duration
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.ids import EventId, Id
from chalicelib.domain.log.append import AppendCondition, idempotency_key_checked, refuse_many
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.domain.queries.event_filter import Keys, Patterns, Selection
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.domain.timestamps import Timestamp

_EVENT_ID: TypeAdapter[int] = TypeAdapter(EventId)


class AppendRequest(Model):
    """The body of `POST /events`."""

    events: Annotated[tuple[NewEvent, ...], BeforeValidator(refuse_many)]
    condition: AppendCondition | None = None


class PublishRequest(AppendRequest):
    """What the Lambda function `publish` is invoked with."""

    org: str
    idempotency_key: Annotated[str, AfterValidator(idempotency_key_checked)] | None = Field(
        None, alias="idempotencyKey"
    )


class QueuedRequest(Model):
    """The body of a message in the ingest queue; its group says for which organization."""

    events: tuple[NewEvent, ...]


def _not_zero(limit: int) -> int:
    if limit == 0:
        raise ValueError("Invalid limit=0; a positive limit is the oldest first, a negative one the newest first")
    return limit


class FollowParameters(Model):
    """What all feeds understand."""

    after: EventId | None = None
    timeout: Duration = 0.0
    limit: Annotated[WholeNumber, Field(ge=-1_000_000, le=1_000_000), AfterValidator(_not_zero)] | None = None
    delay: Duration = 0.0
    torn_older: Duration | None = Field(None, alias="tornOlder")
    heartbeat: Annotated[Duration, Field(ge=0.01)] | None = None


def resumed(wanted: FollowParameters, last_event_id: str | None) -> int | None:
    """Where a stream goes on: after the last event that its client has, else where it asked to begin."""
    if wanted.limit is not None and wanted.limit < 0:
        raise BadInput("a stream goes forward: limit must not be negative")
    if last_event_id is None:
        return wanted.after
    try:
        return _EVENT_ID.validate_python(last_event_id)
    except ValidationError as failure:
        raise BadInput(f"Last-Event-ID is an eventId of this feed, not '{last_event_id[:80]}'") from failure


class FeedParameters(FollowParameters):
    """The query of `GET /events`."""

    types: Patterns | None = None
    keys: Keys | None = None


class SchedulerParameters(FollowParameters):
    """The query of JobScheduler's routes."""

    returned: str | None = Field(None, alias="return")


class LatestParameters(Model):
    """The query or body of `/events/latest`."""

    types: Patterns | None = None


class TimeseriesParameters(Model):
    """The query or body of `/events/timeseries`."""

    types: Patterns | None = None
    t_from: Timestamp | None = Field(None, alias="tFrom")
    t_to: Timestamp | None = Field(None, alias="tTo")
    source_t_from: Timestamp | None = Field(None, alias="sourceTFrom")
    source_t_to: Timestamp | None = Field(None, alias="sourceTTo")
    order: Literal["ascending", "descending"] = "descending"
    order_by: Literal["timestamp", "sourceTimestamp"] = Field("timestamp", alias="orderBy")
    max_results: Annotated[WholeNumber, Field(ge=0)] | None = Field(None, alias="maxResults")
    last_event_id: Id | None = Field(None, alias="lastEventId")

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        for name, first, last in (("t", self.t_from, self.t_to), ("sourceT", self.source_t_from, self.source_t_to)):
            if first is not None and last is not None and first > last:
                raise ValueError(f"{name}From is later than {name}To")
        return self

    def query(self) -> TimeseriesQuery:
        """What is asked for."""
        return TimeseriesQuery(
            selection=Selection(types=self.types),
            t_from=self.t_from,
            t_to=self.t_to,
            source_t_from=self.source_t_from,
            source_t_to=self.source_t_to,
            descending=self.order == "descending",
            by_source=self.order_by == "sourceTimestamp",
            max_results=self.max_results,
            last_event_id=self.last_event_id,
        )


class ServerParameters(Model):
    """The query or body of `/events/server`."""

    server: Annotated[WholeNumber, Field(ge=1)] | None = None
    last_event_id: Id | None = Field(None, alias="lastEventId")
    max_results: Annotated[WholeNumber, Field(ge=0)] | None = Field(None, alias="maxResults")


class ObjectsParameters(Model):
    """The query of snapshots: the whole objects, a list of them in brief, or one as it was."""

    brief: Literal["yes", "no"] = "no"
    limit: Annotated[WholeNumber, Field(ge=1, le=5_000)] = 1_000
    search: Annotated[str, Field(max_length=200)] = ""
    state: Annotated[str, Field(max_length=200)] | None = None
    at: EventId | None = None


class PushFeedParameters(Model):
    """The query of an organization's push feed."""

    after: EventId | None = None


class PushJobsParameters(Model):
    """The query of the list of push jobs."""

    limit: Annotated[WholeNumber, Field(ge=1, le=10_000)] = 1_000


class TicketParameters(Model):
    """The query of a report's page: what the link to it has."""

    ticket: Annotated[str, Field(max_length=1_000)]


class SignInRequest(Model):
    """The body of a sign-in: the code that was printed."""

    code: Annotated[str, Field(min_length=1, max_length=200)]


class NoParameters(Model):
    """The query of routes that take none."""
