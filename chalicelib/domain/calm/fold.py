"""The calm decisions of an observer: a fold over the events that it observes.

The state contains all that later decisions depend on. It is bounded and can be stored. The time of a decision is that
of the event, so a repeat or a replay decides the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic_core import from_json, to_json

from chalicelib.domain.calm.outcomes import Facts
from chalicelib.domain.calm.rule import CalmRule
from chalicelib.domain.events.ids import Id

MAX_SAMPLES = 5
"""The first events of a digest, which its message shows."""
MAX_GROUPS = 500
"""Groups of an observer that are remembered. With more, the group is forgotten that changed the longest time ago."""

Reason = Literal["filtered", "muted", "no outcome", "unchanged", "below threshold", "no recovery"]


@dataclass(frozen=True, slots=True)
class Digest:
    """One message for one or more events of a group."""

    group: str
    first: Id
    until: int
    """EventId of the last event."""
    count: int
    samples: tuple[Id, ...]
    """The first events, at most `MAX_SAMPLES`."""
    opened_us: int
    """EventId of the first event."""
    due_us: int
    """When the message is sent."""

    def add(self, facts: Facts) -> "Digest":
        samples = (*self.samples, facts.id)[:MAX_SAMPLES]
        return replace(self, until=facts.event_id, count=self.count + 1, samples=samples)


@dataclass(frozen=True, slots=True)
class Send:
    """The event is a message at once."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The event is part of a later message."""

    due_us: int


@dataclass(frozen=True, slots=True)
class Suppress:
    """The event sends nothing."""

    reason: Reason


Decision = Send | Hold | Suppress


@dataclass(frozen=True, slots=True)
class Group:
    """The state of a group of events."""

    failures: int = 0
    """Consecutive failures, counted up to the threshold of the rule."""
    is_unresolved: bool | None = None
    """Whether a failure was reported but no recovery. None: there was no failure yet."""
    sent_us: int | None = None
    """When the last message was sent. Only with a throttle."""
    held: Digest | None = None


@dataclass(frozen=True, slots=True)
class CalmState:
    """The state of an observer's decisions after the event `position`."""

    position: int = 0
    groups: Mapping[str, Group] = field(default_factory=dict)
    """In the order of their last changes."""
    next_due_us: int | None = None
    """When the first held message is sent."""
    fingerprint: str = ""
    """Of the rule for which the held messages were scheduled."""

    def is_as_stored(self, stored: "CalmState") -> bool:
        """Whether storing this state in place of `stored` would change no later decision."""
        is_same_rule = self.next_due_us is None or self.fingerprint == stored.fingerprint
        return is_same_rule and list(self.groups.items()) == list(stored.groups.items())

    @property
    def data(self) -> str:
        """The state as JSON, without the position."""
        groups = [
            [name, group.failures, group.is_unresolved, group.sent_us, group.held and _digest_data(group.held)]
            for name, group in self.groups.items()
        ]
        return to_json({"groups": groups, "rule": self.fingerprint}).decode()

    @classmethod
    def parse(cls, position: int, data: str) -> "CalmState":
        members = from_json(data)
        groups = {
            name: Group(failures, is_unresolved, sent_us, held and _parse_digest(name, held))
            for name, failures, is_unresolved, sent_us, held in members["groups"]
        }
        return cls(position, groups, _next_due_us(groups), members["rule"])


def decide(state: CalmState, rule: CalmRule, facts: Facts) -> tuple[CalmState, Decision, list[Digest]]:
    """The state after an event, the decision about it, and the held messages whose time has come before it."""
    state, released = advance(state, rule, facts.event_id)
    state = replace(state, position=facts.event_id)
    group = state.groups.get(facts.group, Group())
    group, reason = _judge(group, rule, facts)
    decision: Decision
    if reason is not None:
        decision = Suppress(reason)
    elif group.held is not None:
        group = replace(group, held=group.held.add(facts))
        decision = Hold(group.held.due_us) if group.held else Send()
    elif (due_us := rule.release_us(facts.event_id, group.sent_us)) > facts.event_id:
        time_us = facts.event_id
        group = replace(group, held=Digest(facts.group, facts.id, time_us, 1, (facts.id,), time_us, due_us))
        decision = Hold(due_us)
    else:
        group = replace(group, sent_us=facts.event_id if rule.throttle_us else None)
        decision = Send()
    state, evicted = _put(state, facts.group, group)
    return state, decision, [*released, *evicted]


def advance(state: CalmState, rule: CalmRule, now_us: int) -> tuple[CalmState, list[Digest]]:
    """The state at `now_us`, and the held messages whose time has come, in the order of their times.

    If the rule has changed, the messages that are held are scheduled by the new one.
    """
    if state.fingerprint != rule.fingerprint:
        state = _reschedule(state, rule)
    if state.next_due_us is None or state.next_due_us > now_us:
        return state, []
    groups, released = dict(state.groups), []
    for name, group in state.groups.items():
        if group.held is not None and group.held.due_us <= now_us:
            released.append(group.held)
            sent_us = group.held.due_us if rule.throttle_us else None
            groups[name] = replace(group, held=None, sent_us=sent_us)
    released.sort(key=lambda digest: (digest.due_us, digest.opened_us))
    return replace(state, groups=_without_empty(groups), next_due_us=_next_due_us(groups)), released


def release_all(state: CalmState) -> list[Digest]:
    """All held messages, in the order of their times."""
    return sorted(_held(state.groups), key=lambda digest: (digest.due_us, digest.opened_us))


def _judge(group: Group, rule: CalmRule, facts: Facts) -> tuple[Group, Reason | None]:
    """The group after the event, and why the event does not become a message. None: it does."""
    if rule.when == "every":
        return group, "muted" if facts.is_muted else None if facts.passes else "filtered"
    if facts.is_muted:
        # A muted failure counts nothing, so the first failure afterwards is news. A muted recovery ends a failure.
        is_good = facts.outcome in ("success", "recovery")
        return (replace(group, failures=0, is_unresolved=False) if is_good else group), "muted"
    match facts.outcome:
        case "failure":
            return _judge_failure(group, rule, facts)
        case "success" | "recovery":
            return _judge_recovery(group, facts)
        case _:
            return group, "no outcome"


def _judge_failure(group: Group, rule: CalmRule, facts: Facts) -> tuple[Group, Reason | None]:
    if rule.when == "recovered":
        # A filter that selects recoveries does not pass the failures before them.
        return replace(group, is_unresolved=True), "no recovery"
    if not facts.passes:
        return group, "filtered"
    failures = group.failures + 1
    if failures < rule.threshold:
        return replace(group, failures=failures, is_unresolved=bool(group.is_unresolved)), "below threshold"
    if group.failures >= rule.threshold:
        return group, "unchanged"
    return replace(group, failures=failures, is_unresolved=True), None


def _judge_recovery(group: Group, facts: Facts) -> tuple[Group, Reason | None]:
    """A success ends a row of failures, also if the filter does not pass it. Otherwise the next one would be no news.

    `job/recovered` without a known failure is news too: the observer may be new, or may not observe failures.
    """
    group = replace(group, failures=0)
    if not facts.passes:
        return group, "filtered"
    is_news = group.is_unresolved or (group.is_unresolved is None and facts.outcome == "recovery")
    return (replace(group, is_unresolved=False), None) if is_news else (group, "unchanged")


def _put(state: CalmState, name: str, group: Group) -> tuple[CalmState, list[Digest]]:
    """Store a group as the last one. Returns the message that is sent because its group is forgotten."""
    if group == state.groups.get(name, Group()):
        return state, []
    groups = {other: value for other, value in state.groups.items() if other != name}
    if group != Group():
        groups[name] = group
    evicted: list[Digest] = []
    if len(groups) > MAX_GROUPS:
        without_held = (other for other, value in groups.items() if value.held is None)
        forgotten = groups.pop(next(without_held, next(iter(groups))))
        evicted = [forgotten.held] if forgotten.held else []
    return replace(state, groups=groups, next_due_us=_next_due_us(groups)), evicted


def _reschedule(state: CalmState, rule: CalmRule) -> CalmState:
    groups = {
        name: group
        if group.held is None
        else replace(group, held=replace(group.held, due_us=rule.release_us(group.held.opened_us, group.sent_us)))
        for name, group in state.groups.items()
    }
    return replace(state, groups=groups, next_due_us=_next_due_us(groups), fingerprint=rule.fingerprint)


def _held(groups: Mapping[str, Group]) -> Iterator[Digest]:
    return (group.held for group in groups.values() if group.held is not None)


def _next_due_us(groups: Mapping[str, Group]) -> int | None:
    return min((digest.due_us for digest in _held(groups)), default=None)


def _without_empty(groups: Mapping[str, Group]) -> dict[str, Group]:
    return {name: group for name, group in groups.items() if group != Group()}


def _digest_data(digest: Digest) -> list[Any]:
    samples = [[sample.session, sample.instance] for sample in digest.samples]
    return [digest.first.server, digest.until, digest.count, digest.opened_us, digest.due_us, samples]


def _parse_digest(group: str, data: list[Any]) -> Digest:
    server, until, count, opened_us, due_us, samples = data
    ids = tuple(Id(server, session, instance) for session, instance in samples)
    return Digest(group, ids[0], until, count, ids, opened_us, due_us)
