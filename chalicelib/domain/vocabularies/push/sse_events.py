"""Push-job events as server-sent events, and the event ids of the feeds."""

import re
from typing import NamedTuple

from pydantic_core import to_json

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import State
from chalicelib.domain.sse import format_event
from chalicelib.domain.vocabularies.push.events import native_json

START_ID = "start_id"
SUMMARY_ID = "job-1"

_JOB_END_PREFIX = "event: job_complete\n"
_ID = re.compile(r"(?P<feed>job|org)-(?P<event_id>[0-9]{1,16})(?:-at-(?P<at>[0-9]{1,16}))?", re.ASCII)


def format_job_event(event: Event) -> str:
    """The event on the feed of its job."""
    return _format("job", event, omitted=("event", "job", "eventId"))


def format_organization_event(event: Event) -> str:
    """The event on the feed of its organization, which includes the job id."""
    return _format("org", event, omitted=("event", "eventId"))


def is_job_end(text: str) -> bool:
    """Whether a formatted event is the last one of its job."""
    return text.startswith(_JOB_END_PREFIX)


def format_start_of_history(horizon_us: int) -> str:
    """The first event for a client whose position is older than the events that are left."""
    return format_event(START_ID, _json({"timestamp": timestamps.iso_with_space(horizon_us)}), "start_of_history")


def format_summary(job: State) -> str:
    """The only event of a job that has ended: the job's resource."""
    return format_event(SUMMARY_ID, _json(job), "summary")


class FeedPosition(NamedTuple):
    """A client's position in a feed, from its Last-Event-ID."""

    event_id: int
    """The client has received everything up to this EventId."""
    at_us: int
    """When the client had this position."""
    is_event: bool
    """Whether the id is that of an event. Otherwise `position_id` made it."""


def position_id(event_id: int, now_us: int) -> str:
    """An id that renews the position of a client for which there were no new events."""
    return f"org-{event_id}-at-{now_us}"


def parse_position(feed: str, text: str | None) -> FeedPosition | None:
    """None if `text` is not an id of this feed (`job` or `org`)."""
    match = _ID.fullmatch(text or "")
    if match is None or match["feed"] != feed:
        return None
    event_id = int(match["event_id"])
    return FeedPosition(event_id, int(match["at"] or event_id), is_event=match["at"] is None)


def _format(feed: str, event: Event, omitted: tuple[str, ...]) -> str:
    native = native_json(event)
    if native is None:
        return ""
    # The EventId is the timestamp here: it is unique, while all events of a commit share the commit's time.
    data = {"timestamp": timestamps.iso_with_space(event.event_id)}
    data |= {name: value for name, value in native.items() if name not in omitted}
    return format_event(f"{feed}-{event.event_id}", _json(data), native["event"])


def _json(value: object) -> str:
    return to_json(value).decode()
