"""Push jobs for tests: what is said of them in short, and an EventSource that listens."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

import httpx

from tests.serving import PATIENCE_S, Member

SSE = {"Accept": "text/event-stream"}
STREAMS = {"WAIT_COMPLETE_TIME": "600", "ORG_FEED_EXPIRATION": "600", "KEEP_ALIVE_TIME": "0.5"}
"""A server that streams: however slow the machine is, no job is long over, but comments come often."""
PAGES = {**STREAMS, "STREAMS": "no", "LONGEST_POLL": "0.5"}
"""A server that answers in pages."""
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
"""A job as it should be."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A server-sent event."""

    name: str
    id: str
    data: Json

    @property
    def told(self) -> str:
        """What it says, in short."""
        names = ("job", "node_count", "node", "status") if self.name != "summary" else ("status",)
        return " ".join((self.name, *(str(self.data[name]) for name in names if name in self.data)))


@dataclass
class Parser:
    """Reads an event stream as its specification says; remembers what is no event."""

    last_id: str = ""
    comments: list[str] = field(default_factory=list)
    retry_ms: int | None = None

    def events(self, lines: Iterable[str]) -> Iterator[Sent]:
        """The events of one answer; what does not end with an empty line is none."""
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
                        yield Sent(name or "message", self.last_id, json.loads(data))
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
    """A client as browsers have one: it reads what comes and, when an answer ends, comes back where it was."""

    def __init__(self, member: Member, path: str, last_id: str = "", **parameters: str | int) -> None:
        self.parser = Parser(last_id)
        self.answers = 0
        """How many times it has asked."""
        self._member = member
        self._path = path
        self._parameters = parameters
        self._answer: httpx.Response | None = None
        self._events: Iterator[Sent] = iter(())
        self._expect()

    def connect(self) -> Self:
        """Ask; back when the server has begun to answer."""
        self.close()
        headers = {**self._member.headers, **SSE}
        if self.parser.last_id:
            headers["Last-Event-ID"] = self.parser.last_id
        client = self._member.server.client
        request = client.build_request("GET", self._path, params=self._parameters, headers=headers)
        self._answer = client.send(request, stream=True)
        assert self._answer.status_code == 200, self._answer.read()
        self._events = self.parser.events(self._lines(self._answer))
        self.answers += 1
        return self

    def take(self, most: int) -> list[Sent]:
        """So many events, however many answers that takes."""
        assert self.answers, "whoever listens has to hang up, so this is for a with statement"
        self._expect()
        found: list[Sent] = []
        while len(found) < most:
            event = next(self._events, None)
            if event is not None:
                found.append(event)
                continue
            assert time.monotonic() < self._deadline, f"{most} events did not come, only {told(found)}"
            self.connect()
        return found

    def until(self, *names: str) -> list[Sent]:
        """The events up to the first of these names."""
        found = self.take(1)
        while found[-1].name not in names:
            found += self.take(1)
        return found

    def rest(self) -> list[Sent]:
        """All events until the answer ends."""
        self._expect()
        if not self.answers:
            self.connect()
        try:
            return list(self._events)
        finally:
            self.close()

    def close(self) -> None:
        """Hang up."""
        if self._answer is not None:
            self._answer.close()

    def _expect(self) -> None:
        self._deadline = time.monotonic() + 2 * PATIENCE_S

    def _lines(self, answer: httpx.Response) -> Iterator[str]:
        """The lines of an answer as they come; what has no end of line is none. Comments do not make it patient."""
        rest = b""
        for piece in answer.iter_raw():
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode() for line in lines)
            assert time.monotonic() < self._deadline, "what was expected did not come"

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *failure: object) -> None:
        self.close()


def fact(text: str, job: str = "j1", /, **more: object) -> Json:
    """An event of a job, as its publisher sends it: `quorum_vote n1 success`."""
    name, *values = text.split()
    given: Json = dict(zip(FIELDS[name], values, strict=name != "start"))
    if name == "start":
        given = START | {"node_count": int(given.get("node_count", 1))}
    return {"event": name, "job": job, **given, **more}


def post(member: Member, body: object, **headers: str) -> httpx.Response:
    """POST /events/push with this JSON."""
    return member.ask("POST", "/events/push", json=body, headers=headers)


def happen(member: Member, *texts: str, job: str = "j1") -> list[int]:
    """Have all of this happen to a job in one request; the EventIds."""
    return publish(member, *(fact(text, job) for text in texts))


def publish(member: Member, *facts: Json) -> list[int]:
    """Append these events in one request; their EventIds."""
    answer = post(member, {"events": facts})
    assert answer.status_code == 201, answer.text
    return [event["eventId"] for event in answer.json()["events"]]


def pushy(member: Member, *parts: str) -> str:
    """A path below an organization's push jobs."""
    return "/".join((f"/organizations/{member.organization}/pushy", *(quote(part, safe="") for part in parts)))


def job_feed(member: Member, job: str = "j1", last_id: str = "") -> EventSource:
    """Somebody who is about to listen to a job."""
    return EventSource(member, pushy(member, "job_status_feed", job), last_id)


def organization_feed(member: Member, last_id: str = "", /, **parameters: str | int) -> EventSource:
    """Somebody who is about to listen to all jobs of an organization."""
    return EventSource(member, pushy(member, "job_status_feed"), last_id, **parameters)


def job(member: Member, name: str = "j1") -> Json:
    """The job's resource."""
    answer = member.get(pushy(member, "jobs", name))
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def told(events: Iterable[Sent]) -> list[str]:
    """What the events say, in short."""
    return [event.told for event in events]


def pause(member: Member, seconds: float) -> None:
    """Let time pass: wait for what never comes."""
    for _ in range(max(1, round(seconds / 0.5))):  # no answer of a server of pages waits for longer
        member.get("/events", params={"types": "never", "timeout": f"{min(seconds, 0.5):.3f}s"})
