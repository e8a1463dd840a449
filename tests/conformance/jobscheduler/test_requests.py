"""JobScheduler's request parameters (J-R)."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.serving import TIMEOUT_S, Member, Server, run_server

API = "/jobscheduler/master/api"
NAMES = ["OrderSuspended", "OrderResumed", "OrderSuspended", "OrderRemoved"]
IMMEDIATE_S = 4.0
"""Maximum duration of a request that does not wait, on a busy machine."""
MAX_POLL_S = 0.25

Json = dict[str, Any]


@pytest.fixture(scope="module")
def orders(server: Server) -> Member:
    """A member whose log contains four events of an order."""
    member = server.organization()
    for name in NAMES:
        publish(member, name)
    return member


@pytest.fixture(scope="module")
def short_poll_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a short maximum poll duration."""
    with run_server(tmp_path_factory.mktemp("short_poll_server"), LONGEST_POLL=str(MAX_POLL_S)) as running:
        yield running


def publish(member: Member, name: str) -> int:
    """Append an event of an order and return its EventId."""
    answer = member.request("POST", "/events/scheduler", json={"TYPE": name, "key": "/chain,1"})
    assert answer.status_code == 201, answer.text
    event_id: int = answer.json()["eventId"]
    return event_id


def get_events(member: Member, query: str) -> Json:
    """Request events. Asserts that the server responds immediately."""
    began = time.monotonic()
    answer = member.get(f"{API}/event?{query}")
    assert answer.status_code == 200, answer.text
    assert time.monotonic() - began < IMMEDIATE_S
    seq: Json = answer.json()
    return seq


def names(seq: Json) -> list[str]:
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
def test_request_parameters_select_events(query: str, expected: list[int], orders: Member) -> None:
    seq = get_events(orders, query)
    assert (seq["TYPE"], names(seq)) == ("NonEmpty", [NAMES[index] for index in expected])


def test_request_with_limit_can_be_continued(orders: Member) -> None:  # J-R03
    returned: list[str] = []
    after = 0
    while (seq := get_events(orders, f"return=OrderSuspended,OrderRemoved&limit=1&after={after}"))[
        "TYPE"
    ] == "NonEmpty":
        returned += names(seq)
        after = seq["eventId"]
    assert returned == ["OrderSuspended", "OrderSuspended", "OrderRemoved"]


@pytest.mark.parametrize("query", ["return=JobEvent&limit=-2", "return=OrderEvent&limit=-2&after={last}"])
@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_newest_events_are_returned_without_waiting(accept: str, query: str, orders: Member) -> None:  # J-R04
    last = get_events(orders, "return=OrderEvent")["eventId"]
    began = time.monotonic()
    answer = orders.get(f"{API}/event?{query.format(last=last)}&timeout=99s", headers={"Accept": accept})
    assert time.monotonic() - began < IMMEDIATE_S
    empty = f'{{"TYPE":"Empty","eventId":{last},"lastEventId":{last}}}'
    assert (answer.status_code, answer.text) == (200, empty if accept == "application/json" else "")


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        pytest.param(
            "limit=0",
            "limit: Invalid limit=0. A positive limit returns the oldest events first, a negative one the newest",
            id="J-R06",
        ),
        pytest.param("limit=", "limit: ", id="J-R07"),
        pytest.param("return=AEvent", "Unrecognized event type: return=AEvent; use Event, ", id="J-R09"),
        pytest.param("return=OrderAdded,AEvent", "Unrecognized event type: return=AEvent; ", id="J-R09/in-a-list"),
        pytest.param("return=orderadded", "Unrecognized event type: return=orderadded; ", id="J-R09/case"),
        *(
            pytest.param(f"{name}={text}", f"{name}: a duration is 60, 60s, ", id=f"J-R11/{name}={text}")
            for name in ("timeout", "delay", "tornOlder", "heartbeat")
            for text in (".1", ".1s", "1d", "-1", "", "1e3", "soon")
        ),
    ],
)
def test_request_with_invalid_parameter_is_rejected(query: str, detail: str, orders: Member) -> None:
    answer = orders.get(f"{API}/event?{query}")
    assert (answer.status_code, answer.json()["detail"][: len(detail)]) == (400, detail)


@pytest.mark.parametrize("timeout", ["1h", "infinite", "PT1H"])
def test_timeout_above_maximum_is_capped(timeout: str, short_poll_server: Server) -> None:  # J-R12
    member = short_poll_server.organization()
    last = publish(member, "OrderSuspended")
    began = time.monotonic()
    seq = get_events(member, f"return=Event&after={last}&timeout={timeout}")
    assert time.monotonic() - began >= MAX_POLL_S
    assert seq == {"TYPE": "Empty", "eventId": last, "lastEventId": last}


def test_infinite_timeout_ends_with_an_event(member: Member) -> None:  # J-R15
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(member.get, f"{API}/event?return=OrderResumed&timeout=infinite")
        publish(member, "OrderSuspended")
        event_id = publish(member, "OrderResumed")
        seq = poll.result(TIMEOUT_S).json()
    event = {"eventId": event_id, "TYPE": "OrderResumed", "key": "/chain,1"}
    assert seq == {"TYPE": "NonEmpty", "eventId": event_id, "eventSnapshots": [event]}
