"""Access to push jobs, and error responses (P-H)."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.conformance.push.push_client import (
    PAGES,
    SSE,
    STREAMS,
    SUCCESS,
    Json,
    describe,
    organization_feed,
    post,
    publish_texts,
    push_event,
    push_path,
)
from tests.serving import Member, Server, new_organization_name, run_server

JSON = {"Accept": "application/json"}
FEEDS = {"organization": ("job_status_feed",), "job": ("job_status_feed", "j1")}
RESOURCES = {"jobs": ("jobs",), "resource": ("jobs", "j1")}
ALL = {**FEEDS, **RESOURCES}


@pytest.fixture(scope="module", params=["streams", "pages"], name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"streams": STREAMS, "pages": PAGES}[request.param]
    with run_server(tmp_path_factory.mktemp(request.param), **settings) as running:
        yield running


def status_of(member: Member, path: str, method: str = "GET", **headers: str | None) -> int:
    """The status of a response whose body is not read. A header that is None is not sent."""
    sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    request = member.server.client.build_request(method, path, headers={**member.headers, **sent})
    for name, value in headers.items():
        if value is None:
            del request.headers[name.replace("_", "-")]
    answer = member.server.client.send(request, stream=True)
    answer.close()
    return answer.status_code


def problem(answer: httpx.Response, status: int) -> Json:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    body: Json = answer.json()
    assert body["status"] == status
    return body


@pytest.mark.parametrize("parts", [("job_status_feed", "j2"), ("jobs", "j2"), ("job_status_feed", "j"), ("jobs", "J1")])
def test_p_h01_unknown_job_is_not_found(parts: tuple[str, str], member: Member) -> None:
    publish_texts(member, *SUCCESS)
    answer = member.get(push_path(member, *parts), headers={"Accept": "*/*"})
    assert problem(answer, 404)["detail"] == f"there is no push job '{parts[1]}'"
    assert "transfer-encoding" not in answer.headers


def test_p_h01_job_of_another_organization_is_not_found(member: Member, server: Server) -> None:
    publish_texts(server.organization(), *SUCCESS)
    problem(member.get(push_path(member, "job_status_feed", "j1"), headers=SSE), 404)


@pytest.mark.parametrize("name", ALL)
def test_p_h01_unknown_organization_is_not_found(name: str, server: Server) -> None:
    member = server.member(new_organization_name())
    problem(member.get(push_path(member, *ALL[name]), headers={"Accept": "*/*"}), 404)


INVALID_TOKENS: dict[str, Callable[[Member], dict[str, str]]] = {
    "none": lambda _: {},
    "empty": lambda _: {"Authorization": "Bearer"},
    "forged": lambda member: {"Authorization": f"Bearer {member.token}x"},
    "basic": lambda _: {"Authorization": "Basic YW5uYTphbm5h"},
}


@pytest.mark.parametrize("token", INVALID_TOKENS)
@pytest.mark.parametrize("name", ALL)
def test_p_h03_invalid_token_is_unauthorized(name: str, token: str, member: Member) -> None:
    publish_texts(member, "start 1")
    headers = {"Accept": "*/*", **INVALID_TOKENS[token](member)}
    answer = member.server.client.get(push_path(member, *ALL[name]), headers=headers)
    assert problem(answer, 401)["title"] == "Unauthorized"
    assert answer.headers["www-authenticate"] == "Bearer"


ACCEPTED = {
    None: 200,
    "*/*": 200,
    "text/*": 200,
    "text/event-stream": 200,
    "TEXT/Event-Stream": 200,
    "text/event-stream; charset=utf-8": 200,
    "text/event-stream;q=0.001": 200,
    "application/json, text/event-stream;q=0.1": 200,
    "application/json;q=0.9 , */* ; q=0.1": 200,
    "text/*;q=0, text/event-stream": 200,
    "application/json": 406,
    "application/*": 406,
    "text/plain, text/html": 406,
    "text/event-stream;q=0": 406,
    "text/event-stream;q=0.0, */*": 406,
    "text/*;q=0, */*": 406,
    "*/*;q=0": 406,
    "text/event-stream;q=much": 406,
    "text": 406,
    "event-stream": 406,
    "*": 406,
    ";;,=,/": 406,
}


@pytest.mark.parametrize("accept", ACCEPTED, ids=lambda accept: f"P-H04 {accept}")
def test_p_h04_feed_requires_event_stream_in_accept(accept: str | None, member: Member) -> None:
    publish_texts(member, *SUCCESS)
    statuses = {name: status_of(member, push_path(member, *parts), accept=accept) for name, parts in FEEDS.items()}
    assert statuses == dict.fromkeys(FEEDS, ACCEPTED[accept])


def test_p_h04_not_acceptable_names_available_type(member: Member) -> None:
    publish_texts(member, "start 1")
    body = problem(member.get(push_path(member, "job_status_feed", "j1"), headers=JSON), 406)
    assert body["detail"] == "only text/event-stream is available; request it with 'Accept: text/event-stream'"


@pytest.mark.parametrize(
    ("accept", "status"),
    [(None, 200), ("*/*", 200), ("application/*", 200), ("text/event-stream, */*;q=0.1", 200), ("text/*", 406)],
)
def test_p_h04_resources_are_json(accept: str | None, status: int, member: Member) -> None:
    publish_texts(member, "start 1")
    statuses = {name: status_of(member, push_path(member, *parts), accept=accept) for name, parts in RESOURCES.items()}
    assert statuses == dict.fromkeys(RESOURCES, status)


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_h05_feed_without_activity_is_open_and_empty(member: Member) -> None:
    publish_texts(member, *SUCCESS, job="before")
    with organization_feed(member) as feed:
        publish_texts(member, "quorum_vote n1 success", job="without start")
        member.publish("push/start", "of/others")
        publish_texts(member, "start 1", job="after")
        assert describe(feed.read(1)) == ["start after 1"]
        assert feed.connection_count == 1


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_h05_feed_stays_open(member: Member) -> None:
    with member.server.client.stream("GET", push_path(member, "job_status_feed"), headers=member.headers) as answer:
        assert answer.status_code == 200
        chunks = answer.iter_raw()
        assert [next(chunks) for _ in range(3)] == [b":keepalive\n"] * 3


@pytest.mark.parametrize("name", ALL)
def test_p_h06_member_of_another_organization_is_forbidden(name: str, member: Member, server: Server) -> None:
    publish_texts(member, "start 1")
    other = server.organization()
    answer = other.get(push_path(member, *ALL[name]), headers={"Accept": "*/*"})
    message = f"'{other.user}' is not associated with organization '{member.organization}'"
    body = problem(answer, 403)
    assert (body["error"], body["detail"]) == ([message], message)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("groups", [[], ["publishers"], ["pushy_job_writers"], ["Readers"]], ids=str)
def test_p_h06_caller_without_reader_group_is_forbidden(
    name: str, groups: list[str], member: Member, server: Server
) -> None:
    publish_texts(member, "start 1")
    writer = server.member(member.organization, groups=groups, user="walter")
    answer = writer.get(push_path(member, *ALL[name]), headers={"Accept": "*/*"})
    message = "User or client 'walter' does not have access to that action on this server."
    assert problem(answer, 403)["error"] == [message]


@pytest.mark.parametrize("groups", [["readers"], ["pushy_job_readers"], ["pushy_jobs_readers"], ["admins"]], ids=str)
def test_p_h06_reader_can_read_but_not_publish(groups: list[str], member: Member, server: Server) -> None:
    publish_texts(member, "start 1")
    reader = server.member(member.organization, groups=groups)
    assert [status_of(reader, push_path(member, *parts), accept="*/*") for parts in ALL.values()] == [200] * 4
    assert (post(reader, push_event("rehab n1")).status_code == 201) is ("admins" in groups)


def test_p_h06_organization_in_path_takes_precedence(member: Member, server: Server) -> None:
    other = server.organization()
    publish_texts(member, "start 1", job="mine")
    both = server.member(other.organization, member.organization)
    answer = both.get(push_path(member, "jobs"), headers={"X-Organization": other.organization})
    assert [job["id"] for job in answer.json()] == ["mine"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("name", ALL)
def test_feeds_and_resources_are_read_only(name: str, method: str, member: Member) -> None:
    publish_texts(member, "start 1")
    answer = member.request(method, push_path(member, *ALL[name]))
    problem(answer, 405)
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("job", {"after": 1}),
        ("organization", {"after": -1}),
        ("organization", {"after": "org-1"}),
        ("organization", {"after": 2**53}),
        ("organization", {"limit": 1}),
        ("resource", {"limit": 1}),
        ("jobs", {"limit": 0}),
        ("jobs", {"limit": -1}),
        ("jobs", {"limit": 10_001}),
        ("jobs", {"limit": "all"}),
        ("jobs", {"before": 1}),
    ],
    ids=str,
)
def test_invalid_parameter_is_rejected(name: str, parameters: dict[str, Any], member: Member) -> None:
    publish_texts(member, "start 1")
    answer = member.get(push_path(member, *ALL[name]), params=parameters, headers={"Accept": "*/*"})
    assert re.match(f"{next(iter(parameters))}: ", problem(answer, 400)["detail"])
