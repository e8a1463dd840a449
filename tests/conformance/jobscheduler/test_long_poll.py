"""JobScheduler's event queue, torn sequences, and the long poll (J-Q, J-H)."""

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

from tests.serving import TIMEOUT_S, Member, Server, run_server

EVENT = "/jobscheduler/master/api/event"
NDJSON = {"Accept": "application/x-ndjson"}
MAX_EVENTS = 3
IMMEDIATE_S = 4.0
"""Maximum duration of a request that does not wait, on a busy machine."""

A, B = "OrderSuspended", "OrderResumed"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def retention_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose retention keeps the last three events of each organization."""
    with run_server(tmp_path_factory.mktemp("retention_server"), RETENTION_EVENTS=str(MAX_EVENTS)) as running:
        yield running


@pytest.fixture(scope="module")
def eighteen(server: Server) -> tuple[Member, list[Json]]:
    """JS7's feed: a member whose log contains 18 events, and the events."""
    member = server.organization()
    return member, [event for _ in range(6) for event in publish(member, A, B, A)]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def publish(member: Member, *names: str) -> list[Json]:
    """Append events of an order in one request and return them as JobScheduler's readers receive them."""
    events = [{"TYPE": name, "key": "/chain,1"} for name in names]
    answer = member.request("POST", "/events/scheduler", json={"events": events})
    assert answer.status_code == 201, answer.text
    return [
        {"eventId": core["eventId"], **native} for core, native in zip(answer.json()["events"], events, strict=True)
    ]


def poll(member: Member, **parameters: Any) -> Json:
    """Request events."""
    answer = member.get(EVENT, params={"return": "Event", **parameters})
    assert answer.status_code == 200, answer.text
    seq: Json = answer.json()
    return seq


def wait(member: Member, seconds: float) -> None:
    """Wait by polling for an event that never arrives."""
    member.get("/events", params={"types": "never", "timeout": f"{seconds:.3f}s"})


def start_poll(pool: ThreadPoolExecutor, member: Member, **parameters: Any) -> Future[Json]:
    """Start a poll and wait until the server has received it."""
    future = pool.submit(poll, member, **parameters)
    wait(member, 0.2)
    return future


def non_empty(events: list[Json], event_id: int | None = None) -> Json:
    """The response with these events. The default eventId is that of the last one."""
    return {
        "TYPE": "NonEmpty",
        "eventId": events[-1]["eventId"] if event_id is None else event_id,
        "eventSnapshots": events,
    }


def empty(event_id: int) -> Json:
    return {"TYPE": "Empty", "eventId": event_id, "lastEventId": event_id}


def torn(event: Json) -> Json:
    """The response when `event` is the last deleted event."""
    return {"TYPE": "Torn", "eventId": event["eventId"]}


@contextmanager
def open_stream(member: Member, **parameters: Any) -> Iterator[httpx.Response]:
    """Request a stream of events."""
    headers = {**member.headers, **NDJSON}
    with member.server.client.stream("GET", EVENT, params={"return": "Event", **parameters}, headers=headers) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
        yield answer


def lines(member: Member, **parameters: Any) -> list[Json]:
    """All lines of a stream."""
    with open_stream(member, **parameters) as answer:
        text = answer.read().decode()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("commits", [(1, 1, 1, 1, 1), (5,), (2, 3), (3, 2), (4, 1), (1, 4)], ids=str)
def test_retention_keeps_last_events_of_any_commits(commits: tuple[int, ...], retention_server: Server) -> None:
    member = retention_server.organization()
    assert poll(member, after=0) == empty(0)  # J-Q06
    events = [event for n in commits for event in publish(member, *[A] * n)]
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


@pytest.mark.parametrize("stored", range(MAX_EVENTS + 1))
def test_poll_before_retention_is_not_torn(stored: int, retention_server: Server) -> None:
    member = retention_server.organization()
    events = [event for _ in range(stored) for event in publish(member, A)]
    assert poll(member, after=0) == (non_empty(events) if events else empty(0))


def test_poll_after_recent_position_is_not_torn(retention_server: Server) -> None:  # J-Q09
    member = retention_server.organization()
    *_, seen = publish(member, A, A, A)
    (fourth,) = publish(member, B)
    assert poll(member, after=seen["eventId"]) == non_empty([fourth])
    assert poll(member, after=0)["TYPE"] == "Torn"


def test_newest_first_is_never_torn(retention_server: Server) -> None:  # J-Q09
    member = retention_server.organization()
    *_, third = publish(member, A, A, A)
    (fourth,) = publish(member, B)
    kept = [fourth, third][:MAX_EVENTS]
    assert poll(member, after=0, limit=-2) == non_empty(kept, fourth["eventId"])
    assert poll(member, limit=-2) == non_empty(kept, fourth["eventId"])


@pytest.mark.parametrize("limit", [1, 99])
def test_torn_is_independent_of_max_events_and_type(limit: int, retention_server: Server) -> None:
    member = retention_server.organization()
    events = publish(member, A, A, A, A)
    for return_type in ("Event", B):
        assert poll(member, **{"after": 0, "limit": limit, "return": return_type}) == torn(events[0])
    assert lines(member, after=0, limit=limit) == [torn(events[0])]


def test_poll_after_torn_misses_only_deleted_events(retention_server: Server) -> None:  # J-Q15, J-Q17
    member = retention_server.organization()
    events = publish(member, A, B, A, B, A)
    torn_seq = poll(member, after=events[0]["eventId"])
    assert torn_seq == torn(events[1])
    assert poll(member, after=torn_seq["eventId"]) == non_empty(events[2:])
    assert poll(member, after=torn_seq["eventId"] - 1) == torn_seq


def test_waiting_poll_returns_events_already_deleted(retention_server: Server, pool: ThreadPoolExecutor) -> None:
    member = retention_server.organization()
    (first,) = publish(member, A)
    poll_of_b = start_poll(pool, member, **{"after": first["eventId"], "timeout": "60s", "return": B})
    events = publish(member, A, B, B, A, B)
    expected = [event for event in events if event["TYPE"] == B]
    assert poll_of_b.result(TIMEOUT_S) == non_empty(expected)


def test_event_completes_only_polls_that_match_it(member: Member, pool: ThreadPoolExecutor) -> None:
    any_waiter = start_poll(pool, member, timeout="60s")  # J-Q07
    b_waiter = start_poll(pool, member, **{"timeout": "60s", "return": B})
    (a,) = publish(member, A)
    assert any_waiter.result(TIMEOUT_S) == non_empty([a])
    assert not b_waiter.done()
    (b,) = publish(member, B)
    assert b_waiter.result(TIMEOUT_S) == non_empty([b])


def test_empty_poll_returns_last_scanned_id(member: Member) -> None:  # J-Q11
    *_, last = publish(member, A, A)
    assert poll(member, **{"return": B, "after": 0}) == empty(last["eventId"])
    assert poll(member, **{"return": B, "after": 0, "timeout": "0.1s"}) == empty(last["eventId"])


def test_empty_poll_scans_events_during_wait(member: Member, pool: ThreadPoolExecutor) -> None:  # J-Q11
    b_waiter = start_poll(pool, member, **{"timeout": "0.6s", "return": B})
    (a,) = publish(member, A)
    assert b_waiter.result(TIMEOUT_S) == empty(a["eventId"])


def test_poll_timeout_does_not_affect_other_polls(member: Member, pool: ThreadPoolExecutor) -> None:  # J-Q12
    long_waiter = start_poll(pool, member, timeout="60s")
    began = time.monotonic()
    assert poll(member, timeout="0.2s") == empty(0)
    assert time.monotonic() - began >= 0.2
    assert not long_waiter.done()
    (a,) = publish(member, A)
    assert long_waiter.result(TIMEOUT_S) == non_empty([a])


def test_short_timeout_returns_requested_position(eighteen: tuple[Member, list[Json]]) -> None:  # J-Q14
    member, events = eighteen
    assert poll(member, after=events[-1]["eventId"], timeout="0.01s") == empty(events[-1]["eventId"])


def test_poll_after_unissued_position_succeeds(member: Member) -> None:  # J-Q18
    (first,) = publish(member, A)
    wait(member, 0.002)
    (second,) = publish(member, B)
    assert second["eventId"] - first["eventId"] > 1
    assert poll(member, after=first["eventId"] + 1) == non_empty([second])
    assert poll(member, after=second["eventId"] - 1) == non_empty([second])


def test_poll_after_future_position_is_empty(eighteen: tuple[Member, list[Json]]) -> None:  # J-Q19
    member, events = eighteen
    assert poll(member, after=events[-1]["eventId"] + 10**12) == empty(events[-1]["eventId"])


def test_torn_older_returns_torn_for_old_events(member: Member) -> None:  # J-Q20
    old = publish(member, A, B)
    wait(member, 0.3)
    (young,) = publish(member, B)
    unlimited = poll(member, tornOlder="1h")
    assert unlimited == non_empty([*old, young])
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
def test_poll_returns_stored_events_immediately(
    after: int | None, parameters: dict[str, str], expected: range, eighteen: tuple[Member, list[Json]]
) -> None:
    member, events = eighteen
    position = {} if after is None else {"after": events[after - 1]["eventId"]}
    began = time.monotonic()
    seq = poll(member, **position, **parameters)
    assert time.monotonic() - began < IMMEDIATE_S
    assert seq["eventSnapshots"] == [events[index] for index in expected]
    assert seq["eventId"] >= max(event["eventId"] for event in seq["eventSnapshots"])


def test_poll_without_events_waits_until_timeout(eighteen: tuple[Member, list[Json]]) -> None:  # J-H06
    member, events = eighteen
    began = time.monotonic()
    assert poll(member, after=events[-1]["eventId"], timeout="0.2") == empty(events[-1]["eventId"])
    assert 0.2 <= time.monotonic() - began < IMMEDIATE_S


def test_poll_returns_when_event_arrives(member: Member, pool: ThreadPoolExecutor) -> None:  # J-H07
    (seen,) = publish(member, A)
    poll_of_next = start_poll(pool, member, after=seen["eventId"], timeout="60")
    began = time.monotonic()
    (event,) = publish(member, B)
    assert poll_of_next.result(TIMEOUT_S) == non_empty([event])
    assert time.monotonic() - began < IMMEDIATE_S


def test_delay_collects_events_after_the_first(member: Member, pool: ThreadPoolExecutor) -> None:  # J-H08
    (seen,) = publish(member, A)
    delayed = start_poll(pool, member, after=seen["eventId"], timeout="60s", delay="0.5s")
    began = time.monotonic()
    events = [*publish(member, B), *publish(member, A)]
    assert delayed.result(TIMEOUT_S) == non_empty(events)
    assert 0.5 <= time.monotonic() - began < IMMEDIATE_S


def test_delay_collects_only_matching_events(member: Member, pool: ThreadPoolExecutor) -> None:  # J-H08
    delayed = start_poll(pool, member, **{"return": B, "timeout": "60s", "delay": "0.3s"})
    (first,) = publish(member, B)
    (other,) = publish(member, A)
    assert delayed.result(TIMEOUT_S) == non_empty([first], other["eventId"])


def test_delay_may_exceed_timeout_but_not_limit(member: Member, pool: ThreadPoolExecutor) -> None:
    delayed = start_poll(pool, member, timeout="0.6s", delay="0.8s", limit=2)
    events = [event for _ in range(3) for event in publish(member, A)]
    assert delayed.result(TIMEOUT_S) == non_empty(events[:2])


def test_stream_line_is_an_event(eighteen: tuple[Member, list[Json]]) -> None:  # J-H09
    member, events = eighteen
    with open_stream(member, after=0, limit=2) as answer:
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
def test_stream_lines_equal_poll_result(
    parameters: dict[str, Any], expected: range, eighteen: tuple[Member, list[Json]]
) -> None:
    member, events = eighteen
    assert lines(member, **parameters) == [events[index] for index in expected]


def test_stream_line_arrives_with_its_event(member: Member) -> None:  # J-H10
    (first,) = publish(member, A)
    with open_stream(member, timeout="60s", limit=3) as answer:
        remaining = answer.iter_lines()
        received = [json.loads(next(remaining))]
        events = [first]
        for name in (B, A):
            events += publish(member, name)
            received.append(json.loads(next(remaining)))
        assert (received, list(remaining)) == (events, [])


def test_stream_sends_heartbeats_without_events(member: Member) -> None:  # J-H11
    with open_stream(member, timeout="60s", heartbeat="0.05s", limit=1) as answer:
        remaining = answer.iter_text()
        assert [next(remaining) for _ in range(3)] == ["\n"] * 3
        (event,) = publish(member, A)
        received = [chunk for chunk in remaining if chunk != "\n"]
    assert [json.loads(chunk) for chunk in received] == [event]


def test_stream_with_heartbeat_ends_at_timeout(member: Member) -> None:
    began = time.monotonic()
    with open_stream(member, timeout="0.5s", heartbeat="0.1s") as answer:
        text = answer.read().decode()
    assert 0.5 <= time.monotonic() - began < IMMEDIATE_S
    assert text in ("\n" * beats for beats in range(1, 6))


def test_server_shutdown_answers_all_waiting_requests(tmp_path: Path) -> None:  # J-H12
    with run_server(tmp_path) as server, ThreadPoolExecutor(4) as pool:
        member = server.organization()
        (event,) = publish(member, A)
        position = {"after": event["eventId"], "timeout": "1h"}
        polls = [pool.submit(poll, member, **position), pool.submit(poll, member, **position, delay="1h")]
        streams = [pool.submit(lines, member, timeout="1h"), pool.submit(lines, member, timeout="1h", heartbeat="10m")]
        wait(member, 0.4)
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        answers = [future.result(TIMEOUT_S) for future in polls]
        streamed = [future.result(TIMEOUT_S) for future in streams]
        assert (server.exit_code(), time.monotonic() - began < 2 * IMMEDIATE_S) == (0, True)
    assert (answers, streamed) == ([empty(event["eventId"])] * 2, [[event]] * 2)


def test_server_shutdown_ends_delay_with_collected_events(tmp_path: Path) -> None:  # J-H12
    with run_server(tmp_path) as server, ThreadPoolExecutor(1) as pool:
        member = server.organization()
        delayed = start_poll(pool, member, timeout="1h", delay="1h")
        (event,) = publish(member, A)
        wait(member, 0.2)
        server.signal(signal.SIGTERM)
        assert delayed.result(TIMEOUT_S) == non_empty([event])
        assert server.exit_code() == 0
