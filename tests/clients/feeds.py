"""The feeds to follow, and their expected events."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.clients.publisher import JOB
from tests.clients.recorder import Feed, ReceivedEvent
from tests.serving import Member

CORE_FEED, ORGANIZATION_FEED, JOB_FEED = "core", "organization", "job"

Event = dict[str, Any]


def feeds(organization: str, after: int) -> list[Feed]:
    """The core feed and the organization feed from a position, and the feed of the whole job."""
    pushy = f"/organizations/{organization}/pushy/job_status_feed"
    return [
        Feed(CORE_FEED, f"/events?after={after}"),
        Feed(ORGANIZATION_FEED, f"{pushy}?after={after}"),
        Feed(JOB_FEED, f"{pushy}/{JOB}", last="job_complete"),
    ]


def read_log(member: Member) -> list[Event]:
    events: list[Event] = []
    while True:
        after = events[-1]["eventId"] if events else 0
        page = member.get("/events", params={"after": after}).json()
        if page["TYPE"] == "Empty":
            return events
        events += page["eventSnapshots"]


def expected_events(log: Iterable[Event]) -> dict[str, list[ReceivedEvent]]:
    """The events of each feed for this log."""
    return {
        CORE_FEED: [ReceivedEvent("message", str(event["eventId"]), event) for event in log],
        ORGANIZATION_FEED: [
            _push_event("org", event, job=event["key"].removeprefix("/push/"))
            for event in log
            if event["type"] in (["push", "start"], ["push", "job_complete"])
        ],
        JOB_FEED: [_push_event("job", event) for event in log if event["key"] == f"/push/{JOB}"],
    }


def _push_event(feed: str, event: Event, **more: str) -> ReceivedEvent:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event["eventId"])
    fields = event["payload"]["data"] if event.get("payload") else {}
    data = {"timestamp": at.strftime("%Y-%m-%d %H:%M:%S.%fZ"), **more, **fields}
    return ReceivedEvent(event["type"][1], f"{feed}-{event['eventId']}", data)
