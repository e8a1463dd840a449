"""Webhooks of a real server: signed CloudEvents, retries, and secrets that are never returned."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib.domain.notifications.secret_fields import MASK
from chalicelib.domain.notifications.webhook_signature import format_secret
from tests.notifications.fake_channels import Json, eventually
from tests.notifications.observer_client import ObserverClient, job
from tests.notifications.webhook_receiver import WebhookReceiver, run_receiver
from tests.serving import run_server

SECRET = format_secret(b"0123456789abcdef0123456789abcdef")


@pytest.fixture(name="receiver")
def a_receiver() -> Iterator[WebhookReceiver]:
    with run_receiver() as receiver:
        yield receiver


def put_hook(anna: ObserverClient, receiver: WebhookReceiver, name: str = "hook", **more: Any) -> Json:
    config = {"url": receiver.url, **more.pop("config", {})}
    return anna.put(name, "webhook", config=config, **more)


def test_webhook_receives_signed_cloud_event(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    secret = put_hook(anna, receiver, events="finish")["config"]["secret"]
    anna.publish(job("create", 7), job("finish", 7, success="0", message="disk full"))
    (body,) = receiver.verified(secret)
    data = body.pop("data")
    time, event_id = body.pop("time"), body.pop("id")
    assert body == {
        "specversion": "1.0",
        "source": f"https://annals.example/organizations/{anna.name}",
        "type": "annals.job.finish.n1.backup",
        "subject": "/job/7",
        "datacontenttype": "application/json",
    }
    assert (time[-1], event_id.endswith("/hook")) == ("Z", True)
    assert (data["dedupKey"], data["action"]) == (f"{anna.name}/backup", "trigger")
    assert data["link"] == f"https://annals.example/#/objects/job/7?org={anna.name}"
    assert (data["observer"], data["organization"]) == ("hook", anna.name)
    event = data["event"]
    assert (event["event"], event["id"], event["message"]) == ("finish", 7, "disk full")
    assert anna.wait_until_settled("hook", 1) == {"sent": 1}


def test_success_after_failure_resolves_same_key(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    put_hook(anna, receiver, events="finish")
    anna.publish(job("create", 1), job("finish", 1, success="0"), job("create", 2), job("finish", 2))
    data = [body["data"] for body in receiver.bodies(2)]
    assert sorted((one["event"]["id"], one["dedupKey"], one["action"]) for one in data) == [
        (1, f"{anna.name}/backup", "trigger"),
        (2, f"{anna.name}/backup", "resolve"),
    ]


def test_recovered_alarm_resolves_expectation(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    put_hook(anna, receiver, types=["job/missed/*", "job/recovered/*"])
    for kind in ("missed", "recovered"):
        payload = {"type": "json", "data": {"expectation": "nightly", "type": "backup"}}
        event = {"type": ["job", kind, "", "backup"], "key": "/expectation/nightly", "payload": payload}
        anna.member.post({"events": [event]})
    bodies = receiver.bodies(2)
    assert [(body["type"], body["data"]["dedupKey"], body["data"]["action"]) for body in bodies] == [
        ("annals.job.missed..backup", f"{anna.name}/nightly", "trigger"),
        ("annals.job.recovered..backup", f"{anna.name}/nightly", "resolve"),
    ]


def test_event_of_other_vocabulary_is_sent_whole(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    put_hook(anna, receiver, types=["weather/*"])
    payload = {"type": "json", "data": {"celsius": 3.5}}
    anna.member.post({"events": [{"type": ["weather", "reading"], "payload": payload}]})
    (body,) = receiver.bodies()
    event = body["data"]["event"]
    assert (body["type"], event["type"], event["payload"]) == (
        "annals.weather.reading",
        ["weather", "reading"],
        payload,
    )
    assert body.keys() & {"subject"} | body["data"].keys() & {"action", "dedupKey", "link"} == set()


def test_retries_have_same_id_and_body(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    receiver.answers = iter(["500 Oops", "204 No Content"])
    secret = put_hook(anna, receiver)["config"]["secret"]
    anna.publish(job("create"))
    first, second = receiver.verified(secret, 2)
    assert first == second
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1
    assert anna.wait_until_settled("hook", 1) == {"sent": 1}


@pytest.mark.parametrize("answer", ["410 Gone", "301 Moved\r\nLocation: https://example.org/"])
def test_final_refusal_parks_delivery(anna: ObserverClient, receiver: WebhookReceiver, answer: str) -> None:
    receiver.answers = iter([answer])
    put_hook(anna, receiver)
    anna.publish(job("create"))
    (failure,) = anna.failures("hook")
    assert (failure["tries"], failure["error"].partition(" answered ")[2][:3]) == (1, answer[:3])
    assert "SECRET" not in failure["error"]


def test_rate_limit_postpones_without_try(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    receiver.answers = iter(["503 Busy\r\nRetry-After: 60"])
    put_hook(anna, receiver)
    anna.publish(job("create"))
    receiver.bodies()
    assert anna.deliveries("hook") == {"waiting": 1, "parked": 0, "sent": 0, "dropped": 0}


def test_generated_secret_is_returned_once(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    first = put_hook(anna, receiver)
    assert first["config"]["secret"].startswith("whsec_")
    again = put_hook(anna, receiver, events="finish")
    with_mask = put_hook(anna, receiver, config={"secret": MASK})
    listed = anna.member.get("/observers").json()["observers"][0]
    shown = [again, with_mask, anna.request("GET", "hook").json(), listed]
    assert [one["config"]["secret"] for one in shown] == [MASK] * 4
    anna.publish(job("create"))
    assert receiver.verified(first["config"]["secret"])


def test_given_secret_is_used_and_never_returned(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    put_hook(anna, receiver)
    assert put_hook(anna, receiver, config={"secret": SECRET})["config"]["secret"] == MASK
    anna.publish(job("create"))
    assert receiver.verified(SECRET)


def test_secret_is_not_kept_for_other_channel(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    first = put_hook(anna, receiver)["config"]["secret"]
    anna.put("hook", "app")
    assert put_hook(anna, receiver)["config"]["secret"] not in (first, MASK)


def test_preview_and_test_show_event_and_no_secret(anna: ObserverClient, receiver: WebhookReceiver) -> None:
    anna.publish(job("create"))
    body = {"configuration": anna.configuration("webhook", config={"url": receiver.url, "secret": SECRET})}
    preview = anna.request("POST", "hook/preview", body)
    assert preview.json()["message"]["json"]["data"]["event"]["event"] == "create"
    assert (SECRET in preview.text, "tokenSECRET" in preview.text) == (False, False)
    put_hook(anna, receiver, config={"secret": SECRET})
    assert anna.request("POST", "hook/test").json() == {"sent": True}
    (sent,) = receiver.verified(SECRET)
    assert (sent["data"]["test"], "/hook/test-" in sent["id"]) == (True, True)


def test_secrets_are_in_no_log_and_no_template(anna: ObserverClient, receiver: WebhookReceiver, tmp_path: Path) -> None:
    """The template of an app message that shows its configuration, which was that of a webhook before."""
    templates = tmp_path / "templates"
    (templates / "app").mkdir(parents=True)
    (templates / "app" / "create.body.j2").write_text("{{ config|tojson }}")
    receiver.answers = iter(["410 tokenSECRET"])
    with run_server(tmp_path / "data", WEBHOOK_HOSTS="127.0.0.1", TEMPLATES_PATH=str(templates)) as server:
        other = ObserverClient(server.organization(), anna.channels)
        put_hook(other, receiver, config={"secret": SECRET})
        other.put("people", "app", config={"to": "anna", "url": receiver.url, "secret": SECRET, "urls": SECRET})
        other.publish(job("create"))
        (message,) = eventually(lambda: other.inbox("anna", after=0))
        other.failures("hook")
        assert " parked after " in server.output
        assert (message["body"].strip(), SECRET in server.output) == ('{"to": "anna"}', False)
        assert "tokenSECRET" not in server.output


def test_observers_file_needs_secret(tmp_path: Path, anna: ObserverClient) -> None:
    path = tmp_path / "observers.yaml"
    url = "https://example.org/x"
    path.write_text(f"observers: {{hook: {{channel: webhook, config: {{url: '{url}', secret: '{SECRET}'}}}}}}")
    with run_server(tmp_path / "data", OBSERVERS_FILE=str(path)) as server:
        observer = ObserverClient(server.member("local"), anna.channels).request("GET", "hook").json()
        assert observer["config"] == {"url": url, "secret": MASK}
    path.write_text(f"observers: {{other: {{channel: webhook, config: {{url: '{url}'}}}}}}")
    with (
        pytest.raises(Exception, match=r"other: config.secret: a webhook needs one"),
        run_server(tmp_path / "data", OBSERVERS_FILE=str(path)),
    ):
        pass
