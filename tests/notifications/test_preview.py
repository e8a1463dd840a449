"""What an observer would say, before it says anything; and one message to try it."""

from typing import Any

import httpx
import pytest

from tests.notifications.narration import Teller, job
from tests.notifications.outside import Json, eventually, text_of
from tests.serving import new_name

MAIL = {"channel": "mail", "config": {"to": "ops@example.org"}}


def asked(anna: Teller, configuration: Json, event: object = None, name: str = "new") -> httpx.Response:
    body = {"configuration": configuration, **({} if event is None else {"event": event})}
    return anna.ask("POST", f"{name}/preview", body)


def preview(anna: Teller, channel: str = "mail", /, event: object = None, **more: Any) -> Json:
    """What an observer that is not there yet would say."""
    answer = asked(anna, anna.configuration(channel, **more), event)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def judged(found: Json) -> tuple[bool, str | None]:
    return found["wouldTell"], found["why"]


def test_a_mail_is_shown_as_it_would_be_sent(anna: Teller) -> None:
    anna.publish(job("create"), job("finish", message="all copied"))
    address = f"{anna.address}, second@example.org"
    found = preview(anna, config={"to": address})
    assert judged(found) == (True, None)
    assert found["event"]["type"] == ["job", "finish", "n1", "backup"]
    message = found["message"]
    assert list(message) == ["subject", "text", "html", "to"]
    assert message["to"] == [anna.address, "second@example.org"]
    anna.put("ops", config={"to": address})
    anna.publish(job("create", 2), job("finish", 2, message="all copied"))
    (sent,) = eventually(lambda: [one for one in anna.world.mails(anna.address) if "finish" in str(one["Subject"])])
    assert message["subject"] == sent["Subject"]
    assert "all copied" in message["text"]
    assert "all copied" in message["html"]
    assert "all copied" in text_of(sent)


def test_an_event_of_the_empty_type_is_told_of_like_any_other(anna: Teller) -> None:
    anna.member.publish("")
    found = preview(anna)
    assert (found["event"]["type"], judged(found)) == ([], (True, None))


def test_a_post_to_slack_is_shown_as_json_without_its_address(anna: Teller) -> None:
    anna.publish(job("create"))
    found = preview(anna, "slack")
    assert list(found["message"]) == ["json"]
    assert found["message"]["json"]["attachments"][0]["title"].startswith("Job created")
    assert anna.world.slack.url(anna.channel) not in str(found)


def test_a_message_in_the_app_is_shown_with_its_users(anna: Teller) -> None:
    anna.publish(job("create"))
    found = preview(anna, "app", config={"to": "anna, ben"})
    assert found["message"].keys() == {"subject", "body", "users"}
    assert found["message"]["users"] == ["anna", "ben"]


def test_the_event_is_the_latest_that_the_observer_is_about_or_the_one_named(anna: Teller) -> None:
    anna.publish(job("create"), job("create", 2))
    anna.publish(job("finish"))
    anna.member.publish("noise")
    assert preview(anna, events="create")["event"]["key"] == "/job/2"
    assert preview(anna)["event"]["type"] == ["noise"]
    first = preview(anna, events="finish")["event"]["id"] | {"session": 1, "instance": 1}
    for event in (first, ".".join(map(str, first.values()))):
        assert preview(anna, event=event)["event"]["key"] == "/job/1"


def test_why_nobody_would_be_told_is_said_and_the_message_is_shown_all_the_same(anna: Teller) -> None:
    anna.publish(job("create", props={"silent": "1"}))
    anna.publish(job("create", 2, props={"nomail": "1", "noslack": "1"}))
    anna.publish(job("progress", 2))
    event = preview(anna)["event"]["id"]
    quiet, unmailed = event | {"session": 1}, event | {"session": 2}
    cases: list[tuple[Json, str]] = [
        (preview(anna, filter="event.id == 99"), "filter does not hold"),
        (preview(anna), "mail tells no progress, unless mail_progress is set"),
        (preview(anna, event=quiet), "the event or its job is silent"),
        (preview(anna, event=unmailed), "the event or its job wants no mail"),
        (preview(anna, "slack", event=unmailed), "the event or its job wants no Slack"),
        (preview(anna, event=quiet, events="finish"), "the event's type is none of the observer's"),
        (preview(anna, "app", scope="private"), "the event is dedicated neither to the observer nor to anna"),
    ]
    assert [judged(found) for found, _ in cases] == [(False, why) for _, why in cases]
    assert all(found["message"] for found, _ in cases)


def test_an_event_dedicated_to_the_user_of_a_private_observer_would_be_told(anna: Teller) -> None:
    anna.publish(job("create", props={"author": "anna"}))
    assert judged(preview(anna, "app", scope="private")) == (True, None)


def test_a_filter_that_fails_is_a_mistake_told_in_its_own_words(anna: Teller) -> None:
    anna.publish(job("create"))
    answer = asked(anna, anna.configuration(filter="event.id // 0"))
    assert (answer.status_code, answer.json()["detail"][:12]) == (400, "the filter: ")
    assert "by zero" in answer.json()["detail"]


def test_nothing_is_sent_and_nothing_is_kept(anna: Teller) -> None:
    anna.publish(job("create"))
    preview(anna)
    assert anna.member.get("/observers").json() == {"observers": []}
    assert anna.ask("GET", "new").status_code == 404
    assert anna.world.mails(anna.address) == []


def test_an_observer_that_is_there_is_previewed_with_what_it_would_become(anna: Teller) -> None:
    anna.put("ops", "app", events="create")
    anna.publish(job("create"))
    answer = asked(anna, anna.configuration("app", filter="false"), name="ops")
    assert judged(answer.json()) == (False, "filter does not hold")
    assert "filter" not in anna.ask("GET", "ops").json()


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
def test_what_could_not_be_put_cannot_be_previewed(anna: Teller, body: Json, detail: str) -> None:
    anna.publish(job("create"))
    answer = anna.ask("POST", "new/preview", body)
    assert (answer.status_code, answer.json()["detail"][: len(detail)]) == (400, detail)


def test_an_event_that_is_not_there_is_not_found(anna: Teller) -> None:
    answer = asked(anna, MAIL)
    assert (answer.status_code, "publish one" in answer.json()["detail"]) == (404, True)
    anna.publish(job("create"))
    here = preview(anna)["event"]["id"]
    for event in (here | {"instance": 2}, here | {"instance": 0}, here | {"session": 9}, here | {"server": 1}):
        assert asked(anna, MAIL, event).status_code == 404, event


def test_who_may_not_put_an_observer_may_not_preview_it(anna: Teller) -> None:
    anna.publish(job("create"))
    anna.put("ops", "app")
    ben, publisher = anna.other("ben"), anna.other("carl", "publishers")
    private = {"channel": "app", "scope": "private"}
    assert asked(ben, MAIL).status_code == 403
    assert asked(ben, private | {"user": "anna"}).status_code == 403
    assert asked(ben, private, name="ops").status_code == 403
    assert asked(publisher, private).status_code == 403
    assert asked(ben, private).status_code == 200
    assert anna.member.server.client.post("/observers/new/preview", json={}).status_code == 401
    stranger = anna.member.server.member(new_name())
    assert stranger.ask("POST", "/observers/new/preview", json={"configuration": MAIL}).status_code == 404


def test_a_test_by_mail_arrives_at_every_address_and_says_that_it_is_one(anna: Teller) -> None:
    anna.publish(job("create"), job("finish", message="tried"))
    second = f"second-{anna.address}"
    anna.put("ops", events="finish", filter="false", config={"to": f"{anna.address},{second}"})
    answer = anna.ask("POST", "ops/test")
    assert (answer.status_code, answer.json()) == (200, {"sent": True})
    for address in (anna.address, second):
        (mail,) = anna.world.mails(address)
        assert (mail["Subject"][:7], "tried" in text_of(mail)) == ("[Test] ", True)
    assert anna.deliveries("ops") == {"waiting": 0, "parked": 0, "sent": 0, "dropped": 0}


def test_each_test_in_the_app_is_a_message_of_its_own(anna: Teller) -> None:
    anna.publish(job("create"), job("create", 2))
    anna.put("mine", "app", scope="private")
    for event in (None, None):
        assert anna.ask("POST", "mine/test", event).status_code == 200
    named = {"event": preview(anna)["event"]["id"] | {"instance": 1}}
    assert anna.ask("POST", "mine/test", named).status_code == 200
    found = anna.inbox(after=0)
    assert [(one["subject"][:7], one["event"]["instance"]) for one in found] == [("[Test] ", 2)] * 2 + [("[Test] ", 1)]


def test_a_test_in_slack_is_marked_above_its_message(anna: Teller) -> None:
    anna.publish(job("create"))
    anna.put("posts", "slack")
    assert anna.ask("POST", "posts/test").json() == {"sent": True}
    (post,) = anna.world.slack.posts[f"/{anna.channel}"]
    assert (post["text"], post["attachments"][0]["title"][:11]) == ("[Test]", "Job created")


def test_what_a_channel_does_not_take_is_told_with_its_reason(anna: Teller) -> None:
    anna.publish(job("create"))
    anna.put("posts", "slack")
    anna.world.slack.answer(anna.channel, iter(["503 Busy"]))
    answer = anna.ask("POST", "posts/test")
    assert (answer.status_code, answer.json()["title"]) == (502, "Bad Gateway")
    assert "503" in answer.json()["detail"]
    assert anna.channel not in answer.json()["detail"]


def test_only_an_observer_that_is_there_and_one_s_own_can_be_tried(anna: Teller) -> None:
    anna.publish(job("create"))
    anna.put("ops", "app")
    ben = anna.other("ben")
    ben.put("mine", "app", scope="private")
    assert anna.ask("POST", "nobody/test").status_code == 404
    assert ben.ask("POST", "ops/test").status_code == 404
    assert anna.other("carl").ask("POST", "mine/test").status_code == 404
    assert anna.other("carl", "publishers").ask("POST", "ops/test").status_code == 403
    assert anna.member.server.client.post("/observers/ops/test").status_code == 401
    assert ben.ask("POST", "mine/test").status_code == 200


@pytest.mark.parametrize(("body", "status"), [({"event": "x"}, 400), ({"more": 1}, 400), ({"event": "1.1.1"}, 404)])
def test_a_test_of_what_is_not_there_is_refused(anna: Teller, body: Json, status: int) -> None:
    anna.put("ops", "app")
    assert anna.ask("POST", "ops/test", body).status_code == status
    assert anna.ask("POST", "ops/test").status_code == 404
