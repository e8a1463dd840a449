"""The checker: what contradicts the promise that nothing is lost, doubled, reordered or skipped.

It trusts nothing of the product but the fields of a commit: it decodes and numbers the events by itself.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from chalicelib.domain.log.commit import Commit
from tests.torture.evidence import Asked, Evidence, Mark, Numbered, Reading, Seen


class Kind(StrEnum):
    """What can be wrong."""

    GAP = "sessions are not 1, 2, 3 and so on"
    EVENT_ID = "EventIds do not rise"
    CHAIN = "prev is not the EventId before"
    COUNT = "n is not the number of events"
    UNKNOWN = "nobody asked for it"
    TORN = "a request is not whole"
    DISORDER = "the events of a request changed places"
    LOST = "acknowledged, but not in the log"
    DOUBLED = "in the log more than once"
    MISNUMBERED = "numbered otherwise than acknowledged"
    REFUSED = "refused, but in the log"
    CONDITION = "written against its condition"
    SKIPPED = "a reader missed an event"
    REPEATED = "a reader saw an event twice"
    REORDERED = "a reader saw events out of order"
    INVENTED = "a reader saw what is not in the log"
    UNANSWERED = "repeated with its key, and never answered"
    SURPRISE = "an answer that nobody should get"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind.name}, {self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A commit, and its events as we number them."""

    commit: Commit
    events: list[Seen]
    keys: list[str | None]

    @property
    def tags(self) -> set[str]:
        return {event.mark.tag for event in self.events}

    @property
    def numbers(self) -> tuple[Numbered, ...]:
        return tuple(Numbered(event.id, event.event_id) for event in self.events)


_ByTag = Mapping[str, Sequence[_Entry]]


def violations(log: Iterable[Commit], evidence: Evidence) -> list[Violation]:
    """Everything that is wrong with a log or with what was told of it; an empty list is the proof.

    - Sessions are 1, 2, 3 and so on; EventIds rise strictly; `prev` is the EventId before; `n` counts the events.
    - Every commit is one request, whole and in its order, and every request is in one commit at most.
    - What was acknowledged is there, numbered as was said; what was refused is not.
    - No event that a condition forbids lies between its position and its request.
    - Every reader saw exactly the log between its start and its end.
    """
    entries = [_entry(commit) for commit in log]
    commits = [entry.commit for entry in entries]
    stored = [event for entry in entries for event in entry.events]
    by_tag: dict[str, list[_Entry]] = {}
    for entry in entries:
        for tag in entry.tags:
            by_tag.setdefault(tag, []).append(entry)
    return [
        *_of_sessions(commits),
        *_of_event_ids(commits),
        *_of_chain(commits),
        *_of_counts(entries),
        *_of_wholeness(entries, evidence.asked),
        *_of_doubles(by_tag),
        *_of_acknowledged(by_tag, evidence.acknowledged),
        *_of_refused(by_tag, evidence.refused),
        *_of_conditions(entries, by_tag, evidence.asked),
        *(found for reading in evidence.readings for found in _of_reading(reading, stored)),
    ]


def mark_of(event: Mapping[str, Any]) -> Mark:
    """The mark in the payload of an event, given its JSON."""
    data = event["payload"]["data"]
    return Mark(data["tag"], data["index"], data["count"])


def _entry(commit: Commit) -> _Entry:
    decoded: list[dict[str, Any]] = json.loads(commit.body)
    events = [
        Seen(f"{commit.server}.{commit.session}.{i + 1}", commit.at + i, mark_of(event))
        for i, event in enumerate(decoded)
    ]
    return _Entry(commit, events, [event["key"] for event in decoded])


def _of_sessions(commits: Sequence[Commit]) -> Iterator[Violation]:
    for expected, commit in enumerate(commits, start=1):
        if commit.session != expected:
            yield Violation(Kind.GAP, f"session {commit.session} stands where {expected} should")


def _of_event_ids(commits: Sequence[Commit]) -> Iterator[Violation]:
    for before, commit in pairwise(commits):
        if commit.at <= _last(before):
            text = f"session {commit.session} begins at {commit.at}, session {before.session} ended at {_last(before)}"
            yield Violation(Kind.EVENT_ID, text)


def _of_chain(commits: Sequence[Commit]) -> Iterator[Violation]:
    last = 0
    for commit in commits:
        if commit.prev != last:
            yield Violation(Kind.CHAIN, f"session {commit.session} says {commit.prev}, but it is {last}")
        last = _last(commit)


def _of_counts(entries: Sequence[_Entry]) -> Iterator[Violation]:
    for entry in entries:
        if entry.commit.n != len(entry.events):
            text = f"session {entry.commit.session} has {len(entry.events)} events and says {entry.commit.n}"
            yield Violation(Kind.COUNT, text)


def _of_wholeness(entries: Sequence[_Entry], asked: Mapping[str, Asked]) -> Iterator[Violation]:
    for entry in entries:
        for tag in sorted(entry.tags):
            if tag not in asked:
                yield Violation(Kind.UNKNOWN, f"request {tag} in session {entry.commit.session}")
                continue
            count = asked[tag].count
            whole = [Mark(tag, place, count) for place in range(count)]
            found = [event.mark for event in entry.events]
            if found != whole:
                kind = Kind.DISORDER if sorted(found) == whole else Kind.TORN
                yield Violation(kind, f"session {entry.commit.session} holds {_told(found)}, not {_told(whole)}")


def _of_doubles(by_tag: _ByTag) -> Iterator[Violation]:
    for tag, entries in by_tag.items():
        if len(entries) > 1:
            sessions = ", ".join(str(entry.commit.session) for entry in entries)
            yield Violation(Kind.DOUBLED, f"request {tag} is in sessions {sessions}")


def _of_acknowledged(by_tag: _ByTag, acknowledged: Mapping[str, Iterable[tuple[Numbered, ...]]]) -> Iterator[Violation]:
    for tag, answers in acknowledged.items():
        for answer in answers:
            if tag not in by_tag:
                yield Violation(Kind.LOST, f"request {tag}, acknowledged as {_first(answer)}")
            elif answer != by_tag[tag][0].numbers:
                text = f"request {tag}, acknowledged as {_first(answer)}, is {_first(by_tag[tag][0].numbers)}"
                yield Violation(Kind.MISNUMBERED, text)


def _of_refused(by_tag: _ByTag, refused: frozenset[str]) -> Iterator[Violation]:
    for tag in sorted(refused & by_tag.keys()):
        yield Violation(Kind.REFUSED, f"request {tag} is in session {by_tag[tag][0].commit.session}")


def _of_conditions(entries: Sequence[_Entry], by_tag: _ByTag, asked: Mapping[str, Asked]) -> Iterator[Violation]:
    about: dict[str | None, list[int]] = {}
    for entry in entries:
        for event, key in zip(entry.events, entry.keys, strict=True):
            about.setdefault(key, []).append(event.event_id)
    conditions = ((asked[tag], key) for tag in by_tag if tag in asked for key in asked[tag].keys)
    for request, key in conditions:
        at = by_tag[request.tag][0].commit.at
        for event_id in about.get(key, ()):
            if request.after < event_id < at:
                text = f"request {request.tag} at {at}, though {event_id} is about {key} and after {request.after}"
                yield Violation(Kind.CONDITION, text)


def _of_reading(reading: Reading, stored: Sequence[Seen]) -> Iterator[Violation]:
    expected = [event for event in stored if reading.start < event.event_id <= reading.end]
    if list(reading.seen) == expected:
        return
    who = f"{reading.reader}, from {reading.start} to {reading.end},"
    times = Counter(reading.seen)
    for event in expected:
        if event not in times:
            yield Violation(Kind.SKIPPED, f"{who} did not see {_about(event)}")
    for event in times.keys() - set(expected):
        yield Violation(Kind.INVENTED, f"{who} saw {_about(event)}")
    for event, seen in times.items():
        if seen > 1:
            yield Violation(Kind.REPEATED, f"{who} saw {_about(event)} {seen} times")
    for before, event in pairwise(times):
        if event.event_id < before.event_id:
            yield Violation(Kind.REORDERED, f"{who} saw {_about(event)} after {_about(before)}")


def _last(commit: Commit) -> int:
    return commit.at + commit.n - 1


def _told(marks: Sequence[Mark]) -> str:
    return " ".join(f"{mark.tag}[{mark.place}/{mark.of}]" for mark in marks)


def _first(numbers: Sequence[Numbered]) -> str:
    return f"{numbers[0].id} ({numbers[0].event_id}) and {len(numbers) - 1} more" if numbers else "nothing"


def _about(event: Seen) -> str:
    return f"{event.id} ({event.event_id}, {event.mark.tag}[{event.mark.place}/{event.mark.of}])"
