"""The core feed and JobScheduler's as server-sent events."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conformance.push.push_client import PAGES, SSE, STREAMS, EventSource, Json, wait
from tests.serving import Member, Server, run_server

MODES = {"streams": STREAMS, "pages": PAGES}
MAX_EVENTS = 3
TYPES = ["OrderSuspended", "OrderResumed"]


@dataclass
class Feed:
    """A path and parameters that return events."""

    path: str
    parameters: dict[str, str]

    def source(self, member: Member, last_id: object = "", **parameters: Any) -> EventSource:
        return EventSource(member, self.path, str(last_id), **self.parameters, **parameters)

    def get(self, member: Member, parameters: Json | None = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return member.get(self.path, params={**self.parameters, **(parameters or {})}, headers={**SSE, **named})

    def expected(self, member: Member) -> list[Json]:
        """All events, requested as a single JSON document."""
        events: list[Json] = self.get(member, Accept="application/json").json()["eventSnapshots"]
        return events


FEEDS = {
    "core": Feed("/events", {}),
    "event": Feed("/jobscheduler/master/api/event", {"return": "Event"}),
    "order": Feed("/jobscheduler/master/api/order/", {"return": "OrderEvent"}),
    "one order": Feed("/jobscheduler/master/api/order/chain,1", {"return": "OrderEvent"}),
}


@pytest.fixture(params=FEEDS)
def feed(request: pytest.FixtureRequest) -> Feed:
    return FEEDS[request.param]


@pytest.fixture(scope="module", params=MODES, name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp(request.param), **MODES[request.param]) as running:
        yield running


@pytest.fixture(scope="module", params=MODES)
def retention_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose retention keeps the last three events of each organization."""
    settings = {**MODES[request.param], "RETENTION_EVENTS": str(MAX_EVENTS)}
    with run_server(tmp_path_factory.mktemp("retention_server"), **settings) as running:
        yield running


def publish_orders(member: Member, *names: str) -> list[int]:
    """Append events of an order in one request and return their EventIds."""
    events = [{"TYPE": name, "key": "/chain,1"} for name in names]
    answer = member.request("POST", "/events/scheduler", json={"events": events})
    assert answer.status_code == 201, answer.text
    return [event["eventId"] for event in answer.json()["events"]]


def test_stream_ids_are_event_ids_and_data_is_the_event(feed: Feed, member: Member) -> None:
    ids = publish_orders(member, *TYPES)
    with feed.source(member, after=0) as source:
        events = source.read(2)
        ids += publish_orders(member, *TYPES)
        events += source.read(2)
    assert [(event.name, event.id) for event in events] == [("message", str(event_id)) for event_id in ids]
    assert [event.data for event in events] == feed.expected(member)
    assert [event.data["eventId"] for event in events] == ids


def test_stream_last_event_id_takes_precedence_over_after(feed: Feed, member: Member) -> None:
    ids = publish_orders(member, *TYPES, *TYPES)
    for after in ({"after": 0}, {"after": ids[3]}, {}):
        with feed.source(member, ids[1], **after) as source:
            assert [event.id for event in source.read(2)] == [str(event_id) for event_id in ids[2:]]


def test_stream_without_id_starts_at_after_or_first_event(feed: Feed, member: Member) -> None:
    ids = publish_orders(member, *TYPES)
    for after, expected in (({}, ids), ({"after": ids[0]}, ids[1:])):
        with feed.source(member, **after) as source:
            assert [event.id for event in source.read(len(expected))] == [str(event_id) for event_id in expected]
    assert feed.get(member, {"limit": 1}, Last_Event_ID="").text.startswith(f"id: {ids[0]}\n")


@pytest.mark.parametrize("last_id", ["x", "-1", "1.5", "job-1", "9007199254740992", "1 2", "0x10"])
def test_stream_invalid_last_event_id_is_rejected(last_id: str, feed: Feed, member: Member) -> None:
    answer = feed.get(member, Last_Event_ID=last_id)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"] == f"Last-Event-ID must be an eventId of this feed, not '{last_id}'"
    assert feed.get(member, Last_Event_ID=last_id, Accept="application/json").status_code == 200


@pytest.mark.parametrize("limit", [-1, -5, 0])
def test_stream_non_positive_limit_is_rejected(limit: int, feed: Feed, member: Member) -> None:
    publish_orders(member, *TYPES)
    answer = feed.get(member, {"limit": limit})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


def test_stream_ends_at_limit(feed: Feed, member: Member) -> None:
    ids = publish_orders(member, *TYPES, *TYPES)
    events = feed.source(member, limit=3).read_to_end()
    assert [event.id for event in events] == [str(event_id) for event_id in ids[:3]]


@pytest.mark.parametrize("timeout", ["0", "0.1s", "PT0.2S"])
def test_stream_ends_at_timeout(timeout: str, feed: Feed, member: Member) -> None:
    ids = publish_orders(member, *TYPES)
    source = feed.source(member, timeout=timeout)
    assert [event.id for event in source.read_to_end()] == [str(event_id) for event_id in ids]
    assert feed.source(member, ids[-1], timeout=timeout).read_to_end() == []


@pytest.mark.parametrize("server", ["streams"], indirect=True)
@pytest.mark.parametrize("heartbeat", [{}, {"heartbeat": "0.1s"}], ids=["default", "as requested"])
def test_stream_stays_open_and_sends_heartbeat_comments(heartbeat: Json, feed: Feed, member: Member) -> None:
    ids = publish_orders(member, TYPES[0])
    with feed.source(member, **heartbeat) as source:
        assert [event.id for event in source.read(1)] == [str(ids[0])]
        wait(member, 1.5)
        ids += publish_orders(member, TYPES[1])
        assert [event.id for event in source.read(1)] == [str(ids[1])]
    assert source.connection_count == 1
    assert source.parser.comments == ["keepalive"] * len(source.parser.comments)
    assert len(source.parser.comments) >= (5 if heartbeat else 2)


@pytest.mark.parametrize("server", ["pages"], indirect=True)
def test_page_ends_with_retry(feed: Feed, member: Member) -> None:
    *_, last = publish_orders(member, *TYPES)
    page = feed.get(member)
    assert page.text.endswith("}\n\nretry: 1000\n")
    assert feed.get(member, Last_Event_ID=str(last)).text == "retry: 1000\n"
    assert page.headers["x-accel-buffering"] == "no"


def test_stream_torn_is_an_event_and_reading_resumes(feed: Feed, retention_server: Server) -> None:
    member = retention_server.organization()
    ids = publish_orders(member, *TYPES, *TYPES, *TYPES)
    with feed.source(member, ids[0]) as source:
        (torn,) = source.read_to_end()
        assert (torn.name, torn.id, torn.data) == ("Torn", str(ids[2]), {"TYPE": "Torn", "eventId": ids[2]})
        assert [event.id for event in source.read(MAX_EVENTS)] == [str(event_id) for event_id in ids[MAX_EVENTS:]]
    with feed.source(member, ids[2]) as source:
        assert [event.id for event in source.read(MAX_EVENTS)] == [str(event_id) for event_id in ids[MAX_EVENTS:]]


ACCEPTED = {
    None: "application/json",
    "*/*": "application/json",
    "application/json": "application/json",
    "application/*": "application/json",
    "text/event-stream": "text/event-stream",
    "Text/Event-Stream": "text/event-stream",
    "text/*": "text/event-stream",
    "text/event-stream, */*": "text/event-stream",
    "text/event-stream, */*;q=0.5": "text/event-stream",
    "application/json;q=0.5, text/event-stream;q=0.6": "text/event-stream",
    "application/json, text/event-stream;q=0.9": "application/json",
    "application/json, text/event-stream": "application/json",
    "text/event-stream;q=0": "application/json",
    "text/event-stream;q=0, */*": "application/json",
    "application/x-ndjson, text/event-stream;q=0.9": "application/x-ndjson",
    "application/json;q=0, text/*;q=0.1": "text/event-stream",
    "text/html,application/xhtml+xml,*/*;q=0.8": "application/json",
    ";;,=,/": "application/json",
}


@pytest.mark.parametrize("accept", ACCEPTED, ids=str)
def test_feed_content_type_follows_accept_header(accept: str | None, member: Member) -> None:
    publish_orders(member, TYPES[0])
    client = member.server.client
    request = client.build_request("GET", "/events", params={"timeout": 0}, headers=member.headers)
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept
    answer = client.send(request)
    assert (answer.status_code, answer.headers["content-type"]) == (200, ACCEPTED[accept])


def test_stream_sends_only_selected_events(member: Member) -> None:
    events = member.publish("a/b", "c", "a/d")
    with EventSource(member, "/events", types="a/*") as source:
        assert [event.data for event in source.read(2)] == [events[0], events[2]]
        (late,) = [member.publish("c"), member.publish("a")][1]
        assert [event.data for event in source.read(1)] == [late]


def test_server_shutdown_ends_stream_cleanly(feed: Feed, tmp_path: Path) -> None:
    with run_server(tmp_path, **STREAMS) as server:
        member = server.organization()
        ids = publish_orders(member, *TYPES)
        with feed.source(member) as source:
            assert len(source.read(2)) == 2
            server.signal(signal.SIGTERM)
            assert source.read_to_end() == []
        assert source.parser.last_id == str(ids[-1])
        assert server.exit_code() == 0
