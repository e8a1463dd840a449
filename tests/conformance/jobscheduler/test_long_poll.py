"""JobScheduler's queue of events, its tear, and the long poll (J-Q, J-H)."""

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import PATIENCE_S, Member, Server, serving

EVENT = "/jobscheduler/master/api/event"
NDJSON = {"Accept": "application/x-ndjson"}
KEPT = 3
AT_ONCE_S = 4.0
"""What does not wait takes no longer than this, on a machine that others load too."""

A, B = "OrderSuspended", "OrderResumed"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that keeps the last three events of each organization."""
    with serving(tmp_path_factory.mktemp("forgetful"), RETENTION_EVENTS=str(KEPT)) as running:
        yield running


@pytest.fixture(scope="module")
def eighteen(server: Server) -> tuple[Member, list[Json]]:
    """JS7's feed: somebody in whose log are 18 events, and these."""
    member = server.organization()
    return member, [event for _ in range(6) for event in published(member, A, B, A)]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def published(member: Member, *names: str) -> list[Json]:
    """Append events of an order in one request; as JobScheduler's readers get them."""
    events = [{"TYPE": name, "key": "/chain,1"} for name in names]
    answer = member.ask("POST", "/events/scheduler", json={"events": events})
    assert answer.status_code == 201, answer.text
    return [{"eventId": core["eventId"], **own} for core, own in zip(answer.json()["events"], events, strict=True)]


def poll(member: Member, **parameters: Any) -> Json:
    """The answer to a request for events."""
    answer = member.get(EVENT, params={"return": "Event", **parameters})
    assert answer.status_code == 200, answer.text
    seq: Json = answer.json()
    return seq


def pause(member: Member, seconds: float) -> None:
    """Let time pass: wait for what never comes."""
    member.get("/events", params={"types": "never", "timeout": f"{seconds:.3f}s"})


def waiting(pool: ThreadPoolExecutor, member: Member, **parameters: Any) -> Future[Json]:
    """A poll that the server holds by now."""
    found = pool.submit(poll, member, **parameters)
    pause(member, 0.2)
    return found


def non_empty(events: list[Json], event_id: int | None = None) -> Json:
    """The answer with these events, which by default are the last."""
    return {
        "TYPE": "NonEmpty",
        "eventId": events[-1]["eventId"] if event_id is None else event_id,
        "eventSnapshots": events,
    }


def empty(event_id: int) -> Json:
    """The answer without events."""
    return {"TYPE": "Empty", "eventId": event_id, "lastEventId": event_id}


def torn(event: Json) -> Json:
    """The answer when this event is the last that is forgotten."""
    return {"TYPE": "Torn", "eventId": event["eventId"]}


@contextmanager
def streaming(member: Member, **parameters: Any) -> Iterator[httpx.Response]:
    """The answer to a request for a stream, while it comes."""
    headers = {**member.headers, **NDJSON}
    with member.server.client.stream("GET", EVENT, params={"return": "Event", **parameters}, headers=headers) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
        yield answer


def lines(member: Member, **parameters: Any) -> list[Json]:
    """The lines of a whole stream."""
    with streaming(member, **parameters) as answer:
        text = answer.read().decode()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("commits", [(1, 1, 1, 1, 1), (5,), (2, 3), (3, 2), (4, 1), (1, 4)], ids=str)
def test_the_last_events_are_kept_however_they_came(commits: tuple[int, ...], forgetful: Server) -> None:
    member = forgetful.organization()
    assert poll(member, after=0) == empty(0)  # J-Q06
    events = [event for n in commits for event in published(member, *[A] * n)]
    expected = {
        "J-Q01": torn(events[1]),
        "J-Q02": non_empty(events[2:]),
        "J-Q03": torn(events[1]),
        "J-Q04/3": non_empty(events[3:]),
        "J-Q04/4": non_empty(events[4:]),
        "J-Q04/5": empty(events[4]["eventId"]),
        "J-Q05": non_empty(events[2:]),
    }
    assert {
        "J-Q01": poll(member, after=0),
        "J-Q02": poll(member, after=events[1]["eventId"]),
        "J-Q03": poll(member, after=events[0]["eventId"]),
        "J-Q04/3": poll(member, after=events[2]["eventId"]),
        "J-Q04/4": poll(member, after=events[3]["eventId"]),
        "J-Q04/5": poll(member, after=events[4]["eventId"]),
        "J-Q05": poll(member),
    } == expected


@pytest.mark.parametrize("stored", range(KEPT + 1))
def test_as_long_as_nothing_is_forgotten_nothing_is_torn(stored: int, forgetful: Server) -> None:
    member = forgetful.organization()
    events = [event for _ in range(stored) for event in published(member, A)]
    assert poll(member, after=0) == (non_empty(events) if events else empty(0))


def test_whoever_keeps_up_sees_what_others_find_torn(forgetful: Server) -> None:  # J-Q09
    member = forgetful.organization()
    *_, seen = published(member, A, A, A)
    (fourth,) = published(member, B)
    assert poll(member, after=seen["eventId"]) == non_empty([fourth])
    assert poll(member, after=0)["TYPE"] == "Torn"


@pytest.mark.parametrize("limit", [1, -1, 99])
def test_the_tear_does_not_depend_on_what_is_asked_for(limit: int, forgetful: Server) -> None:
    member = forgetful.organization()
    events = published(member, A, A, A, A)
    for wanted in ("Event", B):
        assert poll(member, **{"after": 0, "limit": limit, "return": wanted}) == torn(events[0])
    assert lines(member, after=0, limit=limit) == [torn(events[0])]


def test_whoever_goes_on_after_the_tear_misses_only_what_is_forgotten(forgetful: Server) -> None:  # J-Q15, J-Q17
    member = forgetful.organization()
    events = published(member, A, B, A, B, A)
    tear = poll(member, after=events[0]["eventId"])
    assert tear == torn(events[1])
    assert poll(member, after=tear["eventId"]) == non_empty(events[2:])
    assert poll(member, after=tear["eventId"] - 1) == tear


def test_a_poll_that_waits_misses_nothing_although_more_than_is_kept_comes_at_once(
    forgetful: Server, pool: ThreadPoolExecutor
) -> None:
    member = forgetful.organization()
    (first,) = published(member, A)
    poll_of_b = waiting(pool, member, **{"after": first["eventId"], "timeout": "60s", "return": B})
    events = published(member, A, B, B, A, B)
    expected = [event for event in events if event["TYPE"] == B]
    assert poll_of_b.result(PATIENCE_S) == non_empty(expected)


def test_an_event_completes_those_who_wait_for_it_and_nobody_else(member: Member, pool: ThreadPoolExecutor) -> None:
    any_waiter = waiting(pool, member, timeout="60s")  # J-Q07
    b_waiter = waiting(pool, member, **{"timeout": "60s", "return": B})
    (a,) = published(member, A)
    assert any_waiter.result(PATIENCE_S) == non_empty([a])
    assert not b_waiter.done()
    (b,) = published(member, B)
    assert b_waiter.result(PATIENCE_S) == non_empty([b])


def test_when_nothing_matches_the_answer_tells_the_last_id_scanned(member: Member) -> None:  # J-Q11
    *_, last = published(member, A, A)
    assert poll(member, **{"return": B, "after": 0}) == empty(last["eventId"])
    assert poll(member, **{"return": B, "after": 0, "timeout": "0.1s"}) == empty(last["eventId"])


def test_what_passes_by_while_waiting_is_scanned_too(member: Member, pool: ThreadPoolExecutor) -> None:  # J-Q11
    b_waiter = waiting(pool, member, **{"timeout": "0.6s", "return": B})
    (a,) = published(member, A)
    assert b_waiter.result(PATIENCE_S) == empty(a["eventId"])


def test_a_timeout_does_not_affect_others_who_wait(member: Member, pool: ThreadPoolExecutor) -> None:  # J-Q12
    patient = waiting(pool, member, timeout="60s")
    began = time.monotonic()
    assert poll(member, timeout="0.2s") == empty(0)
    assert time.monotonic() - began >= 0.2
    assert not patient.done()
    (a,) = published(member, A)
    assert patient.result(PATIENCE_S) == non_empty([a])


def test_a_short_timeout_ends_with_the_position_asked_for(eighteen: tuple[Member, list[Json]]) -> None:  # J-Q14
    member, events = eighteen
    assert poll(member, after=events[-1]["eventId"], timeout="0.01s") == empty(events[-1]["eventId"])


def test_a_position_that_was_never_issued_is_as_good_as_any(member: Member) -> None:  # J-Q18
    (first,) = published(member, A)
    pause(member, 0.002)
    (second,) = published(member, B)
    assert second["eventId"] - first["eventId"] > 1
    assert poll(member, after=first["eventId"] + 1) == non_empty([second])
    assert poll(member, after=second["eventId"] - 1) == non_empty([second])


def test_a_position_in_the_future_is_no_error(eighteen: tuple[Member, list[Json]]) -> None:  # J-Q19
    member, events = eighteen
    assert poll(member, after=events[-1]["eventId"] + 10**12) == empty(events[-1]["eventId"])


def test_whoever_wants_nothing_old_is_told_of_a_tear_although_all_is_stored(member: Member) -> None:  # J-Q20
    old = published(member, A, B)
    pause(member, 0.3)
    (young,) = published(member, B)
    asked_ago = poll(member, tornOlder="1h")
    assert asked_ago == non_empty([*old, young])
    assert poll(member, tornOlder="0.2s") == {"TYPE": "Torn", "eventId": young["eventId"]}
    assert lines(member, tornOlder="0.2s") == [{"TYPE": "Torn", "eventId": young["eventId"]}]
    assert poll(member, tornOlder="60s", after=old[-1]["eventId"]) == non_empty([young])


@pytest.mark.parametrize(
    ("after", "parameters", "expected"),
    [
        pytest.param(None, {"timeout": "0", "after": "0"}, range(18), id="J-H01"),
        pytest.param(3, {"limit": "3"}, range(3, 6), id="J-H02"),
        pytest.param(6, {"limit": "3"}, range(6, 9), id="J-H03"),
        pytest.param(7, {"limit": "3"}, range(7, 10), id="J-H04"),
        pytest.param(8, {"limit": "3"}, range(8, 11), id="J-H04/next"),
        pytest.param(15, {"limit": "3", "delay": "99"}, range(15, 18), id="J-H04/no-delay-for-what-is-there"),
        pytest.param(15, {"timeout": "99", "delay": "99"}, range(15, 18), id="J-H05"),
        pytest.param(15, {"limit": "-2", "timeout": "99"}, range(17, 15, -1), id="J-H05/newest-first"),
    ],
)
def test_what_is_there_comes_at_once(
    after: int | None, parameters: dict[str, str], expected: range, eighteen: tuple[Member, list[Json]]
) -> None:
    member, events = eighteen
    position = {} if after is None else {"after": events[after - 1]["eventId"]}
    began = time.monotonic()
    seq = poll(member, **position, **parameters)
    assert time.monotonic() - began < AT_ONCE_S
    assert seq["eventSnapshots"] == [events[place] for place in expected]
    assert seq["eventId"] >= max(event["eventId"] for event in seq["eventSnapshots"])


def test_a_poll_without_events_takes_as_long_as_it_may(eighteen: tuple[Member, list[Json]]) -> None:  # J-H06
    member, events = eighteen
    began = time.monotonic()
    assert poll(member, after=events[-1]["eventId"], timeout="0.2") == empty(events[-1]["eventId"])
    assert 0.2 <= time.monotonic() - began < AT_ONCE_S


def test_a_poll_is_answered_when_the_event_comes(member: Member, pool: ThreadPoolExecutor) -> None:  # J-H07
    (seen,) = published(member, A)
    poll_of_next = waiting(pool, member, after=seen["eventId"], timeout="60")
    began = time.monotonic()
    (event,) = published(member, B)
    assert poll_of_next.result(PATIENCE_S) == non_empty([event])
    assert time.monotonic() - began < AT_ONCE_S


def test_a_delay_collects_what_comes_soon_after_the_first(member: Member, pool: ThreadPoolExecutor) -> None:  # J-H08
    (seen,) = published(member, A)
    delayed = waiting(pool, member, after=seen["eventId"], timeout="60s", delay="0.5s")
    began = time.monotonic()
    events = [*published(member, B), *published(member, A)]
    assert delayed.result(PATIENCE_S) == non_empty(events)
    assert 0.5 <= time.monotonic() - began < AT_ONCE_S


def test_a_delay_collects_only_what_is_asked_for(member: Member, pool: ThreadPoolExecutor) -> None:  # J-H08
    delayed = waiting(pool, member, **{"return": B, "timeout": "60s", "delay": "0.3s"})
    (first,) = published(member, B)
    (other,) = published(member, A)
    assert delayed.result(PATIENCE_S) == non_empty([first], other["eventId"])


def test_a_delay_goes_on_past_the_timeout_but_not_past_the_limit(member: Member, pool: ThreadPoolExecutor) -> None:
    delayed = waiting(pool, member, timeout="0.6s", delay="0.8s", limit=2)
    events = [event for _ in range(3) for event in published(member, A)]
    assert delayed.result(PATIENCE_S) == non_empty(events[:2])


def test_a_line_is_an_event(eighteen: tuple[Member, list[Json]]) -> None:  # J-H09
    member, events = eighteen
    with streaming(member, after=0, limit=2) as answer:
        text = answer.read().decode()
    assert text == "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events[:2])


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param({}, range(18), id="J-H09/all"),
        pytest.param({"after": 0, "timeout": "0.1s"}, range(18), id="J-H09/all-and-a-wait"),
        pytest.param({"limit": 18, "timeout": "99s"}, range(18), id="J-H09/as-many-as-there-are"),
        pytest.param({"limit": 17, "timeout": "99s"}, range(17), id="J-H09/all-but-one"),
        pytest.param({"limit": -3, "timeout": "99s"}, range(17, 14, -1), id="J-H09/newest-first"),
        pytest.param({"return": B, "limit": 3, "timeout": "99s"}, range(1, 9, 3), id="J-H09/of-a-type"),
        pytest.param({"return": "JobEvent"}, range(0), id="J-H09/nothing"),
    ],
)
def test_lines_are_what_a_poll_would_give(
    parameters: dict[str, Any], expected: range, eighteen: tuple[Member, list[Json]]
) -> None:
    member, events = eighteen
    assert lines(member, **parameters) == [events[place] for place in expected]


def test_a_line_comes_as_soon_as_its_event(member: Member) -> None:  # J-H10
    (first,) = published(member, A)
    with streaming(member, timeout="60s", limit=3) as answer:
        arriving = answer.iter_lines()
        found = [json.loads(next(arriving))]
        events = [first]
        for name in (B, A):
            events += published(member, name)
            found.append(json.loads(next(arriving)))
        assert (found, list(arriving)) == (events, [])


def test_the_stream_beats_while_nothing_comes(member: Member) -> None:  # J-H11
    with streaming(member, timeout="60s", heartbeat="0.05s", limit=1) as answer:
        arriving = answer.iter_text()
        assert [next(arriving) for _ in range(3)] == ["\n"] * 3
        (event,) = published(member, A)
        found = [piece for piece in arriving if piece != "\n"]
    assert [json.loads(piece) for piece in found] == [event]


def test_a_stream_that_beats_ends_at_its_timeout(member: Member) -> None:
    began = time.monotonic()
    with streaming(member, timeout="0.5s", heartbeat="0.1s") as answer:
        text = answer.read().decode()
    assert 0.5 <= time.monotonic() - began < AT_ONCE_S
    assert text in ("\n" * beats for beats in range(1, 6))


def test_when_the_server_ends_everybody_who_waits_gets_an_answer(tmp_path: Path) -> None:  # J-H12
    with serving(tmp_path) as server, ThreadPoolExecutor(4) as pool:
        member = server.organization()
        (event,) = published(member, A)
        position = {"after": event["eventId"], "timeout": "1h"}
        polls = [pool.submit(poll, member, **position), pool.submit(poll, member, **position, delay="1h")]
        streams = [pool.submit(lines, member, timeout="1h"), pool.submit(lines, member, timeout="1h", heartbeat="10m")]
        pause(member, 0.4)
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        answers = [future.result(PATIENCE_S) for future in polls]
        found = [future.result(PATIENCE_S) for future in streams]
        assert (server.exit_code(), time.monotonic() - began < 2 * AT_ONCE_S) == (0, True)
    assert (answers, found) == ([empty(event["eventId"])] * 2, [[event]] * 2)


def test_when_the_server_ends_a_delay_ends_with_what_came(tmp_path: Path) -> None:  # J-H12
    with serving(tmp_path) as server, ThreadPoolExecutor(1) as pool:
        member = server.organization()
        delayed = waiting(pool, member, timeout="1h", delay="1h")
        (event,) = published(member, A)
        pause(member, 0.2)
        server.signal(signal.SIGTERM)
        assert delayed.result(PATIENCE_S) == non_empty([event])
        assert server.exit_code() == 0
