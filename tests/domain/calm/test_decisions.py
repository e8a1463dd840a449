"""The calm decisions equal those of a second implementation, also if the state is stored between any two events."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.domain.calm.fold import MAX_GROUPS, CalmState, Digest, Send, advance, decide, release_all
from chalicelib.domain.calm.outcomes import Facts, Outcome
from chalicelib.domain.calm.rule import CalmFields, CalmRule
from chalicelib.domain.events.ids import Id
from tests.domain.calm.reference import Message, Wishes, messages

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = 1_774_656_000 * SECOND
"""28 March 2026, the day before the clocks change in Berlin."""
OUTCOMES: tuple[Outcome, ...] = ("failure", "success", "recovery", "other")
GAPS = (1, 30 * SECOND, 600 * SECOND, HOUR, 7 * HOUR, 26 * HOUR)
TIMES = ("00:00", "04:15", "07:00", "08:30", "16:00", "22:00")
WINDOWS = (0, 90 * SECOND, 2 * HOUR, 30 * HOUR)


@st.composite
def some_events(draw: st.DrawFn) -> list[Facts]:
    time_us, events = START, []
    for session in range(1, draw(st.integers(1, 25)) + 1):
        time_us += draw(st.sampled_from(GAPS))
        group, outcome = draw(st.sampled_from("ab")), draw(st.sampled_from(OUTCOMES))
        passes, is_muted = draw(st.integers(0, 3)) > 0, draw(st.integers(0, 4)) == 0
        events.append(Facts(Id(1, session, 1), time_us, group, outcome, passes, is_muted))
    return events


@st.composite
def some_wishes(draw: st.DrawFn) -> Wishes:
    has_times = draw(st.booleans())
    start = START + draw(st.sampled_from(GAPS))
    return Wishes(
        when=draw(st.sampled_from(["every", "failures(1)", "failures(2)", "failures(3)", "recovered"])),
        window_us=0 if has_times else draw(st.sampled_from(WINDOWS)),
        times=tuple(sorted(draw(st.sets(st.sampled_from(TIMES), min_size=1)))) if has_times else (),
        throttle_us=draw(st.sampled_from(WINDOWS)),
        quiet=draw(st.none() | st.tuples(st.sampled_from(TIMES), st.sampled_from(TIMES))),
        zone=draw(st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"])),
        snooze=draw(st.none() | st.just((start, start + draw(st.sampled_from(GAPS))))),
    )


def rule_of(wishes: Wishes) -> CalmRule:
    """The rule that the user writes to get what the wishes say."""
    fields = CalmFields(
        when=wishes.when,
        digest=", ".join(wishes.times) or f"{wishes.window_us // SECOND}s",
        throttle=f"{wishes.throttle_us // SECOND}s",
        quiet="-".join(wishes.quiet) if wishes.quiet else None,
        time_zone=wishes.zone,
    )
    return CalmRule.of(fields, snoozes=(wishes.snooze,) if wishes.snooze else ())


def restored(state: CalmState) -> CalmState:
    """The state after it was stored and loaded."""
    return CalmState.parse(state.position, state.data)


def folded(rule: CalmRule, events: Sequence[Facts], ticks: Sequence[int] = ()) -> list[tuple[int, int, int, int]]:
    """First and last event, number of events and time of each message. The clock passes the `ticks` in between."""
    state, found = CalmState(), list[tuple[int, int, int, int]]()
    waiting = sorted(ticks, reverse=True)
    for event in events:
        while waiting and waiting[-1] < event.event_id:
            state, released = advance(restored(state), rule, waiting.pop())
            found += map(_summary, released)
        state, decision, released = decide(restored(state), rule, event)
        found += map(_summary, released)
        if isinstance(decision, Send):
            found.append((event.event_id, event.event_id, 1, event.event_id))
    return sorted([*found, *map(_summary, release_all(state))], key=lambda one: (one[3], one[0]))


def _summary(digest: Digest) -> tuple[int, int, int, int]:
    return digest.opened_us, digest.until, digest.count, digest.due_us


def _expected(message: Message) -> tuple[int, int, int, int]:
    return message.events[0], message.events[-1], len(message.events), message.at_us


@settings(max_examples=300, deadline=None)
@given(some_wishes(), some_events(), st.data())
def test_messages_equal_those_of_the_second_program(wishes: Wishes, events: list[Facts], data: st.DataObject) -> None:
    expected = [_expected(message) for message in messages(wishes, events)]
    ticks = data.draw(st.lists(st.integers(START, events[-1].event_id), max_size=5))
    assert folded(rule_of(wishes), events) == expected
    assert folded(rule_of(wishes), events, ticks) == expected


def failure(number: int, group: str = "backup", at_us: int | None = None) -> Facts:
    return Facts(Id(1, number, 1), at_us or START + number * SECOND, group, "failure")


def test_digest_of_thousand_failures_has_five_samples() -> None:
    rule, state = CalmRule.of(CalmFields(digest="1h0s")), CalmState()
    for number in range(1, 1001):
        state, _, released = decide(state, rule, failure(number))
        assert released == []
    (digest,) = release_all(state)
    assert (digest.count, digest.first, digest.until) == (1000, Id(1, 1, 1), START + 1000 * SECOND)
    assert digest.samples == tuple(Id(1, number, 1) for number in range(1, 6))
    assert len(state.data) < 250


def test_state_stays_bounded_with_many_groups() -> None:
    rule, state, released = CalmRule.of(CalmFields(digest="1h0s", when="change")), CalmState(), list[Digest]()
    for number in range(1, MAX_GROUPS + 101):
        state, _, now_released = decide(state, rule, failure(number, f"group {number}"))
        released += now_released
    assert len(state.groups) == MAX_GROUPS
    assert [digest.first.session for digest in released] == list(range(1, 101))
    assert len(state.data) < 100_000


def test_group_without_held_messages_is_forgotten_first() -> None:
    rule, state = CalmRule.of(CalmFields(when="change", throttle="1h")), CalmState()
    held = CalmRule.of(CalmFields(digest="1h0s", when="change"))
    state, _, _ = decide(state, held, failure(1, "held"))
    for number in range(2, MAX_GROUPS + 10):
        state, _, released = decide(state, rule, failure(number, f"group {number}"))
        assert [digest.first for digest in released] in ([], [Id(1, 1, 1)])
    assert len(state.groups) == MAX_GROUPS


def test_new_rule_reschedules_held_messages() -> None:
    slow, fast = CalmRule.of(CalmFields(digest="24h")), CalmRule.of(CalmFields(digest="1m0s"))
    state, _, _ = decide(CalmState(), slow, failure(1))
    assert state.next_due_us == START + SECOND + 24 * HOUR
    state, released = advance(restored(state), fast, START + 61 * SECOND)
    assert [(digest.count, digest.due_us) for digest in released] == [(1, START + 61 * SECOND)]
    assert (state.groups, state.next_due_us) == ({}, None)


def test_unchanged_event_leaves_state_as_stored() -> None:
    rule = CalmRule.of(CalmFields(when="change"))
    state, _, _ = decide(CalmState(), rule, failure(1))
    again, _, _ = decide(restored(state), rule, failure(2))
    assert (again.is_as_stored(state), state.is_as_stored(CalmState())) == (True, False)
