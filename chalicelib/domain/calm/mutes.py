"""Silences and acknowledgements: events in the log that mute later events for a time.

A silence mutes all events of a job type or of a pattern of event types. An acknowledgement mutes the failures of a job
type until the job recovers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic_core import from_json, to_json

from chalicelib.domain import timestamps
from chalicelib.domain.calm.outcomes import Outcome, job_type_of, outcome_of
from chalicelib.domain.events.event import Event, EventFields, JsonPayload, NewEvent
from chalicelib.domain.events.event_type import EventType, check_pattern, matches

ALERT = "alert"
SILENCED, UNSILENCED, ACKNOWLEDGED = (ALERT, "silenced"), (ALERT, "unsilenced"), (ALERT, "acknowledged")
ALERT_PATTERN: EventType = (ALERT, "*")
RECOVERY_PATTERNS: tuple[EventType, ...] = (("job", "finish", "*"), ("job", "recovered", "*"))
"""The types of the events that end an acknowledgement."""
ALERT_TEXT_START = '{"type":["alert",'
"""The start of the stored JSON of these events. It finds them without parsing every event."""
MAX_MUTES = 1_000
"""In effect at a time, in one log. With more, the oldest one ends."""
MAX_COMMENT_CHARS = 1_000

Kind = Literal["silence", "acknowledgement"]


@dataclass(frozen=True, slots=True)
class Mute:
    """A silence or an acknowledgement."""

    id: int
    """EventId of the event that began it."""
    kind: Kind
    job_type: str | None
    pattern: EventType | None
    until_us: int | None
    comment: str
    by: str
    ended_us: int | None = None
    """EventId of the event that ended it before its time."""

    @property
    def end_us(self) -> float:
        """Events from here on are not muted."""
        ends = [end for end in (self.until_us, self.ended_us) if end is not None]
        return min(ends, default=float("inf"))

    def mutes(self, fields: EventFields, event_id: int, job_type: str, outcome: Outcome) -> bool:
        if not self.id < event_id < self.end_us:
            return False
        if self.kind == "acknowledgement" and outcome != "failure":
            return False
        if self.pattern is not None:
            return matches(fields.type, self.pattern)
        return job_type == self.job_type

    @property
    def json(self) -> dict[str, Any]:
        """The mute as clients receive it."""
        members: dict[str, Any] = {"id": self.id, "type": self.job_type, "comment": self.comment, "by": self.by or None}
        members["pattern"] = None if self.pattern is None else list(self.pattern)
        members["until"] = None if self.until_us is None else timestamps.iso(self.until_us)
        members["since"] = timestamps.iso(self.id)
        return {name: value for name, value in members.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Mutes:
    """The silences and acknowledgements of a log."""

    all: tuple[Mute, ...] = ()

    def fold(self, event: Event, by: str) -> "Mutes":
        """The mutes after `event`, which `by` has published."""
        if event.text.startswith(ALERT_TEXT_START):
            return self._fold_alert(event, by)
        if not self.has_open_acknowledgements:
            return self
        fields = event.fields
        if fields.type[:1] != ("job",) or outcome_of(fields) not in ("success", "recovery"):
            return self
        job_type = job_type_of(fields)
        return self._end(event.event_id, lambda mute: mute.kind == "acknowledgement" and mute.job_type == job_type)

    @property
    def has_open_acknowledgements(self) -> bool:
        """Whether a success may end an acknowledgement."""
        return any(mute.kind == "acknowledgement" and mute.ended_us is None for mute in self.all)

    def mutes(self, event: Event) -> bool:
        """Whether an event of the log is muted. Events before the mute are not."""
        if not self.all or event.fields.type[:1] == (ALERT,):
            return False
        fields = event.fields
        job_type, outcome = job_type_of(fields), outcome_of(fields)
        return any(mute.mutes(fields, event.event_id, job_type, outcome) for mute in self.all)

    def active(self, kind: Kind, now_us: int) -> list[Mute]:
        """Those in effect, the newest first."""
        return [mute for mute in reversed(self.all) if mute.kind == kind and now_us < mute.end_us]

    def since(self, event_id: int) -> "Mutes":
        """Without those that mute no event after `event_id`."""
        kept = tuple(mute for mute in self.all if mute.end_us > event_id)
        return self if len(kept) == len(self.all) else Mutes(kept)

    @property
    def data(self) -> str:
        """The mutes as JSON."""
        fields = [
            [one.id, one.kind, one.job_type, one.pattern, one.until_us, one.comment, one.by, one.ended_us]
            for one in self.all
        ]
        return to_json(fields).decode()

    @classmethod
    def parse(cls, data: str) -> "Mutes":
        return cls(
            tuple(
                Mute(number, kind, job_type, pattern and tuple(pattern), *rest)
                for number, kind, job_type, pattern, *rest in from_json(data)
            )
        )

    def _fold_alert(self, event: Event, by: str) -> "Mutes":
        """Publishers may write any event, so one with another content is ignored."""
        fields = event.fields
        if any(mute.id == event.event_id for mute in self.all):
            return self  # It is folded again.
        data = fields.payload["data"] if fields.payload and fields.payload["type"] == "json" else None
        if not isinstance(data, dict):
            return self
        match fields.type:
            case ("alert", "silenced" | "acknowledged" as name):
                mute = _parse_mute(event.event_id, "silence" if name == "silenced" else "acknowledgement", data, by)
                return self if mute is None else self._limited((*self.all, mute), event.event_id)
            case ("alert", "unsilenced"):
                return self._end(event.event_id, lambda mute: mute.kind == "silence" and mute.id == data.get("id"))
            case _:
                return self

    def _end(self, event_id: int, is_ended: Callable[[Mute], bool]) -> "Mutes":
        changed = tuple(
            replace(mute, ended_us=event_id)
            if mute.id < event_id and mute.ended_us is None and is_ended(mute)
            else mute
            for mute in self.all
        )
        return self if changed == self.all else Mutes(changed)

    def _limited(self, mutes: tuple[Mute, ...], event_id: int) -> "Mutes":
        open_mutes = [mute for mute in mutes if event_id < mute.end_us]
        if len(open_mutes) <= MAX_MUTES:
            return Mutes(mutes)
        return Mutes(tuple(replace(one, ended_us=event_id) if one is open_mutes[0] else one for one in mutes))


NO_MUTES = Mutes()


def silenced_event(job_type: str | None, pattern: EventType | None, until_us: int, comment: str) -> NewEvent:
    """The event that begins a silence."""
    what = {"type": job_type} if pattern is None else {"pattern": list(pattern)}
    return _alert(SILENCED, {**what, "until": timestamps.iso(until_us), "comment": comment})


def unsilenced_event(silence: int) -> NewEvent:
    """The event that ends a silence."""
    return _alert(UNSILENCED, {"id": silence})


def acknowledged_event(job_type: str, until_us: int | None, comment: str) -> NewEvent:
    """The event that begins an acknowledgement."""
    until = {} if until_us is None else {"until": timestamps.iso(until_us)}
    return _alert(ACKNOWLEDGED, {"type": job_type, **until, "comment": comment})


def fold_all(mutes: Mutes, events: Iterable[tuple[Event, str]]) -> Mutes:
    """The mutes after events and their publishers."""
    for event, by in events:
        mutes = mutes.fold(event, by)
    return mutes


def _alert(event_type: EventType, data: dict[str, Any]) -> NewEvent:
    return NewEvent(type=event_type, key="/alert", payload=JsonPayload(type="json", data=data))


def _parse_mute(event_id: int, kind: Kind, data: dict[str, Any], by: str) -> Mute | None:
    job_type, pattern, until, comment = (data.get(name) for name in ("type", "pattern", "until", "comment"))
    try:
        until_us = None if until is None else timestamps.parse(until)
        parsed_pattern = None if pattern is None else check_pattern(_event_type(pattern))
    except ValueError:
        return None
    has_one = isinstance(job_type, str) != (parsed_pattern is not None)
    if not has_one or (kind == "acknowledgement" and parsed_pattern is not None):
        return None
    if kind == "silence" and until_us is None:
        return None
    text = comment if isinstance(comment, str) else ""
    return Mute(event_id, kind, job_type, parsed_pattern, until_us, text[:MAX_COMMENT_CHARS], by)


def _event_type(pattern: object) -> EventType:
    if not isinstance(pattern, list) or not all(isinstance(subtype, str) for subtype in pattern):
        raise ValueError("a pattern is a list of subtypes")
    return tuple(pattern)
