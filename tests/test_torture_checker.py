"""The checker of the fault injection tests finds every kind of violation."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.adapters.dynamodb.items import item_from_commits
from chalicelib.domain.events.body import join_body
from chalicelib.domain.log.commit import Commit
from tests.builders import a_run
from tests.torture.checks.checker import Kind, violations
from tests.torture.checks.evidence import AssignedId, Evidence, Mark, ReadEvent, Reading, SentRequest
from tests.torture.checks.stored import StoredItem, item_from_dynamodb, stored_violations

COUNT = 3
TAGS = ("a", "b", "c", "d")
LAST = 4_002

Log = list[Commit]


def a_text(tag: str, index: int, key: str | None = None) -> str:
    data = {"tag": tag, "index": index, "count": COUNT}
    return json.dumps({"type": ["t"], "key": key, "sourceTimestamp": None, "payload": {"type": "json", "data": data}})


def a_commit(session: int, tag: str) -> Commit:
    """A commit with one request of three events, linked to the previous session."""
    texts = [a_text(tag, index, f"/{tag}") for index in range(COUNT)]
    prev = 0 if session == 1 else (session - 1) * 1_000 + COUNT - 1
    before = (session - 1) * COUNT
    return Commit(1, session, session * 1_000, COUNT, prev, f"r-{tag}", join_body(texts), before, "", f"k-{tag}", "d")


def numbers(session: int) -> tuple[AssignedId, ...]:
    return tuple(AssignedId(f"1.{session}.{i + 1}", session * 1_000 + i) for i in range(COUNT))


def seen(session: int, tag: str) -> list[ReadEvent]:
    return [ReadEvent(id_, event_id, Mark(tag, i, COUNT)) for i, (id_, event_id) in enumerate(numbers(session))]


GOOD = [a_commit(session, tag) for session, tag in enumerate(TAGS, start=1)]
ALL_SEEN = [event for session, tag in enumerate(TAGS, start=1) for event in seen(session, tag)]
EVIDENCE = Evidence(
    sent={tag: SentRequest(tag, COUNT) for tag in (*TAGS, "never written")},
    acknowledged={tag: [numbers(session)] for session, tag in enumerate(TAGS, start=1) if tag != "d"},
    refused=frozenset({"never written"}),
    readings=[
        Reading("from the start", 0, LAST, ALL_SEEN),
        Reading("from inside a commit", 2_000, LAST, ALL_SEEN[4:]),
        Reading("from the head", LAST, LAST, []),
        Reading("stopped early", 0, 3_000, ALL_SEEN[:7]),
    ],
)
UNREAD = replace(EVIDENCE, readings=())


def edited(session: int, **changes: object) -> Log:
    return [commit._replace(**changes) if commit.session == session else commit for commit in GOOD]  # type: ignore[arg-type]


def with_texts(session: int, texts: Sequence[str]) -> Log:
    return edited(session, body=join_body(texts), event_count=len(texts))


def test_checker_good_log_has_no_violations() -> None:
    assert violations(GOOD, EVIDENCE) == []


def test_checker_allows_repeated_acknowledgement() -> None:
    acknowledged = {**EVIDENCE.acknowledged, "a": [numbers(1), numbers(1)]}
    assert violations(GOOD, replace(EVIDENCE, acknowledged=acknowledged)) == []


def test_checker_allows_missing_unacknowledged_request() -> None:
    assert violations(GOOD[:3], UNREAD) == []


@pytest.mark.parametrize(
    ("log", "kinds"),
    [
        (GOOD[:1] + GOOD[2:], {Kind.GAP, Kind.CHAIN, Kind.POSITION, Kind.LOST}),
        (GOOD[1:], {Kind.GAP, Kind.CHAIN, Kind.POSITION, Kind.LOST}),
        ([*GOOD[:2], GOOD[1], *GOOD[2:]], {Kind.GAP, Kind.EVENT_ID, Kind.CHAIN, Kind.POSITION, Kind.DOUBLED}),
        ([GOOD[0], GOOD[2], GOOD[1], GOOD[3]], {Kind.GAP, Kind.EVENT_ID, Kind.CHAIN, Kind.POSITION}),
        (edited(2, previous_event_id=999), {Kind.CHAIN}),
        (edited(2, previous_event_id=0), {Kind.CHAIN}),
        (edited(1, previous_event_id=1), {Kind.CHAIN}),
        (edited(3, at_us=2_002), {Kind.EVENT_ID, Kind.CHAIN, Kind.MISNUMBERED}),
        (edited(3, at_us=1_500), {Kind.EVENT_ID, Kind.CHAIN, Kind.MISNUMBERED}),
        (edited(4, event_count=2), {Kind.COUNT}),
        (edited(4, event_count=4), {Kind.COUNT}),
        (with_texts(4, [a_text("d", i) for i in (0, 1)]), {Kind.TORN}),
        (with_texts(4, [a_text("d", i) for i in (0, 1, 1)]), {Kind.TORN}),
        (with_texts(4, [a_text("d", i) for i in (0, 1, 2, 2)]), {Kind.TORN}),
        (with_texts(4, [a_text("d", i) for i in (0, 2, 1)]), {Kind.DISORDER}),
        (with_texts(4, [a_text("x", i) for i in range(COUNT)]), {Kind.UNKNOWN}),
        (with_texts(4, [a_text("a", i) for i in range(COUNT)]), {Kind.DOUBLED}),
        (with_texts(4, [a_text("never written", i) for i in range(COUNT)]), {Kind.REFUSED}),
        (GOOD[:2], {Kind.LOST}),
        (edited(4, before=8), {Kind.POSITION}),
        (edited(4, before=None), {Kind.POSITION}),
        (edited(4, idempotency_key="k-a"), {Kind.KEY}),
    ],
    ids=[
        "a gap",
        "a gap at the start",
        "a commit twice",
        "two commits in the wrong order",
        "a broken prev",
        "a prev of zero",
        "a first prev that is not zero",
        "an EventId that repeats",
        "an EventId that goes back",
        "event count too low",
        "event count too high",
        "incomplete request",
        "one event replaced by another",
        "a request with one event twice",
        "two events of a request swapped",
        "a request that was not sent",
        "a request doubled",
        "a refused request",
        "an acknowledged request lost",
        "a position that repeats",
        "no position",
        "an idempotency key twice",
    ],
)
def test_checker_finds_bad_log(log: Log, kinds: set[Kind]) -> None:
    assert {violation.kind for violation in violations(log, UNREAD)} == kinds


def test_checker_finds_events_swapped_between_requests() -> None:
    log = list(GOOD)
    log[1] = log[1]._replace(body=join_body([a_text("b", 0), a_text("c", 1), a_text("b", 2)]))
    log[2] = log[2]._replace(body=join_body([a_text("c", 0), a_text("b", 1), a_text("c", 2)]))
    assert Kind.TORN in {violation.kind for violation in violations(log, UNREAD)}


def test_checker_finds_swapped_requests() -> None:
    log = [GOOD[0], a_commit(2, "c"), a_commit(3, "b"), GOOD[3]]
    assert [(v.kind, v.text) for v in violations(log, UNREAD)] == [
        (Kind.MISNUMBERED, "request b, acknowledged as 1.2.1 (2000) and 2 more, is 1.3.1 (3000) and 2 more"),
        (Kind.MISNUMBERED, "request c, acknowledged as 1.3.1 (3000) and 2 more, is 1.2.1 (2000) and 2 more"),
    ]


def test_checker_finds_contradicting_responses() -> None:
    acknowledged = {**EVIDENCE.acknowledged, "a": [numbers(1), numbers(9)]}
    assert [v.kind for v in violations(GOOD, replace(UNREAD, acknowledged=acknowledged))] == [Kind.MISNUMBERED]


@pytest.mark.parametrize(
    ("keys", "after", "kinds"),
    [
        (("/b",), 1_002, [Kind.CONDITION] * COUNT),
        (("/x", "/b"), 2_001, [Kind.CONDITION]),
        (("/b",), 2_002, []),
        (("/c", "/d"), 2_002, []),
    ],
    ids=["a match in between", "its last event only", "a match before", "only the request itself or later events"],
)
def test_checker_finds_failed_condition(keys: tuple[str, ...], after: int, kinds: list[Kind]) -> None:
    sent = {**EVIDENCE.sent, "c": SentRequest("c", COUNT, keys, after)}
    assert [violation.kind for violation in violations(GOOD, replace(UNREAD, sent=sent))] == kinds


def _swapped(events: list[ReadEvent]) -> list[ReadEvent]:
    return [*events[:4], events[5], events[4], *events[6:]]


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda events: events[:4] + events[5:], {Kind.SKIPPED}),
        (lambda events: events[1:], {Kind.SKIPPED}),
        (lambda events: events[:-1], {Kind.SKIPPED}),
        (lambda events: [*events[:5], events[4], *events[5:]], {Kind.REPEATED}),
        (lambda events: [*events, events[0]], {Kind.REPEATED}),
        (_swapped, {Kind.REORDERED}),
        (lambda events: events[::-1], {Kind.REORDERED}),
        (lambda events: [*events[:4], *events[5:], events[4]], {Kind.REORDERED}),
        (lambda events: [*events, *seen(9, "z")], {Kind.INVENTED}),
        (lambda events: [events[0]._replace(event_id=7), *events[1:]], {Kind.SKIPPED, Kind.INVENTED}),
        (lambda events: [events[0]._replace(mark=events[4].mark), *events[1:]], {Kind.SKIPPED, Kind.INVENTED}),
    ],
    ids=[
        "skipped one",
        "skipped the first",
        "skipped the last",
        "repeated one at once",
        "repeated one later",
        "swapped two",
        "reversed all",
        "saw one late",
        "saw one too many",
        "saw another number",
        "saw another event",
    ],
)
def test_checker_finds_bad_reader(change: Callable[[list[ReadEvent]], list[ReadEvent]], kinds: set[Kind]) -> None:
    evidence = replace(EVIDENCE, readings=[Reading("reader", 0, LAST, change(list(ALL_SEEN)))])
    assert {violation.kind for violation in violations(GOOD, evidence)} == kinds


def test_checker_finds_read_before_start() -> None:
    evidence = replace(EVIDENCE, readings=[Reading("reader", 1_001, LAST, ALL_SEEN)])
    assert {violation.kind for violation in violations(GOOD, evidence)} == {Kind.INVENTED}


def test_violation_str_has_kind_and_details() -> None:
    assert [str(violation) for violation in violations(GOOD[:2], UNREAD)] == [
        "LOST, acknowledged, but not in the log: request c, acknowledged as 1.3.1 (3000) and 2 more"
    ]


def stored_row(commit: Commit) -> StoredItem:
    return StoredItem([commit], [commit.checksum])


def stored_run(commits: Sequence[Commit]) -> StoredItem:
    """The commits as one item of DynamoDB, as the product writes it."""
    return item_from_dynamodb(item_from_commits(commits))


def test_stored_items_without_damage_have_no_violations() -> None:
    run = a_run("a", "b", "c", session=5)
    items = [*map(stored_row, GOOD), stored_run(run)]
    assert items[-1].commits == run
    assert stored_violations(items) == []


@pytest.mark.parametrize(
    "change",
    [{"body": "[]"}, {"at_us": 7}, {"before": 1}, {"idempotency_key": "x"}, {"by": "x"}, {"previous_event_id": 9}],
    ids=str,
)
def test_checker_finds_wrong_checksum(change: dict[str, Any]) -> None:
    damaged = StoredItem([GOOD[0]._replace(**change)], [GOOD[0].checksum])
    assert [violation.kind for violation in stored_violations([damaged])] == [Kind.CHECKSUM]


def test_checker_finds_wrong_checksum_within_a_run() -> None:
    run = stored_run(a_run("a", "b", "c"))
    first, second, third = run.checksums
    damaged = run._replace(checksums=[first, second ^ 1, third])
    assert [str(violation) for violation in stored_violations([damaged])] == [
        f"CHECKSUM, the stored checksum is wrong: session 2 has {second ^ 1}, not {second}"
    ]
    assert [v.kind for v in stored_violations([run._replace(checksums=[first, second])])] == [Kind.CHECKSUM]


@pytest.mark.parametrize("session", [1, 2, 3], ids=["same start", "in the middle", "at the end"])
def test_checker_finds_overlapping_runs(session: int) -> None:
    items = [stored_run(a_run("a", "b", "c")), stored_run(a_run("d", "e", session=session))]
    assert [violation.kind for violation in stored_violations(items)] == [Kind.OVERLAP]
