"""Push jobs, and what their feeds tell: the data of each of their server-sent events."""

from collections.abc import Mapping
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.domain.vocabularies.push.events import Count, JobResult, RunResult, Vote
from chalicelib.http.openapi.answers.appended import SpacedTime

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
    """An event that should not have come when it came, and why."""

    event: str
    node: NotRequired[str]
    id: str
    reason: str


class _Started(TypedDict):
    """What the start of a job says; it may not have come yet."""

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
    """A push job with its nodes by their states; in lists, null if they are too many. `eventId` stamps a snapshot."""

    eventId: NotRequired[EventId]
    nodes: dict[NodeStatus, list[str]] | None


class Told(TypedDict):
    """Something that needs no more words."""

    timestamp: SpacedTime


class ToldOfNode(Told):
    """Something about a node."""

    node: str


class VoteTold(ToldOfNode):
    """A node has voted, or will not."""

    status: Vote


class RunTold(ToldOfNode):
    """A node has run the command, or will not."""

    status: RunResult


class StartTold(_Started):
    """The job is requested."""

    timestamp: SpacedTime
    capture: NotRequired[bool]


class CompleteTold(Told):
    """The job is over."""

    status: JobResult


class JobStartTold(StartTold):
    """A job is requested."""

    job: str


class JobCompleteTold(CompleteTold):
    """A job is over."""

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
"""Of each stream: its events by name, with the type of their data."""
