"""Web pages of other origins may use the API if `CORS_ORIGINS` allows it."""

from collections.abc import Iterator
from itertools import chain

import httpx
import pytest

from tests.serving import Member, Server, run_server

ALLOWED = "https://portal.example.org"
FOREIGN = "https://elsewhere.example.org"
ORIGINS = f"{ALLOWED}/, https://second.example.org"
ALLOW_ORIGIN = "Access-Control-Allow-Origin"


@pytest.fixture(scope="module", name="server")
def cors_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("cors"), CORS_ORIGINS=ORIGINS) as running:
        yield running


@pytest.fixture(name="member")
def new_member(server: Server) -> Member:
    return server.organization()


def preflight(server: Server, origin: str) -> httpx.Response:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
    }
    return server.client.options("/events", headers=headers)


def test_preflight_of_allowed_origin_names_methods_and_headers(server: Server) -> None:
    answer = preflight(server, ALLOWED)
    assert (answer.status_code, answer.content, answer.headers[ALLOW_ORIGIN]) == (204, b"", ALLOWED)
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, POST"
    assert {"Authorization", "Content-Type", "Idempotency-Key"} <= set(
        answer.headers["Access-Control-Allow-Headers"].split(", ")
    )


def test_preflight_of_other_origin_is_refused(server: Server) -> None:
    answer = preflight(server, FOREIGN)
    assert (answer.status_code, ALLOW_ORIGIN in answer.headers) == (405, False)


def test_responses_of_all_kinds_have_cors_headers(member: Member) -> None:
    """Appends are deferred, polls run in steps, streams send their head at once, and problems have bodies."""
    headers = {"Origin": ALLOWED}
    answers = [
        member.request("POST", "/events", json={"events": [{"type": ["a"]}]}, headers=headers),
        member.request("POST", "/events", json={"events": [{"type": 7}]}, headers=headers),
        member.request("GET", "/events", params={"after": 0}, headers=headers),
        member.request("GET", "/events", params={"after": 0, "types": "b", "timeout": "0.1s"}, headers=headers),
        member.request("GET", "/nothing", headers=headers),
        member.server.client.get("/me", headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [201, 400, 200, 200, 404, 401]
    assert [answer.headers.get(ALLOW_ORIGIN) for answer in answers] == [ALLOWED] * len(answers)
    assert {answer.headers["Vary"] for answer in answers} == {"Origin"}


def test_responses_to_other_origins_have_no_cors_headers(member: Member) -> None:
    answer = member.request("GET", "/events", headers={"Origin": FOREIGN})
    assert (answer.status_code, ALLOW_ORIGIN in answer.headers) == (200, False)


def test_without_setting_there_are_no_cors_headers(tmp_path_factory: pytest.TempPathFactory) -> None:
    with run_server(tmp_path_factory.mktemp("default")) as server:
        answers = [preflight(server, ALLOWED), server.client.get("/health", headers={"Origin": ALLOWED})]
    assert [answer.status_code for answer in answers] == [405, 200]
    names = chain.from_iterable(answer.headers for answer in answers)
    assert not [name for name in names if name.lower().startswith("access-control") or name.lower() == "vary"]
