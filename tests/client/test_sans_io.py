"""The sans-I/O core, without a server and without waiting."""

import json
import time
import uuid
from collections.abc import Callable, Generator
from datetime import datetime
from typing import Any

import pytest

from annals_client import NewEvent, NotAllowed, Torn, Unavailable, Unexpected
from annals_client.calls import events, observers, queries
from annals_client.sans_io import (
    Emit,
    NoResponse,
    Outcome,
    Pause,
    Request,
    Response,
    RetryPolicy,
    Send,
    new_uuid7,
    send,
)

UNAVAILABLE = Response(503, {"retry-after": "2"}, b"")
INTERNAL_ERROR = Response(500, {}, b"")
EMPTY_OBJECT = Response(200, {}, b"{}")
NO_RESPONSE = NoResponse("reset")


class StepRunner:
    """Performs steps. Pauses advance its clock, and jitter is always the maximum."""

    def __init__(self, deadline_s: float = 60.0) -> None:
        self.now_s = 0.0
        self.policy = RetryPolicy(deadline_s, clock=lambda: self.now_s, jitter=lambda max_s: max_s, new_key=lambda: "k")
        self.pauses: list[float] = []
        self.sent: list[Send] = []
        self.emitted: list[Any] = []

    def run(self, steps: Generator[Any, Outcome, Any], outcome: Callable[[int], Outcome]) -> Any:
        """Perform all steps. `outcome` gets the number of the request, from 1."""
        last: Outcome = None
        while True:
            try:
                step = steps.send(last)
            except StopIteration as end:
                return end.value
            last = self._perform(step, outcome)

    def _perform(self, step: object, outcome: Callable[[int], Outcome]) -> Outcome:
        match step:
            case Pause(seconds=seconds):
                self.pauses.append(seconds)
                self.now_s += seconds
            case Emit(value=value):
                self.emitted.append(value)
            case Send():
                self.sent.append(step)
                return outcome(len(self.sent))
        return None


GET_ME = Request("GET_ME", "/me")


def test_send_pauses_double_up_to_limit() -> None:
    runner = StepRunner(deadline_s=60)
    runner.run(send(runner.policy, GET_ME), lambda n: NO_RESPONSE if n < 11 else EMPTY_OBJECT)
    assert runner.pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10, 10])


def test_send_infinite_deadline_retries_for_hours() -> None:
    runner = StepRunner()
    runner.run(
        send(runner.policy, GET_ME, deadline_s=float("inf")), lambda n: NO_RESPONSE if n < 5000 else EMPTY_OBJECT
    )
    assert runner.now_s > 40_000


def test_send_status_500_with_key_is_retried() -> None:
    """Without a free Lambda function, API Gateway may answer 500."""
    runner, request = StepRunner(), Request("POST", "/events", headers={"Idempotency-Key": "k"})
    response = runner.run(send(runner.policy, request), lambda n: INTERNAL_ERROR if n < 3 else EMPTY_OBJECT)
    assert (response, len(runner.sent)) == (EMPTY_OBJECT, 3)


def test_send_status_500_without_key_is_not_retried() -> None:
    runner = StepRunner()
    with pytest.raises(Unexpected, match="500"):
        runner.run(send(runner.policy, Request("PUT", "/observers/a")), lambda _: INTERNAL_ERROR)
    assert len(runner.sent) == 1


def test_send_retry_after_adds_jitter() -> None:
    runner = StepRunner()
    runner.run(send(runner.policy, GET_ME), lambda n: UNAVAILABLE if n == 1 else EMPTY_OBJECT)
    assert runner.pauses == [2.2]


@pytest.mark.parametrize("retry_after", ["", "soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "٣"])
def test_send_invalid_retry_after_is_ignored(retry_after: str) -> None:
    runner = StepRunner()
    runner.run(
        send(runner.policy, GET_ME),
        lambda n: Response(503, {"retry-after": retry_after}, b"") if n == 1 else EMPTY_OBJECT,
    )
    assert runner.pauses == [0.2]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_send_retryable_status_is_retried(status: int) -> None:
    runner = StepRunner()
    runner.run(send(runner.policy, GET_ME), lambda n: Response(status, {}, b"") if n == 1 else EMPTY_OBJECT)
    assert len(runner.sent) == 2


def test_send_pause_past_deadline_raises_unavailable() -> None:
    runner = StepRunner(deadline_s=5)
    with pytest.raises(Unavailable, match=r"the server responded with status 503 \(3 attempts\)"):
        runner.run(send(runner.policy, GET_ME), lambda _: UNAVAILABLE)
    assert runner.pauses == [2.2, 2.4]


def test_send_timeout_is_limited_by_deadline() -> None:
    runner = StepRunner(deadline_s=7)
    runner.run(send(runner.policy, GET_ME), lambda n: UNAVAILABLE if n == 1 else EMPTY_OBJECT)
    assert [step.timeout_s for step in runner.sent] == pytest.approx([7, 4.8])


def test_send_refused_request_is_not_retried() -> None:
    runner = StepRunner()
    refusal = Response(403, {}, b'{"detail": "not yours"}')
    with pytest.raises(NotAllowed, match="not yours"):
        runner.run(send(runner.policy, GET_ME), lambda _: refusal)
    assert len(runner.sent) == 1


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b"7", b"\xff"])
def test_publish_invalid_response_raises_unexpected(content: bytes) -> None:
    runner = StepRunner()
    steps = events.publish(runner.policy, [])
    with pytest.raises(Unexpected):
        runner.run(steps, lambda _: Response(200, {}, content))


def test_publish_retries_send_identical_request() -> None:
    runner = StepRunner()
    outcomes: list[Outcome] = [NO_RESPONSE, UNAVAILABLE, Response(201, {}, b'{"events": [], "eventId": 7}')]
    steps = events.publish(runner.policy, [NewEvent("a/b", key="/k")])
    runner.run(steps, lambda n: outcomes[n - 1])
    assert {step.request.content for step in runner.sent} == {b'{"events": [{"type": ["a", "b"], "key": "/k"}]}'}
    assert [dict(step.request.headers) for step in runner.sent] == [{"Idempotency-Key": "k"}] * 3


def test_publish_time_without_zone_raises_value_error() -> None:
    steps = events.publish(RetryPolicy(), [NewEvent("a", source_timestamp=datetime(2026, 1, 1))])
    with pytest.raises(ValueError, match="needs a time zone"):
        next(steps)


@pytest.mark.parametrize("body", [b"{}", b'{"events": [{}], "eventId": 1}', b'{"events": 1, "eventId": 1}'])
def test_publish_response_without_events_is_unexpected(body: bytes) -> None:
    runner = StepRunner()
    with pytest.raises(Unexpected, match="201: the response does not list the published events"):
        runner.run(events.publish(runner.policy, [NewEvent("a")]), lambda _: Response(201, {}, body))


@pytest.mark.parametrize("pages", [[[5, 3, 6]], [[5, 5]], [[4, 5], [5, 6]], [[5], [2]]])
def test_follow_server_that_goes_back_is_unexpected(pages: list[list[int]]) -> None:
    runner = StepRunner()
    responses = [Response(200, {}, json.dumps(_event_seq(page)).encode()) for page in pages]
    with pytest.raises(Unexpected, match="the server returned event"):
        runner.run(events.follow(runner.policy), lambda n: responses[n - 1])
    assert [event.event_id for event in runner.emitted] in ([5], [4, 5])


def _event_seq(event_ids: list[int]) -> dict[str, Any]:
    common = {"timestamp": "2026-01-01T00:00:00Z", "type": ["a"], "key": None, "sourceTimestamp": None, "payload": None}
    snapshots = [{"id": {"server": 1, "session": n, "instance": 1}, "eventId": n, **common} for n in event_ids]
    return {"TYPE": "NonEmpty", "eventId": event_ids[-1], "eventSnapshots": snapshots}


def test_follow_immediate_empty_response_pauses() -> None:
    runner = StepRunner()
    steps = events.follow(runner.policy)
    empty, torn = b'{"TYPE": "Empty", "eventId": 7}', b'{"TYPE": "Torn", "eventId": 9}'
    with pytest.raises(Torn):
        runner.run(steps, lambda n: Response(200, {}, empty if n < 4 else torn))
    assert runner.pauses == [1.0] * 3
    assert [step.request.target for step in runner.sent] == [
        "/events?timeout=25.0s",
        *["/events?after=7&timeout=25.0s"] * 3,
    ]


def test_failures_requests_page_by_page() -> None:
    runner = StepRunner()
    pages = [b'{"failures": [{"id": "a"}, {"id": "b"}]}', b'{"failures": [{"id": "c"}]}']
    steps = observers.failures(runner.policy, "ops", page=2)
    runner.run(steps, lambda n: Response(200, {}, pages[n - 1]))
    assert runner.emitted == [{"id": "a"}, {"id": "b"}, {"id": "c"}]
    assert [step.request.target for step in runner.sent] == [
        "/observers/ops/failures?limit=2",
        "/observers/ops/failures?limit=2&after=b",
    ]


def test_deliveries_requests_page_by_page() -> None:
    runner = StepRunner()
    pages = [b'{"deliveries": [{"id": "a"}], "cursor": "x:1"}', b'{"deliveries": [], "cursor": null}']
    runner.run(observers.deliveries_of(runner.policy, 7, page=1), lambda n: Response(200, {}, pages[n - 1]))
    assert runner.emitted == [{"id": "a"}]
    assert [step.request.target for step in runner.sent] == [
        "/deliveries?eventId=7&limit=1",
        "/deliveries?eventId=7&limit=1&cursor=x%3A1",
    ]


def test_replay_continues_by_name_until_done() -> None:
    runner = StepRunner()
    parts = [
        b'{"replay": "k", "eventId": 50, "until": 90, "deliveries": 3, "done": false}',
        b'{"replay": "k", "eventId": 90, "until": 90, "deliveries": 2, "done": true}',
    ]
    steps = observers.replay(runner.policy, "ops", after=7)
    runner.run(steps, lambda n: Response(200, {}, parts[n - 1]))
    assert [(part.event_id, part.deliveries, part.is_done) for part in runner.emitted] == [
        (50, 3, False),
        (90, 5, True),
    ]
    assert [step.request.body for step in runner.sent] == [
        {"replay": "k", "after": 7},
        {"replay": "k", "after": 50, "until": 90},
    ]


def test_latest_follows_pages_and_keeps_last_event_of_type() -> None:
    def event(session: int, type_: str) -> dict[str, Any]:
        id_ = {"server": 1, "session": session, "instance": 1}
        time = "2026-11-04T11:07:36.000000Z"
        return {"id": id_, "eventId": session, "timestamp": time, "type": [type_], "key": None} | {
            "sourceTimestamp": None,
            "payload": None,
        }

    pages = [[event(1, "a"), event(2, "b")], [event(3, "c"), event(4, "a")]]
    runner = StepRunner()

    def outcome(n: int) -> Response:
        return Response(200, {}, json.dumps({"events": pages[n - 1], "moreFollows": n == 1, "eventId": 4}).encode())

    result = runner.run(queries.latest(runner.policy), outcome)
    assert [(event.path, event.event_id) for event in result] == [("b", 2), ("c", 3), ("a", 4)]
    assert [step.request.target for step in runner.sent] == ["/events/latest", "/events/latest?lastEventId=1.2.1"]


def test_generated_keys_are_uuids_of_version_7() -> None:
    before_ms = time.time_ns() // 1_000_000
    keys = [new_uuid7() for _ in range(200)]
    after_ms = time.time_ns() // 1_000_000
    parsed = [uuid.UUID(key) for key in keys]
    assert [str(each) for each in parsed] == keys
    assert {(each.version, each.variant) for each in parsed} == {(7, uuid.RFC_4122)}
    assert {before_ms <= each.int >> 80 <= after_ms for each in parsed} == {True}
    assert len({each.int & (1 << 62) - 1 for each in parsed}) == len(keys)
