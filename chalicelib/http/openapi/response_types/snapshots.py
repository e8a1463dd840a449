"""Snapshots of one object or of several."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.objects.summary import Result
from chalicelib.http.openapi.response_types.jobs import Job, JobSet
from chalicelib.http.openapi.response_types.jobscheduler import (
    FileBasedOverview,
    JobChainOverview,
    JobOverview,
    OrderOverview,
    OrderStatistics,
    SchedulerOverview,
    TaskOverview,
)
from chalicelib.http.openapi.response_types.push import PushJob
from chalicelib.http.openapi.response_types.scalars import Count, Time

Overview = OrderOverview | JobChainOverview | JobOverview | TaskOverview | FileBasedOverview | SchedulerOverview
AnyObject = Job | JobSet | Overview | PushJob


class Elements(TypedDict):
    """Objects of a collection as of `eventId`."""

    elements: list[AnyObject]
    eventId: EventId


class ObjectInBrief(TypedDict):
    """The summary of an object in a list. `path` identifies it, `key` is the key of its events."""

    path: str
    key: str | None
    state: str
    result: Result | None
    label: str
    createdAt: Time | None
    updatedAt: Time | None
    progress: Annotated[float, Field(ge=0, le=1)] | None
    parent: str | None


class Briefs(TypedDict):
    """Summaries, most recently changed first. `counts` is the number of all objects that match `search`, by state."""

    eventId: EventId
    counts: dict[str, Count]
    moreFollows: bool
    elements: list[ObjectInBrief]


Snapshot = Elements | Briefs | AnyObject
"""The object if the path names one, the elements of a folder, or summaries with `brief=yes`."""


class Orders(TypedDict):
    """A snapshot as of `eventId`."""

    orders: list[OrderOverview]
    eventId: EventId


class JobChains(TypedDict):
    """A snapshot as of `eventId`."""

    jobChains: list[JobChainOverview]
    eventId: EventId


class SchedulerJobs(TypedDict):
    """A snapshot as of `eventId`."""

    jobs: list[JobOverview]
    eventId: EventId


class Tasks(TypedDict):
    """A snapshot as of `eventId`."""

    tasks: list[TaskOverview]
    eventId: EventId


class FileBaseds(TypedDict):
    """A snapshot as of `eventId`."""

    fileBaseds: list[FileBasedOverview]
    eventId: EventId


class Schedulers(TypedDict):
    """A snapshot as of `eventId`."""

    schedulers: list[SchedulerOverview]
    eventId: EventId


SchedulerSnapshot = Orders | JobChains | SchedulerJobs | Tasks | FileBaseds | Schedulers | Overview | OrderStatistics
"""Snapshots that `return=` can request."""
