"""Deeply nested JSON is refused, and does not exhaust the stack of the thread that parses it."""

import pytest

from tests.serving import Member

DEPTHS = {"in the server thread": 10_000, "in a worker thread": 100_000}
BRACKETS = {"lists": ("[", "]"), "objects": ('{"a":', "}")}
BODIES = {
    "event": ("POST", "/events", '{"events":[{"type":["a"],"payload":{"type":"json","data":%s}}]}'),
    "conditional append": ("POST", "/events", '{"events":[{"type":["a"]}],"condition":%s}'),
    "whole body": ("POST", "/events", "%s"),
    "unknown field": ("POST", "/events", '{"x":%s}'),
    "job event": ("POST", "/events/job", '{"event":"create","id":"1","node":"n","props":%s}'),
    "scheduler event": ("POST", "/events/scheduler", '{"events":[%s]}'),
    "query": ("POST", "/events/latest", '{"types":%s}'),
    "path query": ("POST", "/jobscheduler/master/api/order", "%s"),
    "observer": ("PUT", "/observers/deep", '{"config":%s}'),
    "sign-in": ("POST", "/sign-in", '{"code":%s}'),
}


@pytest.mark.parametrize("depth", DEPTHS.values(), ids=DEPTHS)
@pytest.mark.parametrize("brackets", BRACKETS.values(), ids=BRACKETS)
@pytest.mark.parametrize(("method", "path", "template"), BODIES.values(), ids=BODIES)
def test_deep_json_is_refused(
    method: str, path: str, template: str, brackets: tuple[str, str], depth: int, member: Member
) -> None:
    member.publish("a")
    opening, closing = brackets
    body = template % f"{opening * depth}1{closing * depth}"
    answer = member.request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("the body is not valid JSON: recursion limit exceeded")
    assert member.get("/health").status_code == 200
