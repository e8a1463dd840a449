"""Journals: each process records its actions line by line, so that they are known even if it is killed."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from chalicelib.domain.model import Model
from tests.torture.checks.evidence import AssignedId, Evidence, ReadEvent, Reading, SentRequest
from tests.torture.faults import Fault
from tests.torture.workers.workload import Request

SUFFIX = ".journal"


class RequestSent(Model):
    """Written before a request is sent."""

    line: Literal["attempted"] = "attempted"
    request: Request


class RequestAcknowledged(Model):
    """The request succeeded, and its events got these ids."""

    line: Literal["acknowledged"] = "acknowledged"
    tag: str
    numbers: tuple[AssignedId, ...]


class RequestRefused(Model):
    """The request was rejected, and no attempt wrote its events."""

    line: Literal["denied"] = "denied"
    tag: str


class FaultInjected(Model):
    """Written before a fault is injected."""

    line: Literal["suffered"] = "suffered"
    fault: Fault


class ReadStarted(Model):
    """A reader started after this position."""

    line: Literal["began"] = "began"
    position: int


class EventsRead(Model):
    """The reader received these events, which are all up to `position`."""

    line: Literal["saw"] = "saw"
    events: tuple[ReadEvent, ...]
    position: int


class HostileRequestSent(Model):
    """Written before a hostile request is sent."""

    line: Literal["threw"] = "threw"
    name: str


class UnexpectedResult(Model):
    """An unexpected failure or response."""

    line: Literal["surprised"] = "surprised"
    text: str


Entry = (
    RequestSent
    | RequestAcknowledged
    | RequestRefused
    | FaultInjected
    | ReadStarted
    | EventsRead
    | HostileRequestSent
    | UnexpectedResult
)

_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="line")])


class Journal:
    """A file to which one process appends entries. Each entry survives if the process is killed."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, line: Entry) -> None:
        os.write(self._descriptor, line.model_dump_json().encode() + b"\n")

    def record_fault(self, fault: Fault) -> None:
        self.add(FaultInjected(fault=fault))

    def close(self) -> None:
        os.close(self._descriptor)


def read_entries(path: Path) -> Iterator[Entry]:
    """The entries of a journal. An incomplete last line is ignored."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield _ENTRY.validate_json(line)


def read_journals(home: Path) -> dict[str, list[Entry]]:
    """All journals in the directory by the name of their process."""
    return {path.stem: list(read_entries(path)) for path in sorted(home.glob(f"*{SUFFIX}"))}


def unanswered_requests(journals: Iterable[list[Entry]]) -> list[Request]:
    """Requests with an idempotency key that got no final response."""
    sent: dict[str, Request] = {}
    answered: set[str] = set()
    for line in (line for journal in journals for line in journal):
        match line:
            case RequestSent(request=request) if request.idempotency_key is not None:
                sent[request.tag] = request
            case RequestAcknowledged(tag=tag) | RequestRefused(tag=tag):
                answered.add(tag)
    return [request for tag, request in sent.items() if tag not in answered]


def evidence(journals: dict[str, list[Entry]]) -> Evidence:
    sent: dict[str, SentRequest] = {}
    acknowledged: dict[str, list[tuple[AssignedId, ...]]] = {}
    denied: set[str] = set()
    for line in (line for journal in journals.values() for line in journal):
        match line:
            case RequestSent(request=request):
                sent[request.tag] = SentRequest(request.tag, request.count, request.keys, request.after)
            case RequestAcknowledged(tag=tag, numbers=numbers):
                acknowledged.setdefault(tag, []).append(numbers)
            case RequestRefused(tag=tag):
                denied.add(tag)
    readings = [reading for name, journal in journals.items() for reading in _readings(name, journal)]
    return Evidence(sent, acknowledged, frozenset(denied), readings)


def faults(journals: dict[str, list[Entry]]) -> Counter[Fault]:
    return Counter(line.fault for journal in journals.values() for line in journal if isinstance(line, FaultInjected))


def hostile_request_count(journals: dict[str, list[Entry]]) -> int:
    return sum(isinstance(line, HostileRequestSent) for journal in journals.values() for line in journal)


def unexpected_results(journals: dict[str, list[Entry]]) -> list[str]:
    return [
        f"{name}: {line.text}"
        for name, journal in journals.items()
        for line in journal
        if isinstance(line, UnexpectedResult)
    ]


def _readings(name: str, journal: list[Entry]) -> Iterator[Reading]:
    start: int | None = None
    end = 0
    seen: list[ReadEvent] = []
    for line in journal:
        match line:
            case ReadStarted(position=position):
                if start is not None:
                    yield Reading(name, start, end, seen)
                start, end, seen = position, position, []
            case EventsRead(events=events, position=position):
                seen.extend(events)
                end = position
    if start is not None:
        yield Reading(name, start, end, seen)
