"""Jobs, job sets and job types of AnyJob in snapshots. In lists of jobs and sets, null stands for a value that is too
large to be listed.
"""

from typing import Annotated, Literal, NotRequired

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


Outcome = Literal["success", "failure", "timeout"]
Duration = Annotated[float, Field(ge=0)]


class Job(TypedDict):
    """A job. `eventId` is the position of a snapshot of one job, and `next` says that more `logs` follow.

    `run` counts the runs of the job, which begin with its `create` events. `outcome`, `error` and `durationS` say how
    the run ended.
    """

    eventId: NotRequired[EventId]
    id: Number
    run: Annotated[int, Field(ge=1)]
    type: str
    node: str
    author: NotRequired[str]
    jobset: NotRequired[Number]
    params: dict[str, str] | None
    props: dict[str, str] | None
    state: str | None
    progress: NotRequired[str | None]
    data: NotRequired[Data | None]
    createdAt: Time
    updatedAt: Time
    finishedAt: NotRequired[Time]
    seconds: NotRequired[Duration]
    durationS: NotRequired[Duration]
    outcome: NotRequired[Outcome]
    error: NotRequired[str]
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


class OpenRun(TypedDict):
    """A run that has not ended."""

    id: Number
    run: Annotated[int, Field(ge=1)]
    node: str
    startedAt: Time
    author: NotRequired[str]


class Run(TypedDict):
    """A run that has ended. `error` is the first line of the message. The start is null if it is not known."""

    id: Number
    run: Annotated[int, Field(ge=1)]
    node: str
    outcome: Outcome
    startedAt: Time | None
    endedAt: Time
    durationS: Duration | None
    error: NotRequired[str]
    author: NotRequired[str]


class _JobTypeRuns(TypedDict):
    type: str
    open: Count
    consecutiveFailures: Count
    lastSuccess: Run | None
    lastFailure: Run | None
    createdAt: Time
    updatedAt: Time


class JobTypeInList(_JobTypeRuns):
    """A type of jobs. `open` is the number of open runs. Timeouts count as failures in `lastFailure`.

    `successRate`, `outcomes` and the percentiles of the duration in seconds, `p50` to `p99`, are of the last 30 days.
    The durations are those of the runs that finished. They are null without such a run. `nextExpectedAt` is the next
    start according to the expectations of the type, null without one.
    """

    lastRun: Run | None
    successRate: Annotated[float, Field(ge=0, le=1)] | None
    outcomes: dict[Outcome, Count]
    p50: Duration | None
    p90: Duration | None
    p99: Duration | None
    nextExpectedAt: Time | None


class JobTypes(TypedDict):
    """A page of job types. `cursor` leads to the next one."""

    jobTypes: list[JobTypeInList]
    eventId: EventId
    cursor: str | None


class OneJobType(JobTypeInList):
    """A type of jobs with its open runs, at most 200, and its last runs, the latest first."""

    eventId: EventId
    openRuns: list[OpenRun]
    runs: list[Run]


class EarlierRuns(TypedDict):
    """Facts about the runs before the last ones: consecutive failures, the last success and the last failure."""

    failures: Count
    success: Run | None
    failure: Run | None


class DayOfJobType(TypedDict):
    """The runs that ended on a day (UTC). `durations` counts them in logarithmic buckets."""

    day: str
    success: Count
    failure: Count
    timeout: Count
    durations: dict[str, Count]


class JobType(_JobTypeRuns):
    """The state of a type of jobs from which `GET /job-types` computes its statistics."""

    eventId: NotRequired[EventId]
    openRuns: list[OpenRun]
    runs: list[Run]
    earlier: EarlierRuns
    days: list[DayOfJobType]


OneJob = Annotated[Job, Field(json_schema_extra={"required": ["eventId"]})]
OneJobSet = Annotated[JobSet, Field(json_schema_extra={"required": ["eventId"]})]
