"""JobScheduler's request parameters (J-R)."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.serving import PATIENCE_S, Member, Server, serving

API = "/jobscheduler/master/api"
NAMES = ["OrderSuspended", "OrderResumed", "OrderSuspended", "OrderRemoved"]
AT_ONCE_S = 4.0
"""What does not wait takes no longer than this, on a machine that others load too."""
LONGEST_POLL_S = 0.25

Json = dict[str, Any]


@pytest.fixture(scope="module")
def orders(server: Server) -> Member:
    """Somebody in whose log are four events of an order."""
    member = server.organization()
    for name in NAMES:
        published(member, name)
    return member


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with which nobody waits long."""
    with serving(tmp_path_factory.mktemp("impatient"), LONGEST_POLL=str(LONGEST_POLL_S)) as running:
        yield running


def published(member: Member, name: str) -> int:
    """Append an event of an order; its EventId."""
    answer = member.ask("POST", "/events/scheduler", json={"TYPE": name, "key": "/chain,1"})
    assert answer.status_code == 201, answer.text
    event_id: int = answer.json()["eventId"]
    return event_id


def asked(member: Member, query: str) -> Json:
    """The answer to a request for events, which has to come at once."""
    began = time.monotonic()
    answer = member.get(f"{API}/event?{query}")
    assert answer.status_code == 200, answer.text
    assert time.monotonic() - began < AT_ONCE_S
    seq: Json = answer.json()
    return seq


def names(seq: Json) -> list[str]:
    """The types of the events."""
    return [event["TYPE"] for event in seq.get("eventSnapshots", [])]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("return=OrderSuspended&timeout=60&limit=999&after=7", [0, 2], id="J-R01"),
        pytest.param("return=OrderEvent", [0, 1, 2, 3], id="J-R02"),
        pytest.param("return=OrderEvent&limit=2&after=0", [0, 1], id="J-R03"),
        pytest.param("return=OrderEvent&limit=-2&after=0", [3, 2], id="J-R04"),
        pytest.param("return=OrderEvent&limit=-2", [3, 2], id="J-R04/without-after"),
        pytest.param("return=OrderSuspended&limit=-1", [2], id="J-R04/of-a-type"),
        pytest.param("return=OrderEvent&limit=-99&after=0", [3, 2, 1, 0], id="J-R04/all"),
        pytest.param("return=OrderEvent&limit=3", [0, 1, 2], id="J-R08"),
        pytest.param("return=OrderResumed&after=1", [1], id="J-R13"),
        pytest.param("return=OrderSuspended&delay=0.77&timeout=88&limit=99&after=66&tornOlder=1h", [0, 2], id="J-R14"),
        pytest.param("return=OrderSuspended&timeout=infinite", [0, 2], id="J-R15"),
        pytest.param("return=OrderSuspended&delay=infinite", [0, 2], id="J-R15/delay"),
        *(
            pytest.param(
                f"return=OrderResumed&timeout={duration}&delay={duration}&tornOlder=1h", [1], id=f"J-R10/{duration}"
            )
            for duration in ("1", "60s", "0.123s", "PT0.123S", "1m", "1h2m3s", "P1d", "PT1M", "999999999999")
        ),
    ],
)
def test_a_request_is_understood(query: str, expected: list[int], orders: Member) -> None:
    seq = asked(orders, query)
    assert (seq["TYPE"], names(seq)) == ("NonEmpty", [NAMES[place] for place in expected])


def test_a_request_with_a_limit_can_be_continued(orders: Member) -> None:  # J-R03
    found: list[str] = []
    after = 0
    while (seq := asked(orders, f"return=OrderSuspended,OrderRemoved&limit=1&after={after}"))["TYPE"] == "NonEmpty":
        found += names(seq)
        after = seq["eventId"]
    assert found == ["OrderSuspended", "OrderSuspended", "OrderRemoved"]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        pytest.param(
            "limit=0",
            "limit: Invalid limit=0; a positive limit is the oldest first, a negative one the newest first",
            id="J-R06",
        ),
        pytest.param("limit=", "limit: ", id="J-R07"),
        pytest.param("return=AEvent", "Unrecognized event type: return=AEvent; known are Event, ", id="J-R09"),
        pytest.param("return=OrderAdded,AEvent", "Unrecognized event type: return=AEvent; ", id="J-R09/in-a-list"),
        pytest.param("return=orderadded", "Unrecognized event type: return=orderadded; ", id="J-R09/case"),
        *(
            pytest.param(f"{name}={text}", f"{name}: a duration is 60, 60s, ", id=f"J-R11/{name}={text}")
            for name in ("timeout", "delay", "tornOlder", "heartbeat")
            for text in (".1", ".1s", "1d", "-1", "", "1e3", "soon")
        ),
    ],
)
def test_a_request_that_means_nothing_is_rejected(query: str, detail: str, orders: Member) -> None:
    answer = orders.get(f"{API}/event?{query}")
    assert (answer.status_code, answer.json()["detail"][: len(detail)]) == (400, detail)


@pytest.mark.parametrize("timeout", ["1h", "infinite", "PT1H"])
def test_a_timeout_above_the_cap_is_silently_capped(timeout: str, impatient: Server) -> None:  # J-R12
    member = impatient.organization()
    last = published(member, "OrderSuspended")
    began = time.monotonic()
    seq = asked(member, f"return=Event&after={last}&timeout={timeout}")
    assert time.monotonic() - began >= LONGEST_POLL_S
    assert seq == {"TYPE": "Empty", "eventId": last, "lastEventId": last}


def test_an_infinite_timeout_ends_with_an_event(member: Member) -> None:  # J-R15
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(member.get, f"{API}/event?return=OrderResumed&timeout=infinite")
        published(member, "OrderSuspended")
        event_id = published(member, "OrderResumed")
        seq = poll.result(PATIENCE_S).json()
    event = {"eventId": event_id, "TYPE": "OrderResumed", "key": "/chain,1"}
    assert seq == {"TYPE": "NonEmpty", "eventId": event_id, "eventSnapshots": [event]}
