"""Alarms: the events that say what did not happen as expected, and that it does again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.expectations.expectation import Expectation, expectation_key

Kind = Literal["missed", "late", "overdue", "early", "recovered"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Identity = tuple[str, ...]
"""Two alarms of an expectation with the same identity are the same alarm."""

_IDENTIFYING = ("slot", "job", "startedAt", "reason", "silentSince", "finishedAt")


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm of an expectation. Times in `data` are ISO-8601."""

    kind: Kind
    due_us: int
    """The time after which it holds, or the EventId of the event from which it follows."""
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_event(cls, event: Event) -> Self | None:
        """The alarm in an event of the log. None for other events."""
        payload = event.fields.payload
        data = payload["data"] if payload is not None and payload["type"] == "json" else None
        match event.fields.type:
            case ("job", kind, _, _) if kind in KINDS and isinstance(data, dict):
                return cls(kind, event.event_id, data)
            case _:
                return None

    @property
    def identity(self) -> Identity:
        if self.kind == "late":  # There is one for each slot, like `missed`.
            return "late", str(self.data.get("slot"))
        return self.kind, *(str(self.data[name]) for name in _IDENTIFYING if name in self.data)

    def about(self, expectation: Expectation) -> Self:
        """The alarm with the type, node or key of the expected runs."""
        fields = zip(("type", "node", "key"), expectation.subject, strict=True)
        return replace(self, data={name: value for name, value in fields if value is not None} | dict(self.data))

    def to_event(self, name: str, run: int | None = None) -> NewEvent:
        """The event to append to the log. `run` is the number of the run among those of its job, if it is known."""
        data = {"expectation": name, **self.data, **({} if run is None else {"run": run})}
        event_type = ("job", self.kind, self.data.get("node", ""), self.data.get("type", ""))
        return NewEvent(type=event_type, key=expectation_key(name), payload=JsonPayload(type="json", data=data))


def missed(slot_us: int, due_us: int) -> Alarm:
    """No run has started until the end of the grace period."""
    return Alarm("missed", due_us, {"slot": timestamps.iso(slot_us), "due": timestamps.iso(due_us)})


def late(slot_us: int, job: int, started_us: int) -> Alarm:
    """The run of a slot has started after it was missed."""
    run = _run(job, started_us)
    return Alarm("late", started_us, {"slot": timestamps.iso(slot_us), **run, "lateS": (started_us - slot_us) / 1e6})


def overdue(job: int, started_us: int, due_us: int) -> Alarm:
    """A run takes longer than its longest duration."""
    return Alarm("overdue", due_us, {**_run(job, started_us), "reason": "duration"})


def silent(job: int, started_us: int, last_us: int, due_us: int) -> Alarm:
    """A run had no event for too long since the one at `last_us`."""
    data = {**_run(job, started_us), "reason": "silence", "silentSince": timestamps.iso(last_us)}
    return Alarm("overdue", due_us, data)


def early(job: int, started_us: int, previous_us: int) -> Alarm:
    """A run has started too soon after the previous one."""
    return Alarm("early", started_us, {**_run(job, started_us), "previousStartAt": timestamps.iso(previous_us)})


def recovered(job: int, finished_us: int, since_us: int, kinds: list[str]) -> Alarm:
    """A run has succeeded after the alarms of `kinds`."""
    data = {"since": timestamps.iso(since_us), "alarms": kinds, "job": job, "finishedAt": timestamps.iso(finished_us)}
    return Alarm("recovered", finished_us, data)


def _run(job: int, started_us: int) -> dict[str, Any]:
    return {"job": job, "startedAt": timestamps.iso(started_us)}
