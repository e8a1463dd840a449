"""The inbox of a user: its messages, permissions, and formats."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import ObserverClient, job

WAIT = "30s"


@pytest.fixture(name="threads")
def a_thread_pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def authored_job(author: str, number: int = 1) -> Json:
    return job("create", number, props={"author": author})


def test_message_contains_observer_text_and_event(anna: ObserverClient) -> None:
    anna.put("inbox", "app")
    anna.publish(job("create", 1, params={"path": "/srv"}))
    anna.wait_until_settled("inbox", 1)
    (message,) = anna.inbox()
    assert message == {
        "eventId": message["eventId"],
        "read": False,
        "observer": "inbox",
        "subject": "Created backup on n1 (#1)",
        "body": message["body"],
        "event": {"server": message["event"]["server"], "session": 1, "instance": 1},
    }
    assert message["body"].splitlines()[0] == "backup #1 on n1 was created"
    assert f"https://annals.example/#/objects/job/1?org={anna.name}" in message["body"]


def test_inbox_contains_only_own_messages(anna: ObserverClient) -> None:
    ben, eve = anna.colleague("ben"), anna.colleague("eve")
    for client in (anna, ben):
        client.put(f"of-{client.member.user}", "app", scope="private")
    anna.put("both", "app", config={"to": "anna, ben"})
    anna.publish(authored_job("anna", 1), authored_job("ben", 2), job("create", 3))
    for name, number in (("of-anna", 1), ("of-ben", 1), ("both", 6)):
        assert anna.wait_until_settled(name, number) == {"sent": number}
    assert sorted(message["observer"] for message in anna.inbox()) == ["both", "both", "both", "of-anna"]
    assert sorted(message["observer"] for message in ben.inbox()) == ["both", "both", "both", "of-ben"]
    assert eve.inbox() == []


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/event-stream"])
def test_inbox_of_another_user_is_for_admins_only(anna: ObserverClient, accept: str) -> None:
    ben = anna.colleague("ben", "readers", "publishers")
    for user in ("anna", "Ben", "ben%20", "ben%2F..%2Fanna", "%2A", "?"):
        answer = ben.member.get(f"/users/{user}/inbox", headers={"Accept": accept}, params={"timeout": 0})
        assert answer.status_code in (403, 404), answer.text
    assert anna.member.get("/users/ben/inbox", params={"timeout": 0}).status_code == 200


def test_inboxes_are_separate_per_organization(anna: ObserverClient) -> None:
    anna.put("inbox", "app")
    anna.publish(job("create"))
    anna.wait_until_settled("inbox", 1)
    other = ObserverClient(anna.member.server.organization(), anna.channels)
    assert (len(anna.inbox()), other.inbox()) == (1, [])


@pytest.mark.parametrize("user", ["anna@example.org", "anna b", "änna", "a/b", "a%b", "a+b"])
def test_inbox_supports_any_user_name(anna: ObserverClient, user: str) -> None:
    somebody = anna.colleague(user)
    somebody.put("mine", "app", scope="private")
    anna.publish(authored_job(user))
    assert anna.wait_until_settled("mine", 1) == {"sent": 1}
    assert [message["observer"] for message in somebody.inbox(quote(user, safe=""))] == ["mine"]


def test_long_poll_wakes_only_for_own_message(anna: ObserverClient, threads: ThreadPoolExecutor) -> None:
    ben = anna.colleague("ben")
    for client in (anna, ben):
        client.put(f"of-{client.member.user}", "app", scope="private")
    waiting: Future[list[Json]] = threads.submit(anna.inbox, after=0, timeout=WAIT)
    anna.publish(authored_job("ben", 1))
    assert anna.wait_until_settled("of-ben", 1) == {"sent": 1}
    assert not waiting.done()
    anna.publish(authored_job("anna", 2))
    (message,) = waiting.result(60)
    assert message["observer"] == "of-anna"


def test_inbox_after_position_returns_later_messages(anna: ObserverClient) -> None:
    anna.put("inbox", "app")
    anna.publish(*(job("create", number) for number in range(5)))
    anna.wait_until_settled("inbox", 5)
    first, second, *rest = anna.inbox()
    assert anna.inbox(after=second["eventId"]) == rest
    assert anna.inbox(limit=1) == [first]


def test_inbox_as_ndjson_streams_new_messages(anna: ObserverClient) -> None:
    anna.put("inbox", "app")
    anna.publish(job("create", 1))
    anna.wait_until_settled("inbox", 1)
    with _open(anna, "application/x-ndjson", timeout=WAIT) as answer:
        lines = (json.loads(line) for line in answer.iter_lines() if line.strip())
        messages = [next(line for line in lines if "observer" in line)]
        anna.publish(job("finish", 1))
        messages.append(next(line for line in lines if "observer" in line))
    assert [message["subject"] for message in messages] == [
        "Created backup on n1 (#1)",
        "Succeeded backup on n1 (#1): done",
    ]


def test_inbox_as_sse_resumes_after_last_event_id(anna: ObserverClient) -> None:
    anna.put("inbox", "app")
    anna.publish(job("create", 1), job("redirect", 1))
    anna.wait_until_settled("inbox", 2)
    with _open(anna, "text/event-stream") as answer:
        first, second = _sent(answer, 2)
    assert (first["data"]["subject"], second["data"]["subject"]) == (
        "Created backup on n1 (#1)",
        "Redirected backup on n1 (#1): to n2",
    )
    assert first["id"] == str(first["data"]["eventId"])
    with _open(anna, "text/event-stream", headers={"Last-Event-ID": first["id"]}) as answer:
        anna.publish(job("finish", 1))
        again, last = _sent(answer, 2)
    assert (again, last["data"]["subject"]) == (second, "Succeeded backup on n1 (#1): done")


def test_inbox_with_invalid_last_event_id_returns_400(anna: ObserverClient) -> None:
    answer = anna.member.get("/users/anna/inbox", headers={"Accept": "text/event-stream", "Last-Event-ID": "nowhere"})
    assert answer.status_code == 400


def _open(anna: ObserverClient, accept: str, headers: dict[str, str] | None = None, **parameters: str) -> Any:
    given = {**anna.member.headers, "Accept": accept, **(headers or {})}
    return anna.member.server.client.stream("GET", "/users/anna/inbox", headers=given, params=parameters)


def _sent(answer: httpx.Response, limit: int) -> list[Json]:
    """Read `limit` server-sent events."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    messages: list[Json] = []
    event: Json = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name in ("id", "data"):
            event[name] = json.loads(value) if name == "data" else value
        if not line and "data" in event:
            messages.append(event)
            event = {}
        if len(messages) == limit:
            break
    return messages
