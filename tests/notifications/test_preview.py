"""Previews and test messages of observers."""

from typing import Any

import httpx
import pytest

from tests.notifications.fake_channels import Json, eventually, mail_text
from tests.notifications.observer_client import ObserverClient, job
from tests.serving import new_organization_name

MAIL = {"channel": "mail", "config": {"to": "ops@example.org"}}


def request_preview(
    anna: ObserverClient, configuration: Json, event: object = None, name: str = "new"
) -> httpx.Response:
    body = {"configuration": configuration, **({} if event is None else {"event": event})}
    return anna.request("POST", f"{name}/preview", body)


def preview(anna: ObserverClient, channel: str = "mail", /, event: object = None, **more: Any) -> Json:
    """Preview a message of an observer that does not exist yet."""
    answer = request_preview(anna, anna.configuration(channel, **more), event)
    assert answer.status_code == 200, answer.text
    result: Json = answer.json()
    return result


def verdict(result: Json) -> tuple[bool, str | None]:
    return result["wouldTell"], result["why"]


def test_preview_of_mail_equals_sent_mail(anna: ObserverClient) -> None:
    anna.publish(job("create"), job("finish", message="all copied"))
    address = f"{anna.address}, second@example.org"
    result = preview(anna, config={"to": address})
    assert verdict(result) == (True, None)
    assert result["event"]["type"] == ["job", "finish", "n1", "backup"]
    message = result["message"]
    assert list(message) == ["subject", "text", "html", "to"]
    assert message["to"] == [anna.address, "second@example.org"]
    anna.put("ops", config={"to": address})
    anna.publish(job("create", 2), job("finish", 2, message="all copied"))
    (sent,) = eventually(
        lambda: [mail for mail in anna.channels.mails(anna.address) if "Succeeded" in str(mail["Subject"])]
    )
    assert message["subject"] == str(sent["Subject"]).replace("#2", "#1") == "Succeeded backup on n1 (#1): all copied"
    assert "all copied" in message["text"]
    assert "all copied" in message["html"]
    assert "all copied" in mail_text(sent)


def test_preview_of_event_with_empty_type_succeeds(anna: ObserverClient) -> None:
    anna.member.publish("")
    result = preview(anna)
    assert (result["event"]["type"], verdict(result)) == ([], (True, None))


def test_preview_of_slack_hides_webhook_url(anna: ObserverClient) -> None:
    anna.publish(job("create"))
    result = preview(anna, "slack")
    assert list(result["message"]) == ["json"]
    assert result["message"]["json"]["attachments"][0]["title"].startswith("Created backup on n1 (#1)")
    assert anna.channels.slack.url(anna.slack_channel) not in str(result)


def test_preview_of_app_message_lists_users(anna: ObserverClient) -> None:
    anna.publish(job("create"))
    result = preview(anna, "app", config={"to": "anna, ben"})
    assert result["message"].keys() == {"subject", "body", "users"}
    assert result["message"]["users"] == ["anna", "ben"]


def test_preview_uses_named_or_latest_matching_event(anna: ObserverClient) -> None:
    anna.publish(job("create"), job("create", 2))
    anna.publish(job("finish"))
    anna.member.publish("noise")
    assert preview(anna, events="create")["event"]["key"] == "/job/2"
    assert preview(anna)["event"]["type"] == ["noise"]
    first = preview(anna, events="finish")["event"]["id"] | {"session": 1, "instance": 1}
    for event in (first, ".".join(map(str, first.values()))):
        assert preview(anna, event=event)["event"]["key"] == "/job/1"


def test_preview_uses_latest_event_that_is_sent(anna: ObserverClient) -> None:
    anna.publish(job("create"), job("create", 2))
    anna.publish(job("finish", success="0", message="disk full"))
    anna.publish(job("finish", 2))
    failures = {"events": "finish", "filter": 'event.success != "1"'}
    result = preview(anna, **failures)
    assert (result["event"]["key"], verdict(result)) == ("/job/1", (True, None))
    anna.put("failures", **failures)
    assert anna.request("POST", "failures/test").json() == {"sent": True}
    assert anna.channels.subjects(anna.address) == ["[Test] FAILED backup on n1 (#1): disk full"]


def test_preview_returns_skip_reason_and_message(anna: ObserverClient) -> None:
    anna.publish(job("create", props={"silent": "1"}))
    anna.publish(job("create", 2, props={"nomail": "1", "noslack": "1"}))
    anna.publish(job("progress", 2))
    event = preview(anna, events="progress")["event"]["id"]
    quiet, unmailed = event | {"session": 1}, event | {"session": 2}
    cases: list[tuple[Json, str]] = [
        (preview(anna, filter="event.id == 99"), "the filter does not match the event"),
        (preview(anna, events="progress"), "progress is mailed only if mail_progress is set"),
        (preview(anna, event=quiet), "the event or its job is marked silent"),
        (preview(anna, event=unmailed), "the event or its job is marked nomail"),
        (preview(anna, "slack", event=unmailed), "the event or its job is marked noslack"),
        (preview(anna, event=quiet, events="finish"), "the observer does not match the type of the event"),
        (preview(anna, "app", scope="private"), "the event is addressed neither to the observer nor to anna"),
    ]
    assert [verdict(result) for result, _ in cases] == [(False, why) for _, why in cases]
    assert all(result["message"] for result, _ in cases)


def test_preview_of_event_addressed_to_user_would_be_sent(anna: ObserverClient) -> None:
    anna.publish(job("create", props={"author": "anna"}))
    assert verdict(preview(anna, "app", scope="private")) == (True, None)


def test_preview_with_failing_filter_returns_400(anna: ObserverClient) -> None:
    anna.publish(job("create"))
    answer = request_preview(anna, anna.configuration(filter="event.id // 0"))
    assert (answer.status_code, answer.json()["detail"][:12]) == (400, "the filter: ")
    assert "by zero" in answer.json()["detail"]


def test_preview_sends_and_stores_nothing(anna: ObserverClient) -> None:
    anna.publish(job("create"))
    preview(anna)
    assert anna.member.get("/observers").json() == {"observers": [], "moreFollows": False}
    assert anna.request("GET", "new").status_code == 404
    assert anna.channels.mails(anna.address) == []


def test_preview_of_existing_observer_uses_new_configuration(anna: ObserverClient) -> None:
    anna.put("ops", "app", events="create")
    anna.publish(job("create"))
    answer = request_preview(anna, anna.configuration("app", filter="false"), name="ops")
    assert verdict(answer.json()) == (False, "the filter does not match the event")
    assert "filter" not in anna.request("GET", "ops").json()


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "configuration: missing"),
        ({"configuration": {"channel": "fax"}}, "configuration.channel: "),
        ({"configuration": {"channel": "mail"}}, "No origin or destination address"),
        ({"configuration": {**MAIL, "filter": "("}}, ""),
        ({"configuration": MAIL, "event": "7"}, "event: an event id is written"),
        ({"configuration": MAIL, "more": 1}, "more: unknown field"),
    ],
)
def test_preview_of_invalid_configuration_returns_400(anna: ObserverClient, body: Json, detail: str) -> None:
    anna.publish(job("create"))
    answer = anna.request("POST", "new/preview", body)
    assert (answer.status_code, answer.json()["detail"][: len(detail)]) == (400, detail)


def test_preview_of_unknown_event_returns_404(anna: ObserverClient) -> None:
    answer = request_preview(anna, MAIL)
    assert (answer.status_code, "publish one" in answer.json()["detail"]) == (404, True)
    anna.publish(job("create"))
    here = preview(anna)["event"]["id"]
    for event in (here | {"instance": 2}, here | {"instance": 0}, here | {"session": 9}, here | {"server": 1}):
        assert request_preview(anna, MAIL, event).status_code == 404, event


def test_preview_needs_permission_to_put_observer(anna: ObserverClient) -> None:
    anna.publish(job("create"))
    anna.put("ops", "app")
    ben, publisher = anna.colleague("ben"), anna.colleague("carl", "publishers")
    private = {"channel": "app", "scope": "private"}
    assert request_preview(ben, MAIL).status_code == 403
    assert request_preview(ben, private | {"user": "anna"}).status_code == 403
    assert request_preview(ben, private, name="ops").status_code == 403
    assert request_preview(publisher, private).status_code == 403
    assert request_preview(ben, private).status_code == 200
    assert anna.member.server.client.post("/observers/new/preview", json={}).status_code == 401
    stranger = anna.member.server.member(new_organization_name())
    assert stranger.request("POST", "/observers/new/preview", json={"configuration": MAIL}).status_code == 404


def test_test_mail_is_sent_to_every_address_and_marked(anna: ObserverClient) -> None:
    anna.publish(job("create"), job("finish", message="tried"))
    second = f"second-{anna.address}"
    anna.put("ops", events="finish", filter="false", config={"to": f"{anna.address},{second}"})
    answer = anna.request("POST", "ops/test")
    assert (answer.status_code, answer.json()) == (200, {"sent": True})
    for address in (anna.address, second):
        (mail,) = anna.channels.mails(address)
        assert (mail["Subject"][:7], "tried" in mail_text(mail)) == ("[Test] ", True)
    assert anna.deliveries("ops") == {"waiting": 0, "parked": 0, "sent": 0, "dropped": 0}


def test_test_app_messages_are_stored_separately(anna: ObserverClient) -> None:
    anna.publish(job("create"), job("create", 2))
    anna.put("mine", "app", scope="private")
    for event in (None, None):
        assert anna.request("POST", "mine/test", event).status_code == 200
    named = {"event": preview(anna)["event"]["id"] | {"instance": 1}}
    assert anna.request("POST", "mine/test", named).status_code == 200
    result = anna.inbox(after=0)
    assert [(one["subject"][:7], one["event"]["instance"]) for one in result] == [("[Test] ", 2)] * 2 + [("[Test] ", 1)]


def test_test_slack_message_is_marked(anna: ObserverClient) -> None:
    anna.publish(job("create"))
    anna.put("posts", "slack")
    assert anna.request("POST", "posts/test").json() == {"sent": True}
    (post,) = anna.channels.slack.posts[f"/{anna.slack_channel}"]
    assert (post["text"], post["attachments"][0]["title"]) == ("[Test]", "Created backup on n1 (#1)")


def test_test_rejected_by_channel_returns_502_with_reason(anna: ObserverClient) -> None:
    anna.publish(job("create"))
    anna.put("posts", "slack")
    anna.channels.slack.respond_with(anna.slack_channel, iter(["503 Busy"]))
    answer = anna.request("POST", "posts/test")
    assert (answer.status_code, answer.json()["title"]) == (502, "Bad Gateway")
    assert "503" in answer.json()["detail"]
    assert anna.slack_channel not in answer.json()["detail"]


def test_test_needs_existing_and_manageable_observer(anna: ObserverClient) -> None:
    anna.publish(job("create"))
    anna.put("ops", "app")
    ben = anna.colleague("ben")
    ben.put("mine", "app", scope="private")
    assert anna.request("POST", "nobody/test").status_code == 404
    assert ben.request("POST", "ops/test").status_code == 404
    assert anna.colleague("carl").request("POST", "mine/test").status_code == 404
    assert anna.colleague("carl", "publishers").request("POST", "ops/test").status_code == 403
    assert anna.member.server.client.post("/observers/ops/test").status_code == 401
    assert ben.request("POST", "mine/test").status_code == 200


@pytest.mark.parametrize(("body", "status"), [({"event": "x"}, 400), ({"more": 1}, 400), ({"event": "1.1.1"}, 404)])
def test_test_of_unknown_event_is_refused(anna: ObserverClient, body: Json, status: int) -> None:
    anna.put("ops", "app")
    assert anna.request("POST", "ops/test", body).status_code == status
    assert anna.request("POST", "ops/test").status_code == 404
