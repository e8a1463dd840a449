"""Read marks of the inbox, over HTTP and with several requests at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import AppMessage
from chalicelib.domain.notifications.read_marks import MAX_UNREAD, READ_TYPE, InboxStatus
from chalicelib.domain.organizations.organization import inbox_log
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.notifications.inbox import ReadMarks
from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import ObserverClient, job
from tests.notifications.sites import Site, open_site


def seq(client: ObserverClient, **parameters: object) -> Json:
    response = client.member.get("/users/anna/inbox", params=parameters)
    assert response.status_code == 200, response.text
    document: Json = response.json()
    return document


def post_read(client: ObserverClient, event_id: int, user: str = "anna") -> Json:
    response = client.member.request("POST", f"/users/{user}/inbox/read", json={"eventId": event_id})
    assert response.status_code == 200, response.text
    document: Json = response.json()
    return document


@pytest.fixture(name="with_messages")
def a_client_with_three_messages(anna: ObserverClient) -> ObserverClient:
    anna.put("inbox", "app", config={"to": "anna, ben"})
    anna.publish(*(job("create", number) for number in range(3)))
    assert anna.wait_until_settled("inbox", 6) == {"sent": 6}
    return anna


def test_read_mark_moves_forward_only(with_messages: ObserverClient) -> None:
    first, second, third = (message["eventId"] for message in with_messages.inbox())
    assert seq(with_messages)["readUpTo"] == 0
    assert post_read(with_messages, second) == {"readUpTo": second, "unread": 1, "moreFollows": False}
    assert post_read(with_messages, first) == {"readUpTo": second, "unread": 1, "moreFollows": False}
    document = seq(with_messages)
    assert document["readUpTo"] == second
    assert [(one["eventId"], one["read"]) for one in document["eventSnapshots"]] == [
        (first, True),
        (second, True),
        (third, False),
    ]
    newest = with_messages.inbox(limit=-2)
    assert [(one["eventId"], one["read"]) for one in newest] == [(third, False), (second, True)]
    with_messages.publish(job("finish", 1))
    with_messages.wait_until_settled("inbox", 8)
    assert with_messages.member.get("/users/anna/inbox/unread").json() == {
        "readUpTo": second,
        "unread": 2,
        "moreFollows": False,
    }


def test_read_mark_is_no_message_and_concerns_one_user(with_messages: ObserverClient) -> None:
    last = with_messages.inbox()[-1]["eventId"]
    post_read(with_messages, last)
    assert seq(with_messages, after=last) == {
        "TYPE": "Empty",
        "eventId": seq(with_messages, after=last)["eventId"],
        "lastEventId": seq(with_messages, after=last)["eventId"],
        "readUpTo": last,
    }
    ben = with_messages.member.get("/users/ben/inbox/unread").json()
    assert ben == {"readUpTo": 0, "unread": 3, "moreFollows": False}


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/event-stream"])
def test_streamed_messages_say_whether_they_are_read(with_messages: ObserverClient, accept: str) -> None:
    post_read(with_messages, with_messages.inbox()[0]["eventId"])
    response = with_messages.member.get("/users/anna/inbox", headers={"Accept": accept}, params={"timeout": "0.1s"})
    assert (response.text.count('"read":true'), response.text.count('"read":false')) == (1, 2)
    assert "readUpTo" not in response.text


@pytest.mark.parametrize(
    "body", [{}, {"eventId": -1}, {"eventId": "x"}, {"eventId": 2**53 - 1}, {"eventId": 1, "x": 1}]
)
def test_invalid_read_mark_returns_400(anna: ObserverClient, body: Json) -> None:
    assert anna.member.request("POST", "/users/anna/inbox/read", json=body).status_code == 400


def test_read_marks_of_another_user_are_for_admins(anna: ObserverClient) -> None:
    ben = anna.colleague("ben")
    assert ben.member.get("/users/anna/inbox/unread").status_code == 403
    assert ben.member.request("POST", "/users/anna/inbox/read", json={"eventId": 0}).status_code == 403
    assert post_read(anna, 0, "ben") == {"readUpTo": 0, "unread": 0, "moreFollows": False}


def put_messages(site: Site, number: int, user: str = "anna") -> list[int]:
    """Put messages in the inbox of a user. Returns the EventIds of all messages."""
    for n in range(number):
        key = f"{user}/{site.components.stores.log.head(inbox_log(site.server)).session}/{n}"
        message = AppMessage(key, site.server, user, "ops", "subject", "body", Id(site.server, 1, 1))
        site.components.notifications.inbox.put(message)
    return [event.event_id for event in inbox_events(site) if event.fields.type == ("inbox", "message")]


def inbox_events(site: Site) -> list[Event]:
    return [event for commit in site.components.stores.log.read(inbox_log(site.server), 0) for event in commit.events]


def marks(site: Site) -> ReadMarks:
    return site.components.notifications.read_marks


def test_repeated_mark_writes_one_event(site: Site) -> None:
    first, second = put_messages(site, 2)
    assert marks(site).mark(site.server, "anna", second).unread == 0
    assert marks(site).mark(site.server, "anna", second).read_up_to == second
    assert marks(site).mark(site.server, "anna", first).read_up_to == second
    assert [event.fields.type for event in inbox_events(site)].count(READ_TYPE) == 1
    with pytest.raises(BadInput, match="beyond the end of the inbox"):
        marks(site).mark(site.server, "anna", inbox_events(site)[-1].event_id + 1)


def test_concurrent_marks_keep_the_greatest(site: Site) -> None:
    """Each thread marks another message, and the last mark in the log is that of the last message."""
    event_ids = put_messages(site, 12)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda event_id: marks(site).mark(site.server, "anna", event_id), reversed(event_ids)))
        list(threads.map(lambda event_id: marks(site).mark(site.server, "ben", event_id), event_ids))
    stored = [event.fields for event in inbox_events(site) if event.fields.type == READ_TYPE]
    for user in ("anna", "ben"):
        positions = [one.payload["data"]["eventId"] for one in stored if one.key == f"/users/{user}/read"]
        assert positions == sorted(positions)
        assert positions[-1] == event_ids[-1]
        assert marks(site).status(site.server, user) == InboxStatus(event_ids[-1], 0, False)


def test_marks_are_found_with_the_views(site: Site) -> None:
    """The same before and after the projector has read the inbox."""
    first, *_ = put_messages(site, 3)
    put_messages(site, 2, "ben")
    marks(site).mark(site.server, "anna", first)
    before = [marks(site).status(site.server, user) for user in ("anna", "ben", "ben/read", "eve")]
    components, log = site.components, inbox_log(site.server)
    catch_up(components.consumers.projector, log, components.stores.log, components.stores.views)
    assert [marks(site).status(site.server, user) for user in ("anna", "ben", "ben/read", "eve")] == before
    assert [(status.read_up_to, status.unread) for status in before] == [(first, 2), (0, 2), (0, 0), (0, 0)]


def test_unread_messages_are_counted_up_to_limit(site: Site) -> None:
    event_ids = put_messages(site, MAX_UNREAD + 5)
    assert marks(site).status(site.server, "anna") == InboxStatus(0, MAX_UNREAD, True)
    assert marks(site).mark(site.server, "anna", event_ids[2]).has_more
    assert marks(site).mark(site.server, "anna", event_ids[5]) == InboxStatus(event_ids[5], MAX_UNREAD - 1, False)


def test_expired_messages_are_not_unread(tmp_path: Path) -> None:
    now_ms = [1_700_000_000_000]
    with open_site(tmp_path / "site", lambda: now_ms[0], RETENTION="P1D") as site:
        put_messages(site, 3)
        assert marks(site).status(site.server, "anna").unread == 3
        now_ms[0] += 2 * 24 * 3600 * 1000
        put_messages(site, 1)
        assert marks(site).status(site.server, "anna").unread == 1
