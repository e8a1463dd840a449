"""Journals: what each process did, line by line, so that it is known even of those that were killed."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from chalicelib.domain.model import Model
from tests.torture.evidence import Asked, Evidence, Numbered, Reading, Seen
from tests.torture.faults import Fault
from tests.torture.workload import Request

SUFFIX = ".journal"


class Attempted(Model):
    """The request is about to be sent."""

    line: Literal["attempted"] = "attempted"
    request: Request


class Acknowledged(Model):
    """The request was answered: written, with these numbers."""

    line: Literal["acknowledged"] = "acknowledged"
    tag: str
    numbers: tuple[Numbered, ...]


class Denied(Model):
    """The request was answered: not written, neither now nor before."""

    line: Literal["denied"] = "denied"
    tag: str


class Suffered(Model):
    """A fault is about to happen."""

    line: Literal["suffered"] = "suffered"
    fault: Fault


class Began(Model):
    """A reader began after this position."""

    line: Literal["began"] = "began"
    position: int


class Saw(Model):
    """The reader then saw these, and has looked at everything up to `position`."""

    line: Literal["saw"] = "saw"
    events: tuple[Seen, ...]
    position: int


class Threw(Model):
    """A hostile request is about to be sent."""

    line: Literal["threw"] = "threw"
    name: str


class Surprised(Model):
    """Something happened that must not."""

    line: Literal["surprised"] = "surprised"
    text: str


Line = Attempted | Acknowledged | Denied | Suffered | Began | Saw | Threw | Surprised

_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="line")])


class Journal:
    """A file to which one process adds lines; a line that was added outlives the process."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, line: Line) -> None:
        """Write the line before anything else happens."""
        os.write(self._descriptor, line.model_dump_json().encode() + b"\n")

    def suffer(self, fault: Fault) -> None:
        """Write that a fault is about to happen."""
        self.add(Suffered(fault=fault))

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


def lines(path: Path) -> Iterator[Line]:
    """The lines of a journal; a last one without its end was not written."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield _LINE.validate_json(line)


def read_all(home: Path) -> dict[str, list[Line]]:
    """All journals in the directory, by the name of who wrote them."""
    return {path.stem: list(lines(path)) for path in sorted(home.glob(f"*{SUFFIX}"))}


def unfinished(journals: Iterable[list[Line]]) -> list[Request]:
    """Requests with an idempotency key whose outcome their sender never learned."""
    asked: dict[str, Request] = {}
    answered: set[str] = set()
    for line in (line for journal in journals for line in journal):
        match line:
            case Attempted(request=request) if request.idempotency_key is not None:
                asked[request.tag] = request
            case Acknowledged(tag=tag) | Denied(tag=tag):
                answered.add(tag)
    return [request for tag, request in asked.items() if tag not in answered]


def evidence(journals: dict[str, list[Line]]) -> Evidence:
    """What the journals prove."""
    asked: dict[str, Asked] = {}
    acknowledged: dict[str, list[tuple[Numbered, ...]]] = {}
    denied: set[str] = set()
    for line in (line for journal in journals.values() for line in journal):
        match line:
            case Attempted(request=request):
                asked[request.tag] = Asked(request.tag, request.count, request.keys, request.after)
            case Acknowledged(tag=tag, numbers=numbers):
                acknowledged.setdefault(tag, []).append(numbers)
            case Denied(tag=tag):
                denied.add(tag)
    readings = [reading for name, journal in journals.items() for reading in _readings(name, journal)]
    return Evidence(asked, acknowledged, frozenset(denied), readings)


def faults(journals: dict[str, list[Line]]) -> Counter[Fault]:
    """How often each fault happened."""
    found = (line.fault for journal in journals.values() for line in journal if isinstance(line, Suffered))
    return Counter(found)


def thrown(journals: dict[str, list[Line]]) -> int:
    """How many hostile requests were sent."""
    return sum(isinstance(line, Threw) for journal in journals.values() for line in journal)


def surprises(journals: dict[str, list[Line]]) -> list[str]:
    """What happened that must not."""
    return [
        f"{name}: {line.text}" for name, journal in journals.items() for line in journal if isinstance(line, Surprised)
    ]


def _readings(name: str, journal: list[Line]) -> Iterator[Reading]:
    start: int | None = None
    end = 0
    seen: list[Seen] = []
    for line in journal:
        match line:
            case Began(position=position):
                if start is not None:
                    yield Reading(name, start, end, seen)
                start, end, seen = position, position, []
            case Saw(events=events, position=position):
                seen.extend(events)
                end = position
    if start is not None:
        yield Reading(name, start, end, seen)
