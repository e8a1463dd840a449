"""Followers on a hub: woken at once by its own commits, and by one poll per log by the commits of others."""

import json
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from chalicelib.adapters.dynamodb.log import DynamoLog
from infra.server.hub import Hub
from tests.hub.conftest import StartHub
from tests.hub.recording_proxy import RecordingProxy
from tests.server.raw_connection import RawConnection, get
from tests.serving import Member, Server

ROOT = Path(__file__).parents[2]
FOLLOWERS = 25
WRITER = """
import sys
from chalicelib.domain.log.append import Append
from chalicelib.services.clock import wall_clock
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.direct_appends import DirectAppends
from tests.torture.stores import DynamoStore

endpoint, log_table, views_table = sys.argv[1:]
text = '{"type":["theirs"],"key":null,"sourceTimestamp":null,"payload":null}'
with DynamoStore(endpoint, log_table, views_table).open() as log:
    appended = DirectAppends(Appender(log, wall_clock)).append(Append(1, (text,), "theirs"))
    print(appended.commit.last_event_id)
"""


def write_in_another_process(endpoint: str, tables: tuple[str, str]) -> int:
    """Append one event as a Lambda function does, and return its EventId."""
    done = subprocess.run(
        [sys.executable, "-c", WRITER, endpoint, *tables], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_follower_sees_event_of_another_process(
    hub: Server, member: Member, dynamodb_local: str, dynamodb_local_tables: tuple[str, str]
) -> None:
    (first,) = member.publish("ours")
    headers = {**member.headers, "Accept": "text/event-stream"}
    with RawConnection(hub) as polling:
        polling.send(get(member, f"/events?timeout=30s&after={first['eventId']}"))
        with hub.client.stream("GET", f"/events?timeout=30s&after={first['eventId']}", headers=headers) as stream:
            event_id = write_in_another_process(dynamodb_local, dynamodb_local_tables)
            line = next(line for line in stream.iter_lines() if line.startswith("data: "))
            assert json.loads(line.removeprefix("data: "))["eventId"] == event_id
        assert [event["eventId"] for event in polling.response().json["eventSnapshots"]] == [event_id]


def test_followers_of_one_log_share_one_poll(start_hub: StartHub, proxy: RecordingProxy) -> None:
    """Idle streams send keep-alives, and none of them asks DynamoDB whether there is something new."""
    hub = start_hub(KEEP_ALIVE_TIME="0.1", RETENTION="P1D")
    member = hub.organization()
    (first,) = member.publish("a")
    with ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(hub)) for _ in range(FOLLOWERS)]
        for connection in connections:
            connection.send(get(member, f"/events?timeout=60s&after={first['eventId']}", Accept="text/event-stream"))
            connection.read_until(b":keepalive")
        proxy.forget_calls()
        began = time.monotonic()
        await_polls(proxy, 8)
        elapsed_s, queries = time.monotonic() - began, proxy.calls("Query")
        assert all(map(is_poll, queries))
        assert len(queries) <= elapsed_s / Hub.refresh_interval_s + 1
        assert proxy.calls("GetItem") == proxy.calls("BatchGetItem") == []
        # The hub has the commit in memory, so no follower reads the store.
        with proxy.holding("Query"):
            events = member.publish("b") + member.publish("c")
            for connection in connections:
                for event in events:
                    connection.read_until(b"data: ")
                    assert json.loads(connection.read_until(b"\n")) == event


def test_log_without_followers_is_not_polled(hub: Server, member: Member, proxy: RecordingProxy) -> None:
    (first,) = member.publish("a")
    with RawConnection(hub) as polling:
        polling.send(get(member, f"/events?timeout=30s&after={first['eventId']}"))
        await_polls(proxy, 1)
        member.publish("b")
        assert polling.response().status == 200
    other = hub.organization()
    proxy.forget_calls()
    with RawConnection(hub) as polling:
        polling.send(get(other, "/events?timeout=30s"))
        await_polls(proxy, 4)
    servers = {query["ExpressionAttributeValues"][":server"]["N"] for query in proxy.calls("Query") if is_poll(query)}
    assert servers == {"2"}


def test_follower_sees_events_of_two_hubs_in_order(
    hub: Server, member: Member, start_hub: StartHub, log: DynamoLog
) -> None:
    other = start_hub().member(member.organization)
    (first,) = member.publish("start")
    headers = {**member.headers, "Accept": "text/event-stream"}
    with hub.client.stream("GET", f"/events?timeout=60s&after={first['eventId']}", headers=headers) as stream:
        lines = stream.iter_lines()
        writers = [threading.Thread(target=publish_often, args=(each,)) for each in (member, other)]
        for writer in writers:
            writer.start()
        seen: list[dict[str, Any]] = []
        while len(seen) < 40:
            seen += [json.loads(line.removeprefix("data: ")) for line in [next(lines)] if line.startswith("data: ")]
        for writer in writers:
            writer.join()
    assert [event["position"] for event in seen] == list(range(2, 42))
    assert seen[-1]["eventId"] == log.head(1).last_event_id


def publish_often(member: Member) -> None:
    for _ in range(20):
        member.publish("a")


def is_poll(query: dict[str, object]) -> bool:
    return query.get("ProjectionExpression") == "#session"


def await_polls(proxy: RecordingProxy, number: int) -> None:
    """Return after this many further polls."""
    for _ in range(number):
        proxy.await_call(is_poll)
