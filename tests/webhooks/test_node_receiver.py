"""Webhooks of a real server, verified by npm's `standardwebhooks` in a real receiver."""

from tests.notifications.observer_client import job
from tests.serving import Server
from tests.webhooks.conftest import NodeReceiver


def test_node_receiver_verifies_signed_cloud_event(server: Server, receiver: NodeReceiver) -> None:
    member = server.organization()
    configuration = {"channel": "webhook", "events": "finish", "config": {"url": receiver.url}}
    put = member.request("PUT", "/observers/hook", json=configuration)
    assert put.status_code == 201, put.text
    receiver.set_secret(put.json()["config"]["secret"])
    events = [job("create"), job("finish", success="0", message="Platte voll: “/” ✗")]
    assert member.request("POST", "/events/job", json={"events": events}).status_code == 201
    result = receiver.read()
    assert (result.get("error"), result["method"]) == (None, "POST")
    assert result["headers"]["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert result["event"]["type"] == "annals.job.finish.n1.backup"
    assert result["event"]["data"]["event"]["message"] == "Platte voll: “/” ✗"
    assert result["headers"]["webhook-id"] == result["event"]["id"].replace(".", ":")


def test_node_receiver_refuses_event_signed_with_other_secret(server: Server, receiver: NodeReceiver) -> None:
    member = server.organization()
    configuration = {"channel": "webhook", "config": {"url": receiver.url}}
    assert member.request("PUT", "/observers/hook", json=configuration).status_code == 201
    receiver.set_secret("whsec_" + "A" * 32)
    assert member.request("POST", "/events/job", json={"events": [job("create")]}).status_code == 201
    assert receiver.read()["error"] == "No matching signature found"
