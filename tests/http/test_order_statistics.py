"""JobScheduler's order statistics, and polls for their changes."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.http.conftest import build_views
from tests.http.scheduler_client import (
    ADDED,
    API,
    ENDED,
    FILE,
    MOVED,
    REMOVED,
    RESUMED,
    STARTED,
    STEP,
    SUSPENDED,
    Json,
    publish,
    query,
)
from tests.serving import TIMEOUT_S, Member, Server


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def statistics(member: Member, path: str = "/") -> Json:
    return query(member, f"{API}/order{path}", **{"return": "OrderStatistics"})


def poll_statistics(member: Member, path: str = "/", **parameters: Any) -> Json:
    return query(member, f"{API}/order{path}", **{"return": "OrderStatisticsChanged", **parameters})


def wait(member: Member, seconds: float) -> None:
    """Wait with a poll that has no result."""
    member.get("/events", params={"types": "never", "timeout": f"{seconds:.3f}s"})


def start_poll(pool: ThreadPoolExecutor, member: Member, path: str = "/", **parameters: Any) -> Future[Json]:
    """A poll for changed statistics, after the server has received it."""
    poll = pool.submit(poll_statistics, member, path, **{"timeout": "60s", **parameters})
    wait(member, 0.2)
    return poll


def changed_event(member: Member, path: str = "/") -> Json:
    """The expected response with the current statistics."""
    counters = statistics(member, path)
    event_id = counters.pop("eventId")
    event = {"eventId": event_id, "TYPE": "OrderStatisticsChanged", "orderStatistics": counters}
    return {"TYPE": "NonEmpty", "eventId": event_id, "eventSnapshots": [event]}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", {"total": 4, "notPlanned": 2, "started": 1, "waitingForResource": 1, "suspended": 1}),
        ("/a/", {"total": 3, "notPlanned": 1, "started": 1, "waitingForResource": 1, "suspended": 1}),
        ("/a/chain", {"total": 2, "notPlanned": 1, "started": 1, "waitingForResource": 1}),
        ("/a/chain,1", {"total": 1, "notPlanned": 1}),
        ("/a/*|/b,1", {"total": 4, "notPlanned": 2, "started": 1, "waitingForResource": 1, "suspended": 1}),
        ("/no/", {}),
        ("/a/chain,99", {}),
    ],
)
def test_statistics_count_orders_of_the_path(path: str, expected: dict[str, int], member: Member) -> None:
    *_, last = publish(
        member,
        {"key": "/a/chain,1", **ADDED},
        {"key": "/a/chain,2", **STARTED},
        {"key": "/a/other,1", **SUSPENDED},
        {"key": "/b,1", **ADDED},
    )
    counters = statistics(member, path)
    assert len(counters) == 15
    assert {name: count for name, count in counters.items() if count} == {"eventId": last["eventId"], **expected}


@pytest.mark.parametrize(
    "events",
    [[ADDED], [STARTED], [REMOVED, ADDED, SUSPENDED], [FILE]],
    ids=["added", "started", "several events", "from a file"],
)
def test_changed_statistics_are_one_event(events: list[Json], member: Member, pool: ThreadPoolExecutor) -> None:
    poll = start_poll(pool, member)
    publish(member, *({"key": "/a/chain,1", **event} for event in events))
    assert poll.result(TIMEOUT_S) == changed_event(member)


def test_poll_ends_only_if_statistics_change(member: Member, pool: ThreadPoolExecutor) -> None:
    publish(member, {"key": "/a/chain,1", **ADDED}, {"key": "/a/chain,2", **STARTED})
    everywhere, in_b = start_poll(pool, member), start_poll(pool, member, "/b/")
    publish(member, {"key": "/a/chain,1", **MOVED}, {"TYPE": "JobUnstopped", "key": "/a"})
    publish(member, {"key": "/a/chain,2", **STEP}, {"key": "/a/chain,2", **ENDED})
    publish(member, {"key": "/a/chain,1", **STARTED}, {"key": "/a/chain,2", **ADDED})
    member.publish("unrelated")
    wait(member, 0.2)
    assert (everywhere.done(), in_b.done()) == (False, False)
    publish(member, {"key": "/a/chain,3", **ADDED})
    assert everywhere.result(TIMEOUT_S) == changed_event(member)
    assert not in_b.done()
    publish(member, {"key": "/b/chain,1", **ADDED})
    assert in_b.result(TIMEOUT_S) == changed_event(member, "/b/")


def test_poll_without_change_is_empty_at_timeout(member: Member) -> None:
    (event,) = publish(member, {"key": "/a/chain,1", **ADDED})
    empty = {"TYPE": "Empty", "eventId": event["eventId"], "lastEventId": event["eventId"]}
    started = time.monotonic()
    assert poll_statistics(member, timeout="0.3s") == empty
    assert time.monotonic() - started >= 0.3
    assert poll_statistics(member) == empty
    assert poll_statistics(member, after=event["eventId"]) == empty
    assert poll_statistics(member, after=event["eventId"] + 10**9) == empty


def test_poll_after_earlier_change_returns_immediately(member: Member) -> None:
    positions = [0, *(publish(member, {"key": f"/a/chain,{n}", **ADDED})[0]["eventId"] for n in range(3))]
    for after in positions[:-1]:
        assert poll_statistics(member, after=after, timeout="60s") == changed_event(member)
    assert poll_statistics(member, after=positions[-1])["TYPE"] == "Empty"


@pytest.mark.parametrize(
    ("events", "unchanged"),
    [
        pytest.param([("1", SUSPENDED), ("1", RESUMED)], [1], id="there and back"),
        pytest.param([("1", REMOVED), ("1", ADDED)], [1], id="removed and added"),
        pytest.param([("2", ADDED), ("1", REMOVED)], [1], id="another in its place"),
        pytest.param([("2", ADDED), ("2", REMOVED)], [1], id="added and removed"),
        pytest.param([("1", STEP), ("1", SUSPENDED), ("1", RESUMED), ("1", ADDED)], [3], id="a long way"),
        pytest.param([("1", MOVED), ("1", MOVED)], [0, 1], id="no change at all"),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["in one commit", "one by one"])
def test_changes_that_cancel_out_are_ignored(
    together: bool, events: list[tuple[str, Json]], unchanged: list[int], member: Member
) -> None:
    (start,) = publish(member, {"key": "/a/chain,1", **ADDED})
    keyed = [{"key": f"/a/chain,{order_id}", **event} for order_id, event in events]
    batches = [keyed] if together else [[event] for event in keyed]
    written = [event for batch in batches for event in publish(member, *batch)]
    last = written[-1]["eventId"]
    empty = {"TYPE": "Empty", "eventId": last, "lastEventId": last}
    assert poll_statistics(member, after=start["eventId"]) == empty
    since = {place: poll_statistics(member, after=event["eventId"]) for place, event in enumerate(written)}
    assert since == {
        place: empty if place in (*unchanged, len(events) - 1) else changed_event(member)
        for place in range(len(events))
    }


@pytest.mark.parametrize("built", [False, True], ids=["before the views are built", "after"])
def test_statistics_are_compared_with_distant_position(built: bool, small: Server) -> None:
    member = small.organization()
    (start,) = publish(member, {"key": "/a/chain,1", **ADDED})
    for n in range(140):
        publish(member, {"key": "/a/chain,1", **(SUSPENDED if n % 2 == 0 else RESUMED)})
    if built:
        build_views(small)
    assert poll_statistics(member, after=start["eventId"])["TYPE"] == "Empty"
    assert poll_statistics(member, after=0) == changed_event(member)
    publish(member, {"key": "/a/chain,1", **SUSPENDED})
    assert poll_statistics(member, after=start["eventId"]) == changed_event(member)


def test_statistics_after_expired_position_are_torn(short_retention: Server) -> None:
    member = short_retention.organization()
    events = publish(member, *({"key": f"/a/chain,{n}", **ADDED} for n in range(4)))
    assert poll_statistics(member, after=0) == {"TYPE": "Torn", "eventId": events[1]["eventId"]}
    assert poll_statistics(member, after=events[1]["eventId"]) == changed_event(member)
    assert statistics(member)["total"] == 4
