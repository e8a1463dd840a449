"""Snapshots of one object or of several."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.objects.summary import Result
from chalicelib.http.openapi.response_types.jobs import Job, JobSet, JobType
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
AnyObject = Job | JobSet | JobType | Overview | PushJob


class Elements(TypedDict):
    """Objects of a collection as of `eventId`. With `limit` it is a page, and `cursor` leads to the next one."""

    elements: list[AnyObject]
    eventId: EventId
    cursor: NotRequired[str | None]


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
    """Summaries, most recently changed first.

    `counts` and `results` are the numbers of all objects that match the filters other than `state` and `result`, by
    state and by result. They are null after the first page, and if a filter other than `state` and `result` is used in
    a collection of more than 2,000 objects. In such a collection they are null for a folder of more than 2,000 objects,
    too, and may be for one of more than 500. `cursor` leads to the next page, which may have fewer elements than
    `limit`, even none, while `cursor` is not null.
    """

    eventId: EventId
    counts: dict[str, Count] | None
    results: dict[Result, Count] | None
    moreFollows: bool
    cursor: str | None
    elements: list[ObjectInBrief]


Snapshot = Elements | Briefs | AnyObject
"""The object if the path names one, the elements of a folder, or summaries with `brief=yes`."""


class Orders(TypedDict):
    """A snapshot as of `eventId`. With `limit` it is a page, and `cursor` leads to the next one."""

    orders: list[OrderOverview]
    eventId: EventId
    cursor: NotRequired[str | None]


class JobChains(TypedDict):
    """A snapshot as of `eventId`. With `limit` it is a page, and `cursor` leads to the next one."""

    jobChains: list[JobChainOverview]
    eventId: EventId
    cursor: NotRequired[str | None]


class SchedulerJobs(TypedDict):
    """A snapshot as of `eventId`. With `limit` it is a page, and `cursor` leads to the next one."""

    jobs: list[JobOverview]
    eventId: EventId
    cursor: NotRequired[str | None]


class Tasks(TypedDict):
    """A snapshot as of `eventId`. With `limit` it is a page, and `cursor` leads to the next one."""

    tasks: list[TaskOverview]
    eventId: EventId
    cursor: NotRequired[str | None]


class FileBaseds(TypedDict):
    """A snapshot as of `eventId`. With `limit` it is a page, and `cursor` leads to the next one."""

    fileBaseds: list[FileBasedOverview]
    eventId: EventId
    cursor: NotRequired[str | None]


class Schedulers(TypedDict):
    """A snapshot as of `eventId`. With `limit` it is a page, and `cursor` leads to the next one."""

    schedulers: list[SchedulerOverview]
    eventId: EventId
    cursor: NotRequired[str | None]


SchedulerSnapshot = Orders | JobChains | SchedulerJobs | Tasks | FileBaseds | Schedulers | Overview | OrderStatistics
"""Snapshots that `return=` can request."""
