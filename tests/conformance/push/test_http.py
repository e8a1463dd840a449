"""Who may ask what of push jobs, and how refusals are told (P-H)."""

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
    fact,
    happen,
    organization_feed,
    post,
    pushy,
    told,
)
from tests.serving import Member, Server, new_name, serving

JSON = {"Accept": "application/json"}
FEEDS = {"organization": ("job_status_feed",), "job": ("job_status_feed", "j1")}
RESOURCES = {"jobs": ("jobs",), "resource": ("jobs", "j1")}
ALL = {**FEEDS, **RESOURCES}


@pytest.fixture(scope="module", params=["streams", "pages"], name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    manner = {"streams": STREAMS, "pages": PAGES}[request.param]
    with serving(tmp_path_factory.mktemp(request.param), **manner) as running:
        yield running


def status_of(member: Member, path: str, method: str = "GET", **headers: str | None) -> int:
    """The status of an answer, however long that would go on; a header that is None is not sent at all."""
    given = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    request = member.server.client.build_request(method, path, headers={**member.headers, **given})
    for name, value in headers.items():
        if value is None:
            del request.headers[name.replace("_", "-")]
    answer = member.server.client.send(request, stream=True)
    answer.close()
    return answer.status_code


def problem(answer: httpx.Response, status: int) -> Json:
    """What a refusal says."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    found: Json = answer.json()
    assert found["status"] == status
    return found


@pytest.mark.parametrize("parts", [("job_status_feed", "j2"), ("jobs", "j2"), ("job_status_feed", "j"), ("jobs", "J1")])
def test_p_h01_a_job_that_nobody_has_heard_of_is_not_found(parts: tuple[str, str], member: Member) -> None:
    happen(member, *SUCCESS)
    answer = member.get(pushy(member, *parts), headers={"Accept": "*/*"})
    assert problem(answer, 404)["detail"] == f"there is no push job '{parts[1]}'"
    assert "transfer-encoding" not in answer.headers


def test_p_h01_jobs_of_other_organizations_are_not_found(member: Member, server: Server) -> None:
    happen(server.organization(), *SUCCESS)
    problem(member.get(pushy(member, "job_status_feed", "j1"), headers=SSE), 404)


@pytest.mark.parametrize("name", ALL)
def test_p_h01_an_organization_that_is_not_there_has_no_jobs(name: str, server: Server) -> None:
    member = server.member(new_name())
    problem(member.get(pushy(member, *ALL[name]), headers={"Accept": "*/*"}), 404)


BAD_TOKENS: dict[str, Callable[[Member], dict[str, str]]] = {
    "none": lambda _: {},
    "empty": lambda _: {"Authorization": "Bearer"},
    "forged": lambda member: {"Authorization": f"Bearer {member.token}x"},
    "basic": lambda _: {"Authorization": "Basic YW5uYTphbm5h"},
}


@pytest.mark.parametrize("token", BAD_TOKENS)
@pytest.mark.parametrize("name", ALL)
def test_p_h03_whoever_is_nobody_is_sent_away(name: str, token: str, member: Member) -> None:
    happen(member, "start 1")
    headers = {"Accept": "*/*", **BAD_TOKENS[token](member)}
    answer = member.server.client.get(pushy(member, *ALL[name]), headers=headers)
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
def test_p_h04_a_feed_is_for_those_who_take_server_sent_events(accept: str | None, member: Member) -> None:
    happen(member, *SUCCESS)
    found = {name: status_of(member, pushy(member, *parts), accept=accept) for name, parts in FEEDS.items()}
    assert found == dict.fromkeys(FEEDS, ACCEPTED[accept])


def test_p_h04_the_refusal_says_what_to_ask_for(member: Member) -> None:
    happen(member, "start 1")
    refusal = problem(member.get(pushy(member, "job_status_feed", "j1"), headers=JSON), 406)
    assert refusal["detail"] == "this is text/event-stream only: ask for it with 'Accept: text/event-stream'"


@pytest.mark.parametrize(
    ("accept", "status"),
    [(None, 200), ("*/*", 200), ("application/*", 200), ("text/event-stream, */*;q=0.1", 200), ("text/*", 406)],
)
def test_p_h04_the_resources_are_json(accept: str | None, status: int, member: Member) -> None:
    happen(member, "start 1")
    found = {name: status_of(member, pushy(member, *parts), accept=accept) for name, parts in RESOURCES.items()}
    assert found == dict.fromkeys(RESOURCES, status)


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_h05_an_organization_without_activity_has_an_open_feed_without_events(member: Member) -> None:
    happen(member, *SUCCESS, job="before")
    with organization_feed(member) as feed:
        happen(member, "quorum_vote n1 success", job="of no interest")
        member.publish("push/start", "of/others")
        happen(member, "start 1", job="after")
        assert told(feed.take(1)) == ["start after 1"]
        assert feed.answers == 1


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_h05_the_feed_stays_open(member: Member) -> None:
    with member.server.client.stream("GET", pushy(member, "job_status_feed"), headers=member.headers) as answer:
        assert answer.status_code == 200
        pieces = answer.iter_raw()
        assert [next(pieces) for _ in range(3)] == [b":keepalive\n"] * 3


@pytest.mark.parametrize("name", ALL)
def test_p_h06_whoever_is_of_another_organization_may_not_listen(name: str, member: Member, server: Server) -> None:
    happen(member, "start 1")
    stranger = server.organization()
    answer = stranger.get(pushy(member, *ALL[name]), headers={"Accept": "*/*"})
    message = f"'{stranger.user}' is not associated with organization '{member.organization}'"
    refusal = problem(answer, 403)
    assert (refusal["error"], refusal["detail"]) == ([message], message)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("groups", [[], ["publishers"], ["pushy_job_writers"], ["Readers"]], ids=str)
def test_p_h06_whoever_is_no_reader_may_not_listen(
    name: str, groups: list[str], member: Member, server: Server
) -> None:
    happen(member, "start 1")
    writer = server.member(member.organization, groups=groups, user="walter")
    answer = writer.get(pushy(member, *ALL[name]), headers={"Accept": "*/*"})
    message = "User or client 'walter' does not have access to that action on this server."
    assert problem(answer, 403)["error"] == [message]


@pytest.mark.parametrize("groups", [["readers"], ["pushy_job_readers"], ["admins"]], ids=str)
def test_p_h06_readers_may_listen_and_not_publish(groups: list[str], member: Member, server: Server) -> None:
    happen(member, "start 1")
    reader = server.member(member.organization, groups=groups)
    assert [status_of(reader, pushy(member, *parts), accept="*/*") for parts in ALL.values()] == [200] * 4
    assert (post(reader, fact("rehab n1")).status_code == 201) is ("admins" in groups)


def test_p_h06_whoever_has_two_organizations_hears_the_one_in_the_path(member: Member, server: Server) -> None:
    other = server.organization()
    happen(member, "start 1", job="mine")
    both = server.member(other.organization, member.organization)
    answer = both.get(pushy(member, "jobs"), headers={"X-Organization": other.organization})
    assert [found["id"] for found in answer.json()] == ["mine"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("name", ALL)
def test_feeds_and_resources_can_only_be_read(name: str, method: str, member: Member) -> None:
    happen(member, "start 1")
    answer = member.ask(method, pushy(member, *ALL[name]))
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
        ("jobs", {"after": 1}),
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(name: str, parameters: dict[str, Any], member: Member) -> None:
    happen(member, "start 1")
    answer = member.get(pushy(member, *ALL[name]), params=parameters, headers={"Accept": "*/*"})
    assert re.match(f"{next(iter(parameters))}: ", problem(answer, 400)["detail"])
