"""Jobs and job sets of AnyJob in snapshots. In lists, null stands for a value that is too large to be listed."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.vocabularies.job.events import Data, Number, Success
from chalicelib.http.openapi.response_types.scalars import Count, Time

Redirection = TypedDict("Redirection", {"from": str, "to": str, "at": Time})
"""A job moved from one node to another."""


class LogLine(TypedDict):
    """A line that a job logged."""

    time: Number
    message: str
    level: int
    tag: str
    data: NotRequired[Data]


class Result(TypedDict):
    """The result of a job."""

    success: Success
    message: str
    data: NotRequired[Data]


class Job(TypedDict):
    """A job. `eventId` is the position of a snapshot of one job, and `next` says that more `logs` follow."""

    eventId: NotRequired[EventId]
    id: Number
    type: str
    node: str
    jobset: NotRequired[Number]
    params: dict[str, str] | None
    props: dict[str, str] | None
    state: str | None
    progress: NotRequired[str | None]
    data: NotRequired[Data | None]
    createdAt: Time
    updatedAt: Time
    finishedAt: NotRequired[Time]
    seconds: NotRequired[Annotated[float, Field(ge=0)]]
    redirects: list[Redirection] | None
    logCount: Count
    logs: list[LogLine] | None
    result: NotRequired[Result | None]
    success: NotRequired[Success]
    next: NotRequired[Count]


class JobOfSet(TypedDict):
    """A job of a job set. It has an `id` when it has been created, and `success` when it has finished."""

    id: NotRequired[Number]
    node: str
    type: str
    params: NotRequired[dict[str, str]]
    props: NotRequired[dict[str, str]]
    state: str
    progress: NotRequired[str]
    success: NotRequired[Success]
    message: NotRequired[str]


class JobSet(TypedDict):
    """A job set. `eventId` is the position of a snapshot of one job set, and `next` says that more `jobs` follow."""

    eventId: NotRequired[EventId]
    id: Number
    node: str
    props: dict[str, str] | None
    state: str | None
    progress: NotRequired[str | None]
    data: NotRequired[Data | None]
    createdAt: Time
    updatedAt: Time
    finishedAt: NotRequired[Time]
    total: NotRequired[Count]
    finished: Count
    jobs: list[JobOfSet] | None
    ended: NotRequired[list[Number]]
    failures: NotRequired[list[Number]]
    failed: NotRequired[Count]
    next: NotRequired[Count]


OneJob = Annotated[Job, Field(json_schema_extra={"required": ["eventId"]})]
OneJobSet = Annotated[JobSet, Field(json_schema_extra={"required": ["eventId"]})]
