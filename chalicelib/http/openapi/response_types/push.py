"""Push jobs, and the data of the server-sent events in their feeds."""

from collections.abc import Mapping
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.vocabularies.push.events import Count, JobResult, RunResult, Vote
from chalicelib.http.openapi.response_types.scalars import SpacedTime

NodeStatus = Literal[
    "ready",
    "nacked",
    "unavailable",
    "running",
    "succeeded",
    "failed",
    "crashed",
    "was_ready",
    "timed_out",
    "aborted",
]


class OutOfOrder(TypedDict):
    """An event that was published at the wrong time, and the reason."""

    event: str
    node: NotRequired[str]
    id: str
    reason: str


class _Started(TypedDict):
    """The fields of a job's start event. They are missing until it is published."""

    command: NotRequired[str]
    run_timeout: NotRequired[Count]
    user: NotRequired[str]
    quorum: NotRequired[Count]
    node_count: NotRequired[Count]
    job_user: NotRequired[str]
    dir: NotRequired[str]
    env: NotRequired[dict[str, str]]
    file_specified: NotRequired[bool]


class PushJobOverview(_Started):
    """A push job without its nodes."""

    timestamp: SpacedTime
    id: str
    status: Literal["new", "voting", "running"] | JobResult
    capture_output: NotRequired[Literal[True]]
    created_at: SpacedTime
    updated_at: SpacedTime
    out_of_order: list[OutOfOrder]


PushJobs = list[PushJobOverview]


class PushJob(PushJobOverview):
    """A push job with its nodes by state. `nodes` is null in lists if there are too many.

    `eventId` is the position of a snapshot.
    """

    eventId: NotRequired[EventId]
    nodes: dict[NodeStatus, list[str]] | None
    has_failed_nodes: NotRequired[bool]
    """Present if `nodes` is null. Whether a node failed or refused to run."""


class Told(TypedDict):
    """An event without further fields."""

    timestamp: SpacedTime


class ToldOfNode(Told):
    """An event of one node."""

    node: str


class VoteTold(ToldOfNode):
    """A node has voted, or did not vote in time."""

    status: Vote


class RunTold(ToldOfNode):
    """A node has run the command, or failed to run it."""

    status: RunResult


class StartTold(_Started):
    """The job was requested."""

    timestamp: SpacedTime
    capture: NotRequired[bool]


class CompleteTold(Told):
    """The job ended."""

    status: JobResult


class JobStartTold(StartTold):
    """A job was requested."""

    job: str


class JobCompleteTold(CompleteTold):
    """A job ended."""

    job: str


STREAMS: Mapping[str, Mapping[str, type]] = {
    "JobFeed": {
        "start": StartTold,
        "quorum_vote": VoteTold,
        "quorum_succeeded": Told,
        "run_start": ToldOfNode,
        "run_complete": RunTold,
        "rehab": ToldOfNode,
        "job_complete": CompleteTold,
        "summary": PushJob,
    },
    "OrganizationFeed": {"start": JobStartTold, "job_complete": JobCompleteTold, "start_of_history": Told},
}
"""The events of each stream by name, with the type of their data."""
