"""The feeds that are followed, and what the log says they have to show."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.clients.notes import Feed, Seen
from tests.clients.publisher import JOB
from tests.serving import Member

CORE, ORGANIZATION, OF_JOB = "core", "organization", "job"

Event = dict[str, Any]


def feeds(organization: str, after: int) -> list[Feed]:
    """The core feed and the organization's, from a position in the log; the job's, from its start to its end."""
    pushy = f"/organizations/{organization}/pushy/job_status_feed"
    return [
        Feed(CORE, f"/events?after={after}"),
        Feed(ORGANIZATION, f"{pushy}?after={after}"),
        Feed(OF_JOB, f"{pushy}/{JOB}", last="job_complete"),
    ]


def logged(member: Member) -> list[Event]:
    """The whole log."""
    found: list[Event] = []
    while True:
        after = found[-1]["eventId"] if found else 0
        answer = member.get("/events", params={"after": after}).json()
        if answer["TYPE"] == "Empty":
            return found
        found += answer["eventSnapshots"]


def shown(log: Iterable[Event]) -> dict[str, list[Seen]]:
    """What each feed shows of these events."""
    return {
        CORE: [Seen("message", str(event["eventId"]), event) for event in log],
        ORGANIZATION: [
            _pushed("org", event, job=event["key"].removeprefix("/push/"))
            for event in log
            if event["type"] in (["push", "start"], ["push", "job_complete"])
        ],
        OF_JOB: [_pushed("job", event) for event in log if event["key"] == f"/push/{JOB}"],
    }


def _pushed(feed: str, event: Event, **more: str) -> Seen:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event["eventId"])
    fields = event["payload"]["data"] if event.get("payload") else {}
    data = {"timestamp": at.strftime("%Y-%m-%d %H:%M:%S.%fZ"), **more, **fields}
    return Seen(event["type"][1], f"{feed}-{event['eventId']}", data)
