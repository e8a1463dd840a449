"""A hub that is killed loses no acknowledged event. A hub that is stopped answers its requests first."""

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import httpx

from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import verify_contiguous
from tests.hub.conftest import StartHub
from tests.hub.recording_proxy import RecordingProxy
from tests.server.raw_connection import RawConnection, get, post
from tests.serving import Member, Server

WRITERS = 8
MIN_ACKNOWLEDGED = 60


def test_acknowledged_events_survive_sigkill(start_hub: StartHub, log: DynamoLog) -> None:
    hub = start_hub()
    member = hub.organization()
    acknowledged: list[int] = []

    def write(number: int) -> None:
        with (
            suppress(httpx.HTTPError),
            httpx.Client(base_url=hub.url, headers=member.headers, trust_env=False) as client,
        ):
            while True:
                answer = client.post("/events", json={"events": [{"type": [str(number)]}]})
                assert answer.status_code == 201
                acknowledged.append(answer.json()["eventId"])
                if len(acknowledged) == MIN_ACKNOWLEDGED:
                    hub.signal(signal.SIGKILL)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    assert hub.exit_code() == -signal.SIGKILL
    again = start_hub().member(member.organization)
    again.publish("after")
    stored = [event.event_id for commit in verify_contiguous(Head(1), log.read(1, 0)) for event in commit.events]
    assert len(acknowledged) >= MIN_ACKNOWLEDGED
    assert set(acknowledged) <= set(stored)
    assert len(stored) <= len(acknowledged) + WRITERS + 1
    answer = again.get("/events", params={"limit": len(stored)}).json()
    assert [event["eventId"] for event in answer["eventSnapshots"]] == stored


def test_sigterm_answers_requests_that_wait_for_dynamodb(
    hub: Server, member: Member, proxy: RecordingProxy, log: DynamoLog
) -> None:
    (first,) = member.publish("first")
    with ExitStack() as stack:
        polling, *writing = [stack.enter_context(RawConnection(hub)) for _ in range(WRITERS)]
        polling.send(get(member, f"/events?timeout=1h&types=never&after={first['eventId']}"))
        with proxy.holding("PutItem"):
            for connection in writing:
                connection.send(post(member, "last"))
            proxy.await_held_call()
            assert hub.client.get("/health").status_code == 200
            hub.signal(signal.SIGTERM)
            assert polling.response().json["TYPE"] == "Empty"
        answers = [connection.response() for connection in writing]
        assert {(answer.status, answer.headers["connection"]) for answer in answers} == {(201, "close")}
    assert hub.exit_code() == 0
    assert log.head(1).session == WRITERS
