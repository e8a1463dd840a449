"""What the feeds of push jobs show: each event as a server-sent event, and what their ids mean."""

import re
from typing import NamedTuple

from pydantic_core import to_json

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import State
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.sse import frame
from chalicelib.domain.vocabularies.push.events import NAME, TYPES, key_of, own_json

START_ID = "start_id"
SUMMARY_ID = "job-1"

_ENDS = "event: job_complete\n"
_ID = re.compile(r"(?P<feed>job|org)-(?P<event_id>[0-9]{1,16})(?:-at-(?P<at>[0-9]{1,16}))?", re.ASCII)

OF_ORGANIZATION = Selection(types=((NAME, "start"), (NAME, "job_complete")))
"""What the feed of an organization shows: that jobs start and end."""


def of_job(job: str) -> Selection:
    """What the feed of a job shows."""
    return Selection(types=TYPES, keys=(key_of(job),))


def job_frame(event: Event) -> str:
    """The event on the feed of its job."""
    return _frame("job", event, ("event", "job", "eventId"))


def organization_frame(event: Event) -> str:
    """The event on the feed of its organization: with its job."""
    return _frame("org", event, ("event", "eventId"))


def ends_job(text: str) -> bool:
    """Tell whether this frame is the last of its job."""
    return text.startswith(_ENDS)


def start_of_history(horizon_us: int) -> str:
    """What precedes all that is left, for a client that was somewhere before it."""
    return frame(START_ID, _json({"timestamp": timestamps.spaced(horizon_us)}), "start_of_history")


def summary(job: State) -> str:
    """All there is to say of a job that is over: exactly its resource."""
    return frame(SUMMARY_ID, _json(job), "summary")


class Place(NamedTuple):
    """What an id of a feed stands for."""

    event_id: int
    """Its reader has all up to here."""
    at_us: int
    """When that was so."""
    is_event: bool
    """Whether an event has this id."""


def position_id(event_id: int, now_us: int) -> str:
    """The id for a reader of an organization's feed that has all up to `event_id`, but saw no event lately."""
    return f"org-{event_id}-at-{now_us}"


def place(feed: str, text: str | None) -> Place | None:
    """What the id stands for; None if the feed gives no such ids."""
    found = _ID.fullmatch(text or "")
    if found is None or found["feed"] != feed:
        return None
    event_id = int(found["event_id"])
    return Place(event_id, int(found["at"] or event_id), is_event=found["at"] is None)


def _frame(feed: str, event: Event, left_out: tuple[str, ...]) -> str:
    own = own_json(event)
    if own is None:
        return ""
    # Each event has an EventId of its own, but shares the time of its commit.
    data = {"timestamp": timestamps.spaced(event.event_id)}
    data |= {name: value for name, value in own.items() if name not in left_out}
    return frame(f"{feed}-{event.event_id}", _json(data), own["event"])


def _json(value: object) -> str:
    return to_json(value).decode()
