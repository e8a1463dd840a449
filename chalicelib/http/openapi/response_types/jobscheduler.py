"""JobScheduler's events and overviews. `eventId` is the position of a snapshot of one object."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.vocabularies.scheduler.events import FAMILIES, NodeTransition, TaskKey
from chalicelib.http.openapi.response_types.events import Event
from chalicelib.http.openapi.response_types.scalars import Count, Time

_NAMES = [name for _, events in FAMILIES.values() for name in events]

EventName = Annotated[str, Field(json_schema_extra={"enum": list(_NAMES)})]
FileState = Literal["loaded", "active"]


class OwnSchedulerEvent(TypedDict):
    """An event in JobScheduler's JSON. Its fields depend on its TYPE."""

    eventId: EventId
    TYPE: EventName
    key: NotRequired[str | TaskKey]
    nodeId: NotRequired[str | None]
    fromNodeId: NotRequired[str]
    taskId: NotRequired[str | None]
    nodeTransition: NotRequired[NodeTransition]
    state: NotRequired[str]
    action: NotRequired[str]
    returnCode: NotRequired[int]
    variables: NotRequired[dict[str, str]]
    level: NotRequired[str]
    message: NotRequired[str]


class OrderStatistics(TypedDict):
    """Number of orders by state. `eventId` is the position of a snapshot."""

    eventId: NotRequired[EventId]
    total: Count
    notPlanned: Count
    planned: Count
    due: Count
    started: Count
    inTask: Count
    inTaskProcess: Count
    occupiedByClusterMember: Count
    setback: Count
    waitingForResource: Count
    suspended: Count
    blacklisted: Count
    permanent: Count
    fileOrder: Count


class OrderStatisticsChanged(TypedDict):
    """The statistics have changed."""

    eventId: EventId
    TYPE: Literal["OrderStatisticsChanged", "JocOrderStatisticsChanged"]
    orderStatistics: OrderStatistics


SchedulerEvent = OwnSchedulerEvent | OrderStatisticsChanged | Event
"""An event with a type of JobScheduler but other content is shown as a core event."""


class ProcessingState(TypedDict):
    """Why an order waits, or the task that processes it."""

    TYPE: Literal["NotPlanned", "WaitingForResource", "WaitingInTask", "InTaskProcess", "Setback"]
    taskId: NotRequired[str]
    since: NotRequired[Time]


class Obstacle(TypedDict):
    """Why an order does not continue."""

    TYPE: Literal["Suspended"]


class OrderOverview(TypedDict):
    """An order in its job chain."""

    eventId: NotRequired[EventId]
    TYPE: Literal["OrderOverview"]
    path: str
    jobChainPath: str
    orderSourceType: Literal["AdHoc", "Permanent"]
    orderProcessingState: ProcessingState
    obstacles: list[Obstacle]
    nodeId: NotRequired[str | None]
    fileBasedState: NotRequired[FileState]
    startedAt: NotRequired[Time]
    finishedAt: NotRequired[Time]
    lastTransition: NotRequired[Literal["Error"]]
    """Present if the last step ended in an error."""


class JobChainOverview(TypedDict):
    """A job chain. `nodes` contains the actions of nodes that have one."""

    eventId: NotRequired[EventId]
    TYPE: Literal["JobChainOverview"]
    path: str
    state: NotRequired[str]
    nodes: NotRequired[dict[str, str]]
    fileBasedState: NotRequired[FileState]


class JobOverview(TypedDict):
    """A job of JobScheduler."""

    eventId: NotRequired[EventId]
    TYPE: Literal["JobOverview"]
    path: str
    state: NotRequired[str]
    taskQueueChangedAt: NotRequired[Time]
    fileBasedState: NotRequired[FileState]


class TaskOverview(TypedDict):
    """A task, which is one run of a job."""

    eventId: NotRequired[EventId]
    TYPE: Literal["TaskOverview"]
    taskId: str
    jobPath: str
    state: Literal["running", "ended", "closed"]
    startedAt: NotRequired[Time]
    returnCode: NotRequired[int]
    endedAt: NotRequired[Time]


class FileBasedOverview(TypedDict):
    """An object that JobScheduler reads from a file."""

    eventId: NotRequired[EventId]
    TYPE: Literal["FileBasedOverview"]
    path: str
    fileBasedState: FileState


class SchedulerOverview(TypedDict):
    """The scheduler itself."""

    eventId: NotRequired[EventId]
    TYPE: Literal["SchedulerOverview"]
    state: str
    startedAt: NotRequired[Time]
