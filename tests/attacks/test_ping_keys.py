"""A ping key allows pings of its organization and nothing else."""

import re
from urllib.parse import quote

import pytest

from app import app
from chalicelib.domain.pings.ping_key import key_digest
from tests.http.pings.ping_client import Pinger, new_pinger
from tests.serving import Member, Server

RID = "5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"
PING_PATHS = ("/ping/{key}/{name}", "/ping/{key}/{name}/{signal}")
OTHER_ROUTES = [(method, path) for path, methods in app.routes.items() if path not in PING_PATHS for method in methods]
BODIES = {"/events/{vocabulary}": {"event": "create", "node": "n", "type": "t"}}


@pytest.fixture(name="pinger")
def fixture_pinger(server: Server) -> Pinger:
    return new_pinger(server.organization())


def unknown_keys(pinger: Pinger) -> dict[str, str]:
    """Texts that are nearly the key, each with what is wrong."""
    organization, _, secret = pinger.key.partition(".")
    other = new_pinger(pinger.member.server.organization())
    other_organization, _, other_secret = other.key.partition(".")
    missing = f"{organization}x.{secret}"
    return {
        "another organization's secret": f"{organization}.{other_secret}",
        "another organization": f"{other_organization}.{secret}",
        "an organization that does not exist": missing,
        "no secret": f"{organization}.",
        "no organization": f".{secret}",
        "no separator": f"{organization}{secret}",
        "the organization": organization,
        "another case": pinger.key.swapcase(),
        "a part": pinger.key[:-1],
        "more": f"{pinger.key}A",
        "padding": f"{pinger.key}=",
        "a blank": f"{pinger.key}%20",
        "a line end": f"{pinger.key}%0A",
        "a null": f"{pinger.key}%00",
        "a slash": f"{organization}.%2F{secret}",
        "twice": f"{pinger.key}.{pinger.key}",
        "a pattern": f"{organization}.*",
        "not ASCII": f"{organization}.%C3%A9",
        "the name of the key": f"{organization}.cron",
        "too long": f"{organization}.{'A' * 20_000}",
    }


def test_unknown_key_is_404_without_a_reason(pinger: Pinger) -> None:
    client, answers = pinger.member.server.client, set()
    for text in unknown_keys(pinger).values():
        # Also with a path and a query that would be refused with a valid key.
        for rest in ("backup?create=1", "backup/start?create=1", "a*/999?rid=x&unknown=1"):
            response = client.post(f"/ping/{text}/{rest}", content=b"x")
            answers.add((response.status_code, response.json()["detail"]))
    assert answers == {(404, "there is no such ping key; an admin creates one with PUT /ping-keys/{name}")}
    assert pinger.commits() == []


def test_hash_of_key_is_not_accepted_as_key(pinger: Pinger) -> None:
    """An attacker who has read the configuration log knows the hash."""
    organization, digest = pinger.member.organization, key_digest(pinger.key)
    for text in (digest, f"{organization}.{digest}"):
        assert pinger.member.server.client.get(f"/ping/{text}/backup?create=1").status_code == 404


@pytest.mark.parametrize("name", OTHER_ROUTES, ids=" ".join)
def test_ping_key_is_no_token_for_other_routes(name: tuple[str, str], pinger: Pinger) -> None:
    method, pattern = name
    if app.routes[pattern][method].authorizer is None:
        return
    path = pattern.replace("+}", "}")
    for parameter, value in (("vocabulary", "job"), ("org", pinger.member.organization), ("collection", "job")):
        path = path.replace(f"{{{parameter}}}", value)
    path = re.sub(r"\{\w+\}", "x", path)
    for headers in (
        {"Authorization": f"Bearer {pinger.key}"},
        {"Authorization": pinger.key},
        {"Authorization": f"Basic {pinger.key}"},
        {"X-Api-Key": pinger.key, "Cookie": f"key={pinger.key}"},
    ):
        response = pinger.member.server.client.request(method, path, headers=headers, json=BODIES.get(pattern, {}))
        assert response.status_code == 401
    assert pinger.commits() == []


def test_token_is_no_ping_key(pinger: Pinger) -> None:
    member = pinger.member
    for text in (member.token, f"{member.organization}.{member.token}", member.token.replace(".", "-")):
        assert member.get(f"/ping/{text}/backup?create=1").status_code == 404


def test_token_and_organization_header_do_not_redirect_ping(pinger: Pinger) -> None:
    victim = pinger.member.server.organization()
    headers = {**victim.headers, "X-Organization": victim.organization}
    assert pinger.ping("backup?create=1", headers=headers).status_code == 201
    assert (victim.read_log()["events"], len(pinger.commits())) == ([], 1)


@pytest.mark.parametrize(
    "path",
    [
        "a%2Fb",
        "a*",
        "%3F",
        "*",
        "a%00",
        "a%0D%0ASet-Cookie:%20x",
        "%7F",
        "x" * 201,
        f"{'%F0%9F%98%80' * 200}?node={'%F0%9F%98%80' * 50}",
        "backup/256",
        "backup/-1",
        "backup/01",
        "backup/stop",
        "backup/START",
        "backup/start%2F",
        "backup/1%20",
        "backup/%D9%A3",
        "backup?rid=1",
        "backup?rid=",
        f"backup?rid={RID}%0A",
        f"backup?rid={RID}&rid={RID}",
        f"backup?rid=%7B{RID}%7D",
        "backup?create=yes",
        "backup?create=1&create=1",
        "backup?node=",
        "backup?node=a%2Fb",
        "backup?node=a%00",
        "backup?node=*",
        f"backup?node={'x' * 201}",
        "backup?key=x",
        "backup?type=x",
    ],
)
def test_invalid_ping_is_400_and_writes_nothing(path: str, pinger: Pinger) -> None:
    for method in ("GET", "HEAD", "POST"):
        response = pinger.ping(f"{path}{'&' if '?' in path else '?'}create=1" if "create" not in path else path, method)
        assert (response.status_code, response.headers["content-type"]) == (400, "application/problem+json")
        assert "set-cookie" not in response.headers
        assert method == "HEAD" or pinger.key not in response.text
    assert pinger.commits() == []


@pytest.mark.parametrize(
    "path", ["", "/", "backup/", "backup/start/", "backup/start/x", "/backup", "backup//start", "..%2Fevents"]
)
def test_other_paths_below_a_key_do_nothing(path: str, pinger: Pinger) -> None:
    response = pinger.ping(f"{path}?create=1")
    assert response.status_code in (400, 404)
    assert pinger.commits() == []


@pytest.mark.parametrize("path", ["../events", "backup/../../events", "..;/events", "%2e%2e/%2e%2e/events"])
def test_dot_segments_reach_no_other_route(path: str, pinger: Pinger) -> None:
    with pinger.member.server.connect() as connection:
        head = f"GET /ping/{pinger.key}/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        status = connection.makefile("rb").readline()
    assert status.split()[1] in (b"400", b"404")
    assert pinger.commits() == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_other_methods_are_not_allowed(method: str, pinger: Pinger) -> None:
    for path in ("backup?create=1", "backup/start?create=1"):
        response = pinger.ping(path, method)
        assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, POST")
    assert pinger.commits() == []


def test_encoded_body_is_refused(pinger: Pinger) -> None:
    response = pinger.ping("backup?create=1", "POST", content=b"x", headers={"Content-Encoding": "gzip"})
    assert (response.status_code, pinger.commits()) == (415, [])


def test_hostile_text_is_stored_as_it_is(pinger: Pinger, server: Server) -> None:
    text = '<script>\x1b[2J"\\\u2028{{7*7}}'
    name = "<b>&'\""
    assert pinger.ping(f"{quote(name)}?create=1", "POST", content=text.encode()).status_code == 201
    job = pinger.job(1)
    assert (job["type"], [line["message"] for line in job["logs"]]) == (name, [text])
    assert server.process.poll() is None


def test_ping_keys_are_not_in_any_readable_log(pinger: Pinger) -> None:
    member: Member = pinger.member
    pinger.new("backup")
    secret = pinger.key.partition(".")[2]
    for path in ("/events", "/events/server", "/events/latest", "/objects/job", "/jobs/1", "/ping-keys", "/system"):
        assert secret not in member.get(path).text
