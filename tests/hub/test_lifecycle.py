"""A hub that is killed loses no acknowledged event. A hub that is stopped answers its requests first."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx

from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import verify_contiguous
from tests.hub.conftest import StartHub, hub_environment
from tests.hub.recording_proxy import RecordingProxy
from tests.server.raw_connection import RawConnection, get, post
from tests.serving import JWT_KEY, ROOT, TIMEOUT_S, Member, Server

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


def test_annals_serve_runs_a_hub(dynamodb_local: str, dynamodb_local_tables: tuple[str, str], tmp_path: Path) -> None:
    environment = {
        **hub_environment(dynamodb_local, dynamodb_local_tables),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "client"),
        "JWT_KEY": JWT_KEY,
        "PORT": "0",
    }
    command = [sys.executable, "-m", "annals_client", "serve"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        greeting = running.stdout.readline()
        log_table, views_table = dynamodb_local_tables
        running.send_signal(signal.SIGTERM)
        assert running.wait(TIMEOUT_S) == 0
    assert greeting.startswith("Annals hub serves http://127.0.0.1:")
    assert greeting.endswith(f", its tables are {log_table} and {views_table}\n")
    assert list(tmp_path.iterdir()) == []
