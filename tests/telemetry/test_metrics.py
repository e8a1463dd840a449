"""Metrics of functions, in CloudWatch's embedded metric format."""

import json
from pathlib import Path
from typing import Any

import pytest

import app
from chalicelib import wiring
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import Append
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.delivery_message import DeliveryMessage
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.services.log.appender import Appender
from chalicelib.telemetry import MetricCollector
from chalicelib.wiring import Components
from tests.adapters.aws.endpoints import response_dropping_proxy
from tests.telemetry.lambda_runner import FailingClient, Lambda, Output, check_embedded_metrics, message, request

EVENTS = Path(__file__).parent.parent / "events"
TWO_EVENTS = {"events": [{"type": ["a"]}, {"type": ["b"], "key": "/b"}]}


def stream_event(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


def delivery(observer: str, address: str = "", session: int = 1) -> str:
    """A message of the outbox queue: notify an observer about the first event of a session."""
    event = Id(1, session, 1)
    return DeliveryMessage(Delivery(f"{event}/{observer}", 1, observer, event, "", address)).text


def post(aws: Lambda, body: object = TWO_EVENTS) -> Output:
    """Post events and return the output."""
    aws.read_output()
    response = aws.api(request("POST", "/events", body))
    assert response["statusCode"] == 201, response
    return aws.read_output()


def append_as_other_writer(components: Components) -> None:
    """Append to the log of acme as another writer."""
    Appender(components.stores.log, components.clock).append(Append(1, ('{"type":["other"]}',), "other"))


def unavailable() -> Exception:
    return Unavailable("DynamoDB cannot be reached: timed out")


def test_append_measures_commits_events_and_units(aws: Lambda) -> None:
    post(aws)
    written = post(aws)
    (line,) = written.lines
    check_embedded_metrics(line)
    assert written.metrics == {"WriteUnits": 1, "Commits": 1, "Events": 2}
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["stack"]]
    assert line["stack"] == "annals-test"


def test_append_with_key_costs_what_a_plain_append_costs(aws: Lambda) -> None:
    post(aws)
    aws.api(request("POST", "/events", TWO_EVENTS, headers={"idempotency-key": "k1"}))
    measured = aws.read_output().metrics
    assert (measured["Commits"], measured["Events"], measured["WriteUnits"]) == (1, 2, 1)


def test_append_after_other_writer_measures_conflict(aws: Lambda, components: Components) -> None:
    post(aws)
    append_as_other_writer(components)
    measured = post(aws).metrics
    assert (measured["Conflicts"], measured["Commits"], measured["Events"]) == (1, 1, 2)
    assert "Conflicts" not in post(aws).metrics


def test_append_retried_after_unavailable_measures_retry(aws: Lambda, components: Components) -> None:
    post(aws)
    log: Any = components.stores.log
    log._client = FailingClient(log._client, "PutItem", unavailable, times=1)
    measured = post(aws).metrics
    assert (measured["Retries"], measured["Commits"]) == (1, 1)


def test_append_retried_by_client_measures_retry(
    aws: Lambda, ministack: str, components: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(aws)
    with response_dropping_proxy(ministack) as (endpoint, dropped):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        wiring.get_components.cache_clear()
        measured = post(aws).metrics
    assert (dropped, measured["Retries"], measured["Commits"]) == ([200], 1, 1)
    assert components.stores.log.head(1).session == 2


def test_refused_request_writes_no_metrics(aws: Lambda) -> None:
    assert aws.api(request("POST", "/events", "{"))["statusCode"] == 400
    assert aws.read_output().text == ""


@pytest.mark.parametrize("verification", ["authorizer", "functions"])
def test_refused_token_is_measured_at_once(aws: Lambda, verification: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_VERIFICATION", verification)
    wiring.get_components.cache_clear()
    token = "Bearer bad.token.value"
    if verification == "authorizer":
        assert aws.authorizer(token)["policyDocument"]["Statement"][0]["Effect"] == "Deny"
    else:
        refused = aws.api(request("GET", "/events", headers={"authorization": token}, member=None))
        assert refused["statusCode"] == 401
    (line,) = aws.read_output().lines
    check_embedded_metrics(line)
    assert (line["RefusedTokens"], line["stack"]) == ([1.0], "annals-test")


def test_poll_woken_by_event_measures_poll_wake(
    aws: Lambda, components: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(components.log.notifier, "_pause", lambda _: append_as_other_writer(components))
    for number, accept in enumerate(("application/json", "text/event-stream_event"), 1):
        after = str(components.stores.log.head(1).last_event_id)
        query = {"after": after, "timeout": "20s"}
        assert aws.api(request("GET", "/events", headers={"accept": accept}, query=query))["statusCode"] == 200
        measured = aws.read_output().metrics
        assert (measured.get("PollWakes"), measured.get("IdlePolls")) == (1, None), number


def test_poll_timed_out_measures_idle_poll(aws: Lambda) -> None:
    for accept in ("application/json", "text/event-stream_event"):
        query = {"after": "0", "timeout": "0.3s"}
        assert aws.api(request("GET", "/events", headers={"accept": accept}, query=query))["statusCode"] == 200
        measured = aws.read_output().metrics
        assert (measured.get("PollWakes"), measured.get("IdlePolls")) == (None, 1), accept


def test_poll_answered_at_once_measures_neither(aws: Lambda) -> None:
    post(aws)
    assert aws.api(request("GET", "/events", query={"after": "0", "timeout": "20s"}))["statusCode"] == 200
    assert aws.read_output().metrics.keys() == {"ReadUnits"}


@pytest.mark.parametrize(("function", "name"), [(app.project, "ProjectLag"), (app.observe, "ObserveLag")])
def test_consumer_measures_age_of_last_commit(aws: Lambda, components: Components, function: Any, name: str) -> None:
    post(aws)
    commit = components.stores.log.commit(1, 1)
    assert commit is not None
    before_ms = components.clock()
    aws.call(function, stream_event("dynamodb_stream_two_organizations"))
    written = aws.read_output()
    min_lag_ms = before_ms - commit.at_us // 1000
    assert min_lag_ms <= written.metrics[name] <= min_lag_ms + 60_000
    (line,) = written.lines
    check_embedded_metrics(line)
    aws.call(function, stream_event("dynamodb_stream_two_organizations"))
    assert name not in aws.read_output().metrics


@pytest.mark.parametrize(
    ("observer", "channel", "result"),
    [
        ("mail", "mail", "sent"),
        ("app", "app", "sent"),
        ("slack", "slack", "failed"),
        ("nowhere", "mail", "parked"),
        ("picky", "app", "dropped"),
        ("gone", "unknown", "dropped"),
    ],
)
def test_delivery_is_counted_by_channel_and_result(
    aws: Lambda, components: Components, observer: str, channel: str, result: str
) -> None:
    components.notifications.observers.put(1, "nowhere", Configuration(channel="mail", config={"to": "", "from": ""}))
    components.notifications.observers.put(
        1, "picky", Configuration(channel="app", config={"to": "anna"}, filter="false")
    )
    post(aws)
    to = {"mail": "anna@example.org", "app": "anna"}.get(channel, "")
    aws.call(app.deliver, message(delivery(observer, "" if observer == "nowhere" else to)))
    written = aws.read_output()
    assert written.metrics_by_dimension == {(channel, result): {"Deliveries": 1}}
    assert written.metrics["Deliveries"] == 1
    assert written.metrics.get("ParkedDeliveries", 0) == (1 if result == "parked" else 0)
    for line in written.lines:
        if "_aws" in line:
            check_embedded_metrics(line)


def test_delivery_parked_after_all_attempts_is_counted(aws: Lambda, components: Components) -> None:
    post(aws)
    for receives in range(1, 7):
        aws.call(app.deliver, message(delivery("slack"), receives))
    assert "ParkedDeliveries" not in aws.read_output().metrics
    aws.call(app.deliver, message(delivery("slack"), receives=7, sent_ms=0))
    written = aws.read_output()
    assert written.metrics["ParkedDeliveries"] == 1
    assert written.metrics_by_dimension.keys() == {("slack", "failed")}
    assert [one.delivery.observer for one in components.stores.outbox.parked(1, "slack", "", 10)] == ["slack"]


def test_collector_sums_counts_and_keeps_largest_age(capsys: pytest.CaptureFixture[str]) -> None:
    collector = MetricCollector()
    for value in (5, 9, 7):
        collector("Commits", value)
        collector("ProjectLag", value)
    collector.flush()
    collector.flush()
    (line,) = Output(capsys.readouterr().out).lines
    check_embedded_metrics(line)
    assert (line["Commits"], line["ProjectLag"]) == ([21.0], [9.0])
