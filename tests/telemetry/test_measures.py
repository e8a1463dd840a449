"""What functions measure, in lines that CloudWatch makes metrics of."""

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
from chalicelib.domain.notifications.delivery_message import Queued
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.services.log.appender import Appender
from chalicelib.telemetry import Measurements
from chalicelib.wiring import Annals
from tests.adapters.aws.endpoints import losing_proxy
from tests.telemetry.lambdas import Failing, Lambda, Output, check_embedded_metrics, message, request

EVENTS = Path(__file__).parent.parent / "events"
TWO = {"events": [{"type": ["a"]}, {"type": ["b"], "key": "/b"}]}


def stream(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return found


def delivery(observer: str, address: str = "", session: int = 1) -> str:
    """A message of the outbox's queue: the first event of a session, to be told by an observer."""
    event = Id(1, session, 1)
    return Queued(Delivery(f"{event}/{observer}", 1, observer, event, "", address)).text


def post(aws: Lambda, body: object = TWO) -> Output:
    """What is written when events are posted."""
    aws.written()
    answer = aws.api(request("POST", "/events", body))
    assert answer["statusCode"] == 201, answer
    return aws.written()


def write_as_another(parts: Annals) -> None:
    """Let another writer append to acme's log."""
    Appender(parts.log, parts.clock).append(Append(1, ('{"type":["other"]}',), "other"))


def no_answer() -> Exception:
    return Unavailable("DynamoDB cannot be reached: timed out")


def test_an_append_is_one_line_of_commits_events_and_units(aws: Lambda) -> None:
    post(aws)
    written = post(aws)
    (line,) = written.lines
    check_embedded_metrics(line)
    assert written.measured == {"WriteUnits": 1, "Commits": 1, "Events": 2}
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [[]]


def test_an_append_with_a_key_is_a_transaction_of_twice_the_units(aws: Lambda) -> None:
    post(aws)
    aws.api(request("POST", "/events", TWO, headers={"idempotency-key": "k1"}))
    measured = aws.written().measured
    assert (measured["Commits"], measured["Events"], measured["WriteUnits"]) == (1, 2, 4)


def test_a_lost_race_is_a_conflict(aws: Lambda, parts: Annals) -> None:
    post(aws)
    write_as_another(parts)
    measured = post(aws).measured
    assert (measured["Conflicts"], measured["Commits"], measured["Events"]) == (1, 1, 2)
    assert "Conflicts" not in post(aws).measured


def test_a_repeat_after_no_answer_is_a_retry(aws: Lambda, parts: Annals) -> None:
    post(aws)
    log: Any = parts.log
    log._client = Failing(log._client, "PutItem", no_answer, times=1)
    measured = post(aws).measured
    assert (measured["Retries"], measured["Commits"]) == (1, 1)


def test_what_the_client_repeats_is_a_retry_too(
    aws: Lambda, ministack: str, parts: Annals, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(aws)
    with losing_proxy(ministack) as (endpoint, lost):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        wiring.annals.cache_clear()
        measured = post(aws).measured
    assert (lost, measured["Retries"], measured["Commits"]) == ([200], 1, 1)
    assert parts.log.head(1).session == 2


def test_a_refused_request_measures_nothing_and_writes_nothing(aws: Lambda) -> None:
    assert aws.api(request("POST", "/events", "{"))["statusCode"] == 400
    assert aws.authorizer("Bearer of.bad.news") is None
    assert aws.written().text == ""


def test_a_poll_that_waited_and_got_something_is_a_wake(
    aws: Lambda, parts: Annals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.wake, "_pause", lambda _: write_as_another(parts))
    for number, accept in enumerate(("application/json", "text/event-stream"), 1):
        after = str(parts.log.head(1).last)
        query = {"after": after, "timeout": "20s"}
        assert aws.api(request("GET", "/events", headers={"accept": accept}, query=query))["statusCode"] == 200
        measured = aws.written().measured
        assert (measured.get("PollWakes"), measured.get("IdlePolls")) == (1, None), number


def test_a_poll_that_waited_in_vain_is_idle(aws: Lambda) -> None:
    for accept in ("application/json", "text/event-stream"):
        query = {"after": "0", "timeout": "0.3s"}
        assert aws.api(request("GET", "/events", headers={"accept": accept}, query=query))["statusCode"] == 200
        measured = aws.written().measured
        assert (measured.get("PollWakes"), measured.get("IdlePolls")) == (None, 1), accept


def test_a_poll_that_need_not_wait_is_neither(aws: Lambda) -> None:
    post(aws)
    assert aws.api(request("GET", "/events", query={"after": "0", "timeout": "20s"}))["statusCode"] == 200
    assert aws.written().measured.keys() == {"ReadUnits"}


@pytest.mark.parametrize(("function", "name"), [(app.project, "ProjectLag"), (app.observe, "ObserveLag")])
def test_a_consumer_tells_how_old_the_last_commit_is(aws: Lambda, parts: Annals, function: Any, name: str) -> None:
    post(aws)
    commit = parts.log.commit(1, 1)
    assert commit is not None
    before_ms = parts.clock()
    aws.call(function, stream("dynamodb_stream_two_organizations"))
    written = aws.written()
    least = before_ms - commit.at // 1000
    assert least <= written.measured[name] <= least + 60_000
    (line,) = written.lines
    check_embedded_metrics(line)
    aws.call(function, stream("dynamodb_stream_two_organizations"))
    assert name not in aws.written().measured


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
def test_a_delivery_is_counted_by_channel_and_result(
    aws: Lambda, parts: Annals, observer: str, channel: str, result: str
) -> None:
    parts.observers.put(1, "nowhere", Configuration(channel="mail", config={"to": "", "from": ""}))
    parts.observers.put(1, "picky", Configuration(channel="app", config={"to": "anna"}, filter="false"))
    post(aws)
    to = {"mail": "anna@example.org", "app": "anna"}.get(channel, "")
    aws.call(app.deliver, message(delivery(observer, "" if observer == "nowhere" else to)))
    written = aws.written()
    assert written.kinds == {(channel, result): {"Deliveries": 1}}
    assert written.measured["Deliveries"] == 1
    assert written.measured.get("ParkedDeliveries", 0) == (1 if result == "parked" else 0)
    for line in written.lines:
        if "_aws" in line:
            check_embedded_metrics(line)


def test_a_delivery_that_ended_the_function_each_time_is_parked(aws: Lambda, parts: Annals) -> None:
    post(aws)
    for receives in range(1, 7):
        aws.call(app.deliver, message(delivery("slack"), receives))
    written = aws.written()
    assert written.measured["ParkedDeliveries"] == 1
    assert written.kinds.keys() == {("slack", "failed"), ("slack", "parked")}
    assert [one.delivery.observer for one in parts.outbox.parked(1, "slack", "", 10)] == ["slack"]


def test_counts_are_added_up_and_of_ages_the_greatest_counts(capsys: pytest.CaptureFixture[str]) -> None:
    measurements = Measurements()
    for value in (5, 9, 7):
        measurements("Commits", value)
        measurements("ProjectLag", value)
    measurements.tell()
    measurements.tell()
    (line,) = Output(capsys.readouterr().out).lines
    check_embedded_metrics(line)
    assert (line["Commits"], line["ProjectLag"]) == ([21.0], [9.0])
