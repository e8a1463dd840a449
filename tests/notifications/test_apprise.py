"""Apprise on a real server: one delivery per URL, and URLs that are never returned."""

from collections.abc import Iterator

import pytest

from chalicelib.domain.notifications.secret_fields import MASK
from tests.notifications.observer_client import ObserverClient, job
from tests.notifications.webhook_receiver import WebhookReceiver, run_receiver


@pytest.fixture(name="receivers")
def two_receivers() -> Iterator[tuple[WebhookReceiver, WebhookReceiver]]:
    with run_receiver() as first, run_receiver() as second:
        yield first, second


def json_url(receiver: WebhookReceiver, token: str = "tokenSECRET") -> str:
    return f"json://127.0.0.1:{receiver.port}/{token}"


def test_each_url_gets_message(anna: ObserverClient, receivers: tuple[WebhookReceiver, WebhookReceiver]) -> None:
    anna.put("ops", "apprise", events="finish", config={"urls": [json_url(one) for one in receivers]})
    anna.publish(job("create"), job("finish", success="0", message="disk full"))
    for receiver in receivers:
        (body,) = receiver.bodies()
        assert (body["title"], body["type"]) == ("FAILED backup on n1 (#1): disk full", "failure")
    assert anna.wait_until_settled("ops", 2) == {"sent": 2}


def test_failing_url_delays_no_other(anna: ObserverClient, receivers: tuple[WebhookReceiver, WebhookReceiver]) -> None:
    receivers[0].answers = iter(["404 No Such Token tokenSECRET"])
    anna.put("ops", "apprise", config={"urls": [json_url(one) for one in receivers]})
    anna.publish(job("create"))
    assert anna.wait_until_settled("ops", 2) == {"parked": 1, "sent": 1}
    (failure,) = anna.failures("ops")
    assert (failure["address"], "error=404" in failure["error"]) == ("json 1", True)
    assert "SECRET" not in str(failure)
    assert anna.request("POST", "ops/retry").json() == {"retried": 1}
    assert anna.wait_until_settled("ops", 2) == {"sent": 2}


def test_urls_are_masked_and_kept(anna: ObserverClient, receivers: tuple[WebhookReceiver, WebhookReceiver]) -> None:
    masks = [f"json://{MASK}/1", f"json://{MASK}/2"]
    put = anna.put("ops", "apprise", config={"urls": [json_url(one) for one in receivers]})
    again = anna.put("ops", "apprise", events="create", config={"urls": masks[1:]})
    listed = anna.member.get("/observers").json()["observers"][0]
    assert put["config"]["urls"] == masks
    assert [one["config"]["urls"] for one in (again, listed, anna.request("GET", "ops").json())] == [masks[:1]] * 3
    anna.publish(job("create"))
    receivers[1].bodies()
    assert receivers[0].requests == []
    assert "tokenSECRET" not in anna.member.server.output


def test_unknown_mask_is_refused(anna: ObserverClient) -> None:
    answer = anna.request("PUT", "ops", {"channel": "apprise", "config": {"urls": [f"json://{MASK}/1"]}})
    assert (answer.status_code, "stands for no stored URL" in answer.json()["detail"]) == (400, True)


def test_preview_and_test_of_apprise(anna: ObserverClient, receivers: tuple[WebhookReceiver, WebhookReceiver]) -> None:
    anna.publish(job("create"))
    configuration = anna.configuration("apprise", config={"urls": json_url(receivers[0])})
    preview = anna.request("POST", "ops/preview", {"configuration": configuration})
    assert preview.json()["message"].keys() == {"subject", "body"}
    assert "tokenSECRET" not in preview.text
    anna.request("PUT", "ops", configuration)
    assert anna.request("POST", "ops/test").json() == {"sent": True}
    (body,) = receivers[0].bodies()
    assert body["title"] == "[Test] Created backup on n1 (#1)"


def test_private_observer_may_use_apprise(anna: ObserverClient) -> None:
    ben = anna.colleague("ben")
    put = ben.put("mine", "apprise", scope="private", config={"urls": ["discord://1234567890/tokenSECRET"]})
    assert put["config"]["urls"] == [f"discord://{MASK}/1"]
