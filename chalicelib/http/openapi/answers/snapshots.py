"""Snapshots: one object stamped with its eventId, or several."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.objects.summary import Result
from chalicelib.http.openapi.answers.appended import Count, Time
from chalicelib.http.openapi.answers.jobs import Job, JobSet
from chalicelib.http.openapi.answers.jobscheduler import (
    FileBasedOverview,
    JobChainOverview,
    JobOverview,
    OrderOverview,
    OrderStatistics,
    SchedulerOverview,
    TaskOverview,
)
from chalicelib.http.openapi.answers.push import PushJob

Overview = OrderOverview | JobChainOverview | JobOverview | TaskOverview | FileBasedOverview | SchedulerOverview
AnyObject = Job | JobSet | Overview | PushJob


class Elements(TypedDict):
    """Objects of a collection as they were at `eventId`."""

    elements: list[AnyObject]
    eventId: EventId


class ObjectInBrief(TypedDict):
    """What a list shows of an object; `path` is where it is found, `key` that of its events."""

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
    """Objects in brief, the latest change first; `counts` has all that match `search`, by state."""

    eventId: EventId
    counts: dict[str, Count]
    moreFollows: bool
    elements: list[ObjectInBrief]


Snapshot = Elements | Briefs | AnyObject
"""A path that names one object gives that object; a folder gives its elements, if asked for in brief."""


class Orders(TypedDict):
    """A snapshot of some at `eventId`."""

    orders: list[OrderOverview]
    eventId: EventId


class JobChains(TypedDict):
    """A snapshot of some at `eventId`."""

    jobChains: list[JobChainOverview]
    eventId: EventId


class SchedulerJobs(TypedDict):
    """A snapshot of some at `eventId`."""

    jobs: list[JobOverview]
    eventId: EventId


class Tasks(TypedDict):
    """A snapshot of some at `eventId`."""

    tasks: list[TaskOverview]
    eventId: EventId


class FileBaseds(TypedDict):
    """A snapshot of some at `eventId`."""

    fileBaseds: list[FileBasedOverview]
    eventId: EventId


class Schedulers(TypedDict):
    """A snapshot of some at `eventId`."""

    schedulers: list[SchedulerOverview]
    eventId: EventId


SchedulerSnapshot = Orders | JobChains | SchedulerJobs | Tasks | FileBaseds | Schedulers | Overview | OrderStatistics
"""What `return=` asks for, if it asks for no events."""
