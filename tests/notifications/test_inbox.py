"""The inbox: what users were told in the app, as it comes, and nothing of anybody else's."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.notifications.narration import Teller, job
from tests.notifications.outside import Json

WAIT = "30s"


@pytest.fixture(name="elsewhere")
def a_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def mine(author: str, number: int = 1) -> Json:
    return job("create", number, props={"author": author})


def test_a_message_says_who_tells_what_about_which_event(anna: Teller) -> None:
    anna.put("told", "app")
    anna.publish(job("create", 1, params={"path": "/srv"}))
    anna.settled("told", 1)
    (message,) = anna.inbox()
    assert message == {
        "eventId": message["eventId"],
        "observer": "told",
        "subject": "Job created",
        "body": message["body"],
        "event": {"server": message["event"]["server"], "session": 1, "instance": 1},
    }
    assert message["body"].splitlines()[0] == "backup #1 on n1 was created"
    assert "https://annals.example/jobs/1" in message["body"]


def test_each_user_finds_only_their_own_messages(anna: Teller) -> None:
    ben, eve = anna.other("ben"), anna.other("eve")
    for teller in (anna, ben):
        teller.put(f"of-{teller.member.user}", "app", scope="private")
    anna.put("both", "app", config={"to": "anna, ben"})
    anna.publish(mine("anna", 1), mine("ben", 2), job("create", 3))
    for name, number in (("of-anna", 1), ("of-ben", 1), ("both", 6)):
        assert anna.settled(name, number) == {"sent": number}
    assert sorted(one["observer"] for one in anna.inbox()) == ["both", "both", "both", "of-anna"]
    assert sorted(one["observer"] for one in ben.inbox()) == ["both", "both", "both", "of-ben"]
    assert eve.inbox() == []


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/event-stream"])
def test_nobody_reads_anothers_inbox_but_admins(anna: Teller, accept: str) -> None:
    ben = anna.other("ben", "readers", "publishers")
    for user in ("anna", "Ben", "ben%20", "ben%2F..%2Fanna", "%2A", "?"):
        answer = ben.member.get(f"/users/{user}/inbox", headers={"Accept": accept}, params={"timeout": 0})
        assert answer.status_code in (403, 404), answer.text
    assert anna.member.get("/users/ben/inbox", params={"timeout": 0}).status_code == 200


def test_the_inboxes_of_organizations_are_apart(anna: Teller) -> None:
    anna.put("told", "app")
    anna.publish(job("create"))
    anna.settled("told", 1)
    other = Teller(anna.member.server.organization(), anna.world)
    assert (len(anna.inbox()), other.inbox()) == (1, [])


@pytest.mark.parametrize("user", ["anna@example.org", "anna b", "änna", "a/b", "a%b", "a+b"])
def test_users_of_any_name_have_an_inbox(anna: Teller, user: str) -> None:
    somebody = anna.other(user)
    somebody.put("mine", "app", scope="private")
    anna.publish(mine(user))
    assert anna.settled("mine", 1) == {"sent": 1}
    assert [one["observer"] for one in somebody.inbox(quote(user, safe=""))] == ["mine"]


def test_who_waits_is_woken_by_their_own_message_alone(anna: Teller, elsewhere: ThreadPoolExecutor) -> None:
    ben = anna.other("ben")
    for teller in (anna, ben):
        teller.put(f"of-{teller.member.user}", "app", scope="private")
    waiting: Future[list[Json]] = elsewhere.submit(anna.inbox, after=0, timeout=WAIT)
    anna.publish(mine("ben", 1))
    assert anna.settled("of-ben", 1) == {"sent": 1}
    assert not waiting.done()
    anna.publish(mine("anna", 2))
    (message,) = waiting.result(60)
    assert message["observer"] == "of-anna"


def test_an_inbox_is_followed_from_where_one_was(anna: Teller) -> None:
    anna.put("told", "app")
    anna.publish(*(job("create", number) for number in range(5)))
    anna.settled("told", 5)
    first, second, *rest = anna.inbox()
    assert anna.inbox(after=second["eventId"]) == rest
    assert anna.inbox(limit=1) == [first]


def test_an_inbox_comes_as_lines_while_it_grows(anna: Teller) -> None:
    anna.put("told", "app")
    anna.publish(job("create", 1))
    anna.settled("told", 1)
    with _open(anna, "application/x-ndjson", timeout=WAIT) as answer:
        lines = (json.loads(line) for line in answer.iter_lines() if line.strip())
        found = [next(line for line in lines if "observer" in line)]
        anna.publish(job("finish", 1))
        found.append(next(line for line in lines if "observer" in line))
    assert [one["subject"] for one in found] == ["Job created", "Job finished"]


def test_an_inbox_comes_as_server_sent_events_and_goes_on_where_it_broke_off(anna: Teller) -> None:
    anna.put("told", "app")
    anna.publish(job("create", 1), job("redirect", 1))
    anna.settled("told", 2)
    with _open(anna, "text/event-stream") as answer:
        first, second = _sent(answer, 2)
    assert (first["data"]["subject"], second["data"]["subject"]) == ("Job created", "Job redirected")
    assert first["id"] == str(first["data"]["eventId"])
    with _open(anna, "text/event-stream", headers={"Last-Event-ID": first["id"]}) as answer:
        anna.publish(job("finish", 1))
        again, last = _sent(answer, 2)
    assert (again, last["data"]["subject"]) == (second, "Job finished")


def test_a_position_that_is_none_is_refused(anna: Teller) -> None:
    answer = anna.member.get("/users/anna/inbox", headers={"Accept": "text/event-stream", "Last-Event-ID": "nowhere"})
    assert answer.status_code == 400


def _open(anna: Teller, accept: str, headers: dict[str, str] | None = None, **parameters: str) -> Any:
    given = {**anna.member.headers, "Accept": accept, **(headers or {})}
    return anna.member.server.client.stream("GET", "/users/anna/inbox", headers=given, params=parameters)


def _sent(answer: httpx.Response, most: int) -> list[Json]:
    """So many server-sent events."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    found: list[Json] = []
    event: Json = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name in ("id", "data"):
            event[name] = json.loads(value) if name == "data" else value
        if not line and "data" in event:
            found.append(event)
            event = {}
        if len(found) == most:
            break
    return found
