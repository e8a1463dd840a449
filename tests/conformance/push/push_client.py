"""Push-job events in short form for tests, and an EventSource that reads the feeds."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

import httpx

from tests.serving import TIMEOUT_S, Member

SSE = {"Accept": "text/event-stream"}
STREAMS = {"WAIT_COMPLETE_TIME": "600", "ORG_FEED_EXPIRATION": "600", "KEEP_ALIVE_TIME": "0.5"}
"""Settings of a streaming server: nothing expires even on a slow machine, and comments are frequent."""
PAGES = {**STREAMS, "STREAMS": "no", "LONGEST_POLL": "0.5"}
"""Settings of a server that responds in pages."""
START = {"command": "chef-client", "run_timeout": 3600, "node_count": 1, "user": "anna"}
FIELDS = {
    "start": ("node_count",),
    "quorum_vote": ("node", "status"),
    "quorum_succeeded": (),
    "run_start": ("node",),
    "run_complete": ("node", "status"),
    "job_complete": ("status",),
    "rehab": ("node",),
}
SUCCESS = (
    "start 1",
    "quorum_vote n1 success",
    "quorum_succeeded",
    "run_start n1",
    "run_complete n1 success",
    "job_complete complete",
)
"""The events of a successful job."""

Json = dict[str, Any]


@dataclass(frozen=True)
class ServerSentEvent:
    """A server-sent event."""

    name: str
    id: str
    data: Json

    @property
    def description(self) -> str:
        """The event in short form."""
        names = ("job", "node_count", "node", "status") if self.name != "summary" else ("status",)
        return " ".join((self.name, *(str(self.data[name]) for name in names if name in self.data)))


@dataclass
class Parser:
    """Parses an event stream according to its specification. Collects comments and retry times."""

    last_id: str = ""
    comments: list[str] = field(default_factory=list)
    retry_ms: int | None = None

    def events(self, lines: Iterable[str]) -> Iterator[ServerSentEvent]:
        """The events of one response. An event without a final blank line is ignored."""
        name, data, next_id = "", "", self.last_id
        for line in lines:
            member, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match member:
                case "" if line:
                    self.comments.append(value)
                case "":
                    self.last_id = next_id
                    if data:
                        yield ServerSentEvent(name or "message", self.last_id, json.loads(data))
                    name, data = "", ""
                case "event":
                    name = value
                case "data":
                    data += f"{value}\n"
                case "id":
                    next_id = value
                case "retry":
                    self.retry_ms = int(value)


class EventSource:
    """A client like that of browsers: it reconnects with its last id when a response ends."""

    def __init__(self, member: Member, path: str, last_id: str = "", **parameters: str | int) -> None:
        self.parser = Parser(last_id)
        self.connection_count = 0
        self._member = member
        self._path = path
        self._parameters = parameters
        self._answer: httpx.Response | None = None
        self._events: Iterator[ServerSentEvent] = iter(())
        self._reset_deadline()

    def connect(self) -> Self:
        """Send a request and return when the response has begun."""
        self.close()
        headers = {**self._member.headers, **SSE}
        if self.parser.last_id:
            headers["Last-Event-ID"] = self.parser.last_id
        client = self._member.server.client
        request = client.build_request("GET", self._path, params=self._parameters, headers=headers)
        self._answer = client.send(request, stream=True)
        assert self._answer.status_code == 200, self._answer.read()
        self._events = self.parser.events(self._lines(self._answer))
        self.connection_count += 1
        return self

    def read(self, count: int) -> list[ServerSentEvent]:
        """Read `count` events, reconnecting as needed."""
        assert self.connection_count, "use the EventSource in a with statement, so that it is closed"
        self._reset_deadline()
        events: list[ServerSentEvent] = []
        while len(events) < count:
            event = next(self._events, None)
            if event is not None:
                events.append(event)
                continue
            assert time.monotonic() < self._deadline, f"expected {count} events, received {describe(events)}"
            self.connect()
        return events

    def read_until(self, *names: str) -> list[ServerSentEvent]:
        """Read up to the first event with one of these names."""
        events = self.read(1)
        while events[-1].name not in names:
            events += self.read(1)
        return events

    def read_to_end(self) -> list[ServerSentEvent]:
        """Read until the response ends."""
        self._reset_deadline()
        if not self.connection_count:
            self.connect()
        try:
            return list(self._events)
        finally:
            self.close()

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()

    def _reset_deadline(self) -> None:
        self._deadline = time.monotonic() + 2 * TIMEOUT_S

    def _lines(self, answer: httpx.Response) -> Iterator[str]:
        """The complete lines of a response as they arrive. Comments do not extend the deadline."""
        rest = b""
        for chunk in answer.iter_raw():
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode() for line in lines)
            assert time.monotonic() < self._deadline, "timeout: the expected events did not arrive"

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *failure: object) -> None:
        self.close()


def push_event(text: str, job: str = "j1", /, **more: object) -> Json:
    """The event with this short form: `quorum_vote n1 success`."""
    name, *values = text.split()
    fields: Json = dict(zip(FIELDS[name], values, strict=name != "start"))
    if name == "start":
        fields = START | {"node_count": int(fields.get("node_count", 1))}
    return {"event": name, "job": job, **fields, **more}


def post(member: Member, body: object, **headers: str) -> httpx.Response:
    """POST /events/push with this JSON."""
    return member.request("POST", "/events/push", json=body, headers=headers)


def publish_texts(member: Member, *texts: str, job: str = "j1") -> list[int]:
    """Publish events in short form in one request and return their EventIds."""
    return publish(member, *(push_event(text, job) for text in texts))


def publish(member: Member, *events: Json) -> list[int]:
    """Publish events in one request and return their EventIds."""
    answer = post(member, {"events": events})
    assert answer.status_code == 201, answer.text
    return [event["eventId"] for event in answer.json()["events"]]


def push_path(member: Member, *parts: str) -> str:
    """A path below an organization's push jobs."""
    return "/".join((f"/organizations/{member.organization}/pushy", *(quote(part, safe="") for part in parts)))


def job_feed(member: Member, job: str = "j1", last_id: str = "") -> EventSource:
    return EventSource(member, push_path(member, "job_status_feed", job), last_id)


def organization_feed(member: Member, last_id: str = "", /, **parameters: str | int) -> EventSource:
    return EventSource(member, push_path(member, "job_status_feed"), last_id, **parameters)


def job(member: Member, name: str = "j1") -> Json:
    """The job's resource."""
    answer = member.get(push_path(member, "jobs", name))
    assert answer.status_code == 200, answer.text
    resource: Json = answer.json()
    return resource


def describe(events: Iterable[ServerSentEvent]) -> list[str]:
    """The events in short form."""
    return [event.description for event in events]


def wait(member: Member, seconds: float) -> None:
    """Wait by polling for an event that never arrives."""
    for _ in range(max(1, round(seconds / 0.5))):  # the longest poll of a server with pages
        member.get("/events", params={"types": "never", "timeout": f"{min(seconds, 0.5):.3f}s"})
