"""The core feed and JobScheduler's as server-sent events."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conformance.push.push_client import PAGES, SSE, STREAMS, EventSource, Json, pause
from tests.serving import Member, Server, serving

MANNERS = {"streams": STREAMS, "pages": PAGES}
KEPT = 3
TYPES = ["OrderSuspended", "OrderResumed"]


@dataclass
class Feed:
    """One way to ask for events."""

    path: str
    parameters: dict[str, str]

    def source(self, member: Member, last_id: object = "", **parameters: Any) -> EventSource:
        """Somebody who is about to listen."""
        return EventSource(member, self.path, str(last_id), **self.parameters, **parameters)

    def ask(self, member: Member, parameters: Json | None = None, **headers: str) -> httpx.Response:
        """One request."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return member.get(self.path, params={**self.parameters, **(parameters or {})}, headers={**SSE, **given})

    def expected(self, member: Member) -> list[Json]:
        """All events as this feed tells them in one document."""
        found: list[Json] = self.ask(member, Accept="application/json").json()["eventSnapshots"]
        return found


FEEDS = {
    "core": Feed("/events", {}),
    "event": Feed("/jobscheduler/master/api/event", {"return": "Event"}),
    "order": Feed("/jobscheduler/master/api/order/", {"return": "OrderEvent"}),
    "one order": Feed("/jobscheduler/master/api/order/chain,1", {"return": "OrderEvent"}),
}


@pytest.fixture(params=FEEDS)
def feed(request: pytest.FixtureRequest) -> Feed:
    return FEEDS[request.param]


@pytest.fixture(scope="module", params=MANNERS, name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp(request.param), **MANNERS[request.param]) as running:
        yield running


@pytest.fixture(scope="module", params=MANNERS)
def forgetful(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that keeps the last three events of each organization."""
    manner = {**MANNERS[request.param], "RETENTION_EVENTS": str(KEPT)}
    with serving(tmp_path_factory.mktemp("forgetful"), **manner) as running:
        yield running


def orders(member: Member, *names: str) -> list[int]:
    """Append events of an order in one request; their EventIds."""
    events = [{"TYPE": name, "key": "/chain,1"} for name in names]
    answer = member.ask("POST", "/events/scheduler", json={"events": events})
    assert answer.status_code == 201, answer.text
    return [event["eventId"] for event in answer.json()["events"]]


def test_ids_are_event_ids_and_data_is_the_event(feed: Feed, member: Member) -> None:
    ids = orders(member, *TYPES)
    with feed.source(member, after=0) as source:
        events = source.take(2)
        ids += orders(member, *TYPES)
        events += source.take(2)
    assert [(event.name, event.id) for event in events] == [("message", str(event_id)) for event_id in ids]
    assert [event.data for event in events] == feed.expected(member)
    assert [event.data["eventId"] for event in events] == ids


def test_whoever_comes_back_with_the_last_id_gets_what_came_since_whatever_the_query_says(
    feed: Feed, member: Member
) -> None:
    ids = orders(member, *TYPES, *TYPES)
    for after in ({"after": 0}, {"after": ids[3]}, {}):
        with feed.source(member, ids[1], **after) as source:
            assert [event.id for event in source.take(2)] == [str(event_id) for event_id in ids[2:]]


def test_without_an_id_the_feed_begins_after_the_place_asked_for_or_with_the_first(feed: Feed, member: Member) -> None:
    ids = orders(member, *TYPES)
    for after, expected in (({}, ids), ({"after": ids[0]}, ids[1:])):
        with feed.source(member, **after) as source:
            assert [event.id for event in source.take(len(expected))] == [str(event_id) for event_id in expected]
    assert feed.ask(member, {"limit": 1}, Last_Event_ID="").text.startswith(f"id: {ids[0]}\n")


@pytest.mark.parametrize("last_id", ["x", "-1", "1.5", "job-1", "9007199254740992", "1 2", "0x10"])
def test_an_id_that_is_none_is_refused(last_id: str, feed: Feed, member: Member) -> None:
    answer = feed.ask(member, Last_Event_ID=last_id)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"] == f"Last-Event-ID is an eventId of this feed, not '{last_id}'"
    assert feed.ask(member, Last_Event_ID=last_id, Accept="application/json").status_code == 200


@pytest.mark.parametrize("limit", [-1, -5, 0])
def test_a_stream_does_not_go_backwards(limit: int, feed: Feed, member: Member) -> None:
    orders(member, *TYPES)
    answer = feed.ask(member, {"limit": limit})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


def test_a_limit_ends_the_stream(feed: Feed, member: Member) -> None:
    ids = orders(member, *TYPES, *TYPES)
    events = feed.source(member, limit=3).rest()
    assert [event.id for event in events] == [str(event_id) for event_id in ids[:3]]


@pytest.mark.parametrize("timeout", ["0", "0.1s", "PT0.2S"])
def test_a_timeout_ends_the_stream(timeout: str, feed: Feed, member: Member) -> None:
    ids = orders(member, *TYPES)
    source = feed.source(member, timeout=timeout)
    assert [event.id for event in source.rest()] == [str(event_id) for event_id in ids]
    assert feed.source(member, ids[-1], timeout=timeout).rest() == []


@pytest.mark.parametrize("server", ["streams"], indirect=True)
@pytest.mark.parametrize("heartbeat", [{}, {"heartbeat": "0.1s"}], ids=["by default", "as asked for"])
def test_a_stream_stays_open_and_its_heartbeats_are_comments(heartbeat: Json, feed: Feed, member: Member) -> None:
    ids = orders(member, TYPES[0])
    with feed.source(member, **heartbeat) as source:
        assert [event.id for event in source.take(1)] == [str(ids[0])]
        pause(member, 1.5)
        ids += orders(member, TYPES[1])
        assert [event.id for event in source.take(1)] == [str(ids[1])]
    assert source.answers == 1
    assert source.parser.comments == ["keepalive"] * len(source.parser.comments)
    assert len(source.parser.comments) >= (5 if heartbeat else 2)


@pytest.mark.parametrize("server", ["pages"], indirect=True)
def test_a_page_ends_with_when_to_come_back(feed: Feed, member: Member) -> None:
    *_, last = orders(member, *TYPES)
    page = feed.ask(member)
    assert page.text.endswith("}\n\nretry: 1000\n")
    assert feed.ask(member, Last_Event_ID=str(last)).text == "retry: 1000\n"
    assert page.headers["x-accel-buffering"] == "no"


def test_a_tear_is_an_event_from_which_reading_goes_on(feed: Feed, forgetful: Server) -> None:
    member = forgetful.organization()
    ids = orders(member, *TYPES, *TYPES, *TYPES)
    with feed.source(member, ids[0]) as source:
        (tear,) = source.rest()
        assert (tear.name, tear.id, tear.data) == ("Torn", str(ids[2]), {"TYPE": "Torn", "eventId": ids[2]})
        assert [event.id for event in source.take(KEPT)] == [str(event_id) for event_id in ids[KEPT:]]
    with feed.source(member, ids[2]) as source:
        assert [event.id for event in source.take(KEPT)] == [str(event_id) for event_id in ids[KEPT:]]


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
def test_the_client_says_what_it_takes(accept: str | None, member: Member) -> None:
    orders(member, TYPES[0])
    client = member.server.client
    request = client.build_request("GET", "/events", params={"timeout": 0}, headers=member.headers)
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept
    answer = client.send(request)
    assert (answer.status_code, answer.headers["content-type"]) == (200, ACCEPTED[accept])


def test_only_what_is_selected_is_sent(member: Member) -> None:
    events = member.publish("a/b", "c", "a/d")
    with EventSource(member, "/events", types="a/*") as source:
        assert [event.data for event in source.take(2)] == [events[0], events[2]]
        (late,) = [member.publish("c"), member.publish("a")][1]
        assert [event.data for event in source.take(1)] == [late]


def test_when_the_server_ends_the_stream_ends_as_it_should(feed: Feed, tmp_path: Path) -> None:
    with serving(tmp_path, **STREAMS) as server:
        member = server.organization()
        ids = orders(member, *TYPES)
        with feed.source(member) as source:
            assert len(source.take(2)) == 2
            server.signal(signal.SIGTERM)
            assert source.rest() == []
        assert source.parser.last_id == str(ids[-1])
        assert server.exit_code() == 0
