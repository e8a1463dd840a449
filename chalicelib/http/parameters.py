"""Models of query strings and request bodies."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from chalicelib.domain.durations import Duration, duration_schema
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent, Tags
from chalicelib.domain.events.ids import EventId, Id
from chalicelib.domain.json_schema import with_members
from chalicelib.domain.log.append import AppendCondition, check_event_count, check_idempotency_key
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.domain.objects.summary import Result
from chalicelib.domain.queries.event_filter import Keys, Patterns, Selection
from chalicelib.domain.queries.event_query import EventQuery, Items, check_terms, select_any
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.domain.timestamps import Timestamp

MIN_HEARTBEAT_S = 0.01
TOO_SHORT_HEARTBEAT_PATTERN = r"^(?!infinite)[^1-9]*(?:\.00[0-9]*)?[^1-9]*$"
"""Durations shorter than `MIN_HEARTBEAT_S`."""

_EVENT_ID: TypeAdapter[int] = TypeAdapter(EventId)


class ConditionRequest(Model):
    """Refuse the append if an event after `after` matches, so that no publisher acts on outdated knowledge."""

    fail_if_events_match: EventQuery = Field(alias="failIfEventsMatch")
    after: EventId | None = None
    after_position: EventId | None = Field(None, alias="afterPosition")


class AppendRequest(Model):
    """The body of `POST /events`."""

    model_config = ConfigDict(
        json_schema_extra={"if": with_members("condition"), "then": {"properties": {"events": {"minItems": 1}}}}
    )

    events: Annotated[tuple[NewEvent, ...], BeforeValidator(check_event_count)]
    condition_request: ConditionRequest | None = Field(None, alias="condition")

    @model_validator(mode="after")
    def _check_condition_has_events(self) -> Self:
        if self.condition_request is not None and not self.events:
            raise ValueError("a condition needs events to append; leave it out, or add events")
        return self

    @property
    def condition(self) -> AppendCondition | None:
        request = self.condition_request
        if request is None:
            return None
        return AppendCondition(
            fail_if_events_match=request.fail_if_events_match.selection,
            after=request.after or 0,
            after_position=request.after_position,
        )


class PublishRequest(AppendRequest):
    """The payload of the Lambda function `publish`."""

    org: str
    idempotency_key: Annotated[str, AfterValidator(check_idempotency_key)] | None = Field(None, alias="idempotencyKey")


class QueuedRequest(Model):
    """The body of a message in the ingest queue. The message group names the organization."""

    events: tuple[NewEvent, ...]


def _check_limit(limit: int) -> int:
    if limit == 0:
        raise ValueError("Invalid limit=0. A positive limit returns the oldest events first, a negative one the newest")
    return limit


def _check_heartbeat(heartbeat_s: float) -> float:
    if heartbeat_s < MIN_HEARTBEAT_S:
        raise ValueError(f"the shortest heartbeat is {MIN_HEARTBEAT_S} seconds")
    return heartbeat_s


Limit = Annotated[
    WholeNumber,
    Field(ge=-1_000_000, le=1_000_000, json_schema_extra={"not": {"const": 0}}),
    AfterValidator(_check_limit),
]
Heartbeat = Annotated[
    Duration,
    AfterValidator(_check_heartbeat),
    duration_schema(MIN_HEARTBEAT_S, **{"not": {"pattern": TOO_SHORT_HEARTBEAT_PATTERN}}),
]


class FollowParameters(Model):
    """The query parameters of all feeds."""

    after: EventId | None = None
    after_position: EventId | None = Field(None, alias="afterPosition")
    before: EventId | None = None
    timeout: Duration = 0.0
    limit: Limit | None = None
    delay: Duration = 0.0
    torn_older: Duration | None = Field(None, alias="tornOlder")
    heartbeat: Heartbeat | None = None

    @model_validator(mode="after")
    def _check_before(self) -> Self:
        if self.before is not None and (self.limit is None or self.limit > 0):
            raise ValueError("before requires a negative limit: it continues a read of the newest events")
        return self


def resume_position(parameters: FollowParameters, last_event_id: str | None) -> int | None:
    """The position after which a stream starts: the client's Last-Event-ID, or else the parameter `after`."""
    if parameters.limit is not None and parameters.limit < 0:
        raise BadInput("limit must be positive: a stream has the oldest events first")
    if last_event_id is None:
        return parameters.after
    try:
        return _EVENT_ID.validate_python(last_event_id)
    except ValidationError as error:
        raise BadInput(f"Last-Event-ID must be an eventId of this feed, not '{last_event_id[:80]}'") from error


class FeedParameters(FollowParameters):
    """The query of `GET /events`."""

    types: Patterns | None = None
    keys: Keys | None = None
    tags: Tags | None = None


class EventQueryRequest(FollowParameters):
    """The body of `POST /events/query`."""

    items: Items | None = None

    @model_validator(mode="after")
    def _check_terms(self) -> Self:
        check_terms(self.items or ())
        return self

    @property
    def selection(self) -> Selection:
        return select_any(self.items or ())


CursorText = Annotated[str, Field(min_length=1, max_length=4_000)]


class SchedulerParameters(FollowParameters):
    """The query of JobScheduler's routes."""

    returned: str | None = Field(None, alias="return")
    cursor: CursorText | None = None


class LatestParameters(Model):
    """The query or body of `/events/latest`."""

    types: Patterns | None = None
    max_results: Annotated[WholeNumber, Field(ge=0)] | None = Field(None, alias="maxResults")
    last_event_id: Id | None = Field(None, alias="lastEventId")


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
    def _check_bounds(self) -> Self:
        for name, first, last in (("t", self.t_from, self.t_to), ("sourceT", self.source_t_from, self.source_t_to)):
            if first is not None and last is not None and first > last:
                raise ValueError(f"{name}From is later than {name}To")
        return self

    def query(self) -> TimeseriesQuery:
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
    """The query of snapshots: whole objects, a list of summaries, or one object in the past."""

    brief: Literal["yes", "no"] = "no"
    limit: Annotated[WholeNumber, Field(ge=1, le=5_000)] = 1_000
    search: Annotated[str, Field(max_length=200)] = ""
    state: Annotated[str, Field(max_length=200)] | None = None
    result: Result | None = None
    type: Annotated[str, Field(max_length=200)] | None = None
    node: Annotated[str, Field(max_length=200)] | None = None
    author: Annotated[str, Field(max_length=200)] | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None
    q: Annotated[str, Field(max_length=200)] = ""
    at: EventId | None = None
    cursor: CursorText | None = None


class PushFeedParameters(Model):
    """The query of an organization's push feed."""

    after: EventId | None = None


class PushJobsParameters(Model):
    """The query of the list of push jobs. The next page starts after the id of the last job."""

    limit: Annotated[WholeNumber, Field(ge=1, le=10_000)] = 1_000
    after: Annotated[str, Field(max_length=200)] = ""


class PartsParameters(Model):
    """The query of an object with a long list of parts. The next page starts after that many parts."""

    limit: Annotated[WholeNumber, Field(ge=1, le=10_000)] = 10_000
    after: Annotated[WholeNumber, Field(ge=0, lt=2**40)] = 0


class JobTypesParameters(Model):
    """The query of the list of job types. The result is that of the run that ended last."""

    limit: Annotated[WholeNumber, Field(ge=1, le=1_000)] = 100
    cursor: CursorText | None = None
    search: Annotated[str, Field(max_length=200)] = ""
    state: Literal["running", "idle"] | None = None
    result: Result | None = None


class ReportsParameters(Model):
    """The query of the reports. The next page is before the `eventId` of the last report."""

    limit: Annotated[WholeNumber, Field(ge=1, le=1_000)] = 100
    before: EventId | None = None


class TicketParameters(Model):
    """The query of a report's page."""

    ticket: Annotated[str, Field(max_length=1_000)]


class SignInRequest(Model):
    """The body of a sign-in: the code that the server printed."""

    code: Annotated[str, Field(min_length=1, max_length=200)]


class HealthParameters(Model):
    """The query of the health check. The next page starts after the last server number."""

    limit: Annotated[WholeNumber, Field(ge=1, le=100)] = 100
    after: Annotated[WholeNumber, Field(ge=0, lt=2**40)] = 0


class SystemParameters(Model):
    """The query of the system's status. With `limit` or `after`, the organizations are ordered by name.

    The next page starts after the last name.
    """

    limit: Annotated[WholeNumber, Field(ge=1, le=1_000)] | None = None
    after: Annotated[str, Field(max_length=200)] = ""


class NoParameters(Model):
    """The query of routes without parameters."""
