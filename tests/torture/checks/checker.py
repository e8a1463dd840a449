"""The checker: finds violations of the promise that nothing is lost, duplicated, reordered or skipped.

It shares only the fields of `Commit` with the product, and decodes and numbers the events itself.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from chalicelib.domain.log.commit import Commit
from tests.torture.checks.evidence import AssignedId, Evidence, Mark, ReadEvent, Reading, SentRequest


class Kind(StrEnum):
    """Kind of violation. The value is its description."""

    GAP = "sessions are not 1, 2, 3 and so on"
    EVENT_ID = "EventIds do not rise"
    CHAIN = "prev is not the previous EventId"
    COUNT = "n is not the number of events"
    POSITION = "before is not the number of events before it"
    KEY = "two commits have the same idempotency key"
    CHECKSUM = "the stored checksum is wrong"
    OVERLAP = "two items contain the same session"
    UNKNOWN = "no client sent it"
    TORN = "a request is incomplete"
    DISORDER = "the events of a request are in the wrong order"
    LOST = "acknowledged, but not in the log"
    DOUBLED = "in the log more than once"
    MISNUMBERED = "ids differ from the acknowledged ones"
    REFUSED = "refused, but in the log"
    CONDITION = "written although its condition failed"
    SKIPPED = "a reader missed an event"
    REPEATED = "a reader saw an event twice"
    REORDERED = "a reader saw events out of order"
    INVENTED = "a reader saw an event that is not in the log"
    UNANSWERED = "retried with its key, but never answered"
    UNEXPECTED = "an unexpected result"


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation, with details."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind.name}, {self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A commit and its events, numbered independently."""

    commit: Commit
    events: list[ReadEvent]
    keys: list[str | None]

    @property
    def tags(self) -> set[str]:
        return {event.mark.tag for event in self.events}

    @property
    def numbers(self) -> tuple[AssignedId, ...]:
        return tuple(AssignedId(event.id, event.event_id) for event in self.events)


_EntriesByTag = Mapping[str, Sequence[_Entry]]


def violations(log: Iterable[Commit], evidence: Evidence) -> list[Violation]:
    """All violations in a log, given the evidence. An empty list is the proof.

    - Sessions are 1, 2, 3 and so on. EventIds increase. `prev` is the previous EventId. `n` is the number of events.
    - `before` counts the events before a commit. No two commits have the same idempotency key.
    - Every commit is one complete request in order, and every request is in at most one commit.
    - Acknowledged requests are in the log with the acknowledged ids. Refused requests are not in the log.
    - No event matches the condition of a request between its position and the request.
    - Every reader saw exactly the events between its start and its end.
    """
    entries = [_entry(commit) for commit in log]
    commits = [entry.commit for entry in entries]
    stored = [event for entry in entries for event in entry.events]
    entries_by_tag: dict[str, list[_Entry]] = {}
    for entry in entries:
        for tag in entry.tags:
            entries_by_tag.setdefault(tag, []).append(entry)
    return [
        *_check_sessions(commits),
        *_check_event_ids(commits),
        *_check_links(commits),
        *_check_counts(entries),
        *_check_positions(commits),
        *_check_keys(commits),
        *_check_requests(entries, evidence.sent),
        *_check_duplicates(entries_by_tag),
        *_check_acknowledged(entries_by_tag, evidence.acknowledged),
        *_check_refused(entries_by_tag, evidence.refused),
        *_check_conditions(entries, entries_by_tag, evidence.sent),
        *(violation for reading in evidence.readings for violation in _check_reading(reading, stored)),
    ]


def parse_mark(event: Mapping[str, Any]) -> Mark:
    """The mark in the payload of an event in JSON."""
    data = event["payload"]["data"]
    return Mark(data["tag"], data["index"], data["count"])


def _entry(commit: Commit) -> _Entry:
    decoded: list[dict[str, Any]] = json.loads(commit.body)
    events = [
        ReadEvent(f"{commit.server}.{commit.session}.{i + 1}", commit.at_us + i, parse_mark(event))
        for i, event in enumerate(decoded)
    ]
    return _Entry(commit, events, [event["key"] for event in decoded])


def _check_sessions(commits: Sequence[Commit]) -> Iterator[Violation]:
    for expected, commit in enumerate(commits, start=1):
        if commit.session != expected:
            yield Violation(Kind.GAP, f"found session {commit.session} instead of {expected}")


def _check_event_ids(commits: Sequence[Commit]) -> Iterator[Violation]:
    for before, commit in pairwise(commits):
        if commit.at_us <= _last_event_id(before):
            end = _last_event_id(before)
            text = f"session {commit.session} starts at {commit.at_us}, session {before.session} ends at {end}"
            yield Violation(Kind.EVENT_ID, text)


def _check_links(commits: Sequence[Commit]) -> Iterator[Violation]:
    last = 0
    for commit in commits:
        if commit.previous_event_id != last:
            yield Violation(
                Kind.CHAIN, f"prev of session {commit.session} is {commit.previous_event_id}, but should be {last}"
            )
        last = _last_event_id(commit)


def _check_positions(commits: Sequence[Commit]) -> Iterator[Violation]:
    count = 0
    for commit in commits:
        if commit.before != count:
            text = f"session {commit.session} counts {commit.before} events before it, but there are {count}"
            yield Violation(Kind.POSITION, text)
        count = (commit.before or 0) + commit.event_count


def _check_keys(commits: Sequence[Commit]) -> Iterator[Violation]:
    sessions: dict[str, int] = {}
    for commit in commits:
        key = commit.idempotency_key
        if key and sessions.setdefault(key, commit.session) != commit.session:
            yield Violation(Kind.KEY, f"sessions {sessions[key]} and {commit.session} have the key {key}")


def _check_counts(entries: Sequence[_Entry]) -> Iterator[Violation]:
    for entry in entries:
        if entry.commit.event_count != len(entry.events):
            counts = f"{len(entry.events)} events, but its count is {entry.commit.event_count}"
            yield Violation(Kind.COUNT, f"session {entry.commit.session} has {counts}")


def _check_requests(entries: Sequence[_Entry], sent: Mapping[str, SentRequest]) -> Iterator[Violation]:
    for entry in entries:
        for tag in sorted(entry.tags):
            if tag not in sent:
                yield Violation(Kind.UNKNOWN, f"request {tag} in session {entry.commit.session}")
                continue
            count = sent[tag].count
            expected = [Mark(tag, index, count) for index in range(count)]
            stored = [event.mark for event in entry.events]
            if stored != expected:
                kind = Kind.DISORDER if sorted(stored) == expected else Kind.TORN
                yield Violation(
                    kind, f"session {entry.commit.session} holds {_format_marks(stored)}, not {_format_marks(expected)}"
                )


def _check_duplicates(entries_by_tag: _EntriesByTag) -> Iterator[Violation]:
    for tag, entries in entries_by_tag.items():
        if len(entries) > 1:
            sessions = ", ".join(str(entry.commit.session) for entry in entries)
            yield Violation(Kind.DOUBLED, f"request {tag} is in sessions {sessions}")


def _check_acknowledged(
    entries_by_tag: _EntriesByTag, acknowledged: Mapping[str, Iterable[tuple[AssignedId, ...]]]
) -> Iterator[Violation]:
    for tag, responses in acknowledged.items():
        for ids in responses:
            if tag not in entries_by_tag:
                yield Violation(Kind.LOST, f"request {tag}, acknowledged as {_format_first(ids)}")
            elif ids != (stored := entries_by_tag[tag][0].numbers):
                text = f"request {tag}, acknowledged as {_format_first(ids)}, is {_format_first(stored)}"
                yield Violation(Kind.MISNUMBERED, text)


def _check_refused(entries_by_tag: _EntriesByTag, refused: frozenset[str]) -> Iterator[Violation]:
    for tag in sorted(refused & entries_by_tag.keys()):
        yield Violation(Kind.REFUSED, f"request {tag} is in session {entries_by_tag[tag][0].commit.session}")


def _check_conditions(
    entries: Sequence[_Entry], entries_by_tag: _EntriesByTag, sent: Mapping[str, SentRequest]
) -> Iterator[Violation]:
    event_ids: dict[str | None, list[int]] = {}
    for entry in entries:
        for event, key in zip(entry.events, entry.keys, strict=True):
            event_ids.setdefault(key, []).append(event.event_id)
    conditions = ((sent[tag], key) for tag in entries_by_tag if tag in sent for key in sent[tag].keys)
    for request, key in conditions:
        at = entries_by_tag[request.tag][0].commit.at_us
        for event_id in event_ids.get(key, ()):
            if request.after < event_id < at:
                text = (
                    f"request {request.tag} at {at}, although {event_id} has the key {key} and is after {request.after}"
                )
                yield Violation(Kind.CONDITION, text)


def _check_reading(reading: Reading, stored: Sequence[ReadEvent]) -> Iterator[Violation]:
    expected = [event for event in stored if reading.start < event.event_id <= reading.end]
    if list(reading.seen) == expected:
        return
    reader = f"{reading.reader}, from {reading.start} to {reading.end},"
    times = Counter(reading.seen)
    for event in expected:
        if event not in times:
            yield Violation(Kind.SKIPPED, f"{reader} did not see {_format_event(event)}")
    for event in times.keys() - set(expected):
        yield Violation(Kind.INVENTED, f"{reader} saw {_format_event(event)}")
    for event, seen in times.items():
        if seen > 1:
            yield Violation(Kind.REPEATED, f"{reader} saw {_format_event(event)} {seen} times")
    for before, event in pairwise(times):
        if event.event_id < before.event_id:
            yield Violation(Kind.REORDERED, f"{reader} saw {_format_event(event)} after {_format_event(before)}")


def _last_event_id(commit: Commit) -> int:
    return commit.at_us + commit.event_count - 1


def _format_marks(marks: Sequence[Mark]) -> str:
    return " ".join(f"{mark.tag}[{mark.position}/{mark.total}]" for mark in marks)


def _format_first(numbers: Sequence[AssignedId]) -> str:
    return f"{numbers[0].id} ({numbers[0].event_id}) and {len(numbers) - 1} more" if numbers else "nothing"


def _format_event(event: ReadEvent) -> str:
    return f"{event.id} ({event.event_id}, {event.mark.tag}[{event.mark.position}/{event.mark.total}])"
