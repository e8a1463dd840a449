"""Who may do what: tokens, organizations, groups."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest

from tests.serving import JWT_KEY, Member, Server, new_name

AN_EVENT = {"events": [{"type": ["a"]}]}
NEEDS_TOKEN = {
    "type": "about:blank",
    "title": "Unauthorized",
    "status": 401,
    "detail": "this needs a header 'Authorization: Bearer <token>' with a valid token",
}


def claims(organization: str, **changes: Any) -> dict[str, Any]:
    """The claims of a good token, with changes; None takes one away."""
    good = {"sub": "anna", "org": organization, "groups": ["publishers", "readers"], "exp": int(time.time()) + 60}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def forged(header: dict[str, str], content: dict[str, Any], key: str = JWT_KEY) -> str:
    """A token whose header lies: the signature is HMAC whatever the header says."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, content)]
    signature = hmac.new(key.encode(), b".".join(parts), hashlib.sha256).digest()
    return b".".join((*parts, base64.urlsafe_b64encode(signature).rstrip(b"="))).decode()


def signed(content: dict[str, Any], key: str = JWT_KEY) -> str:
    return jwt.encode(content, key, algorithm="HS256")


def tampered(token: str) -> str:
    """A token whose claims were changed after it was signed."""
    header, content, signature = token.split(".")
    changed = json.loads(base64.urlsafe_b64decode(content + "==")) | {"sub": "eve"}
    return f"{header}.{base64.urlsafe_b64encode(json.dumps(changed).encode()).decode().rstrip('=')}.{signature}"


BAD_TOKENS: dict[str, Callable[[str], str | None]] = {
    "no token": lambda _: None,
    "an empty header": lambda _: "",
    "no scheme": lambda org: signed(claims(org)),
    "another scheme": lambda org: f"Basic {signed(claims(org))}",
    "no token after the scheme": lambda _: "Bearer",
    "garbage": lambda _: "Bearer garbage",
    "three parts of garbage": lambda _: "Bearer a.b.c",
    "another key": lambda org: f"Bearer {signed(claims(org), 'another key that is long enough for HS256')}",
    "expired": lambda org: f"Bearer {signed(claims(org, exp=int(time.time()) - 1))}",
    "not yet valid": lambda org: f"Bearer {signed(claims(org, nbf=int(time.time()) + 60))}",
    "no exp": lambda org: f"Bearer {signed(claims(org, exp=None))}",
    "no sub": lambda org: f"Bearer {signed(claims(org, sub=None))}",
    "an empty sub": lambda org: f"Bearer {signed(claims(org, sub=''))}",
    "a sub that is no text": lambda org: f"Bearer {signed(claims(org) | {'sub': 5})}",
    "organizations that are no names": lambda org: f"Bearer {signed(claims(org, org=[1, 2]))}",
    "groups that are no names": lambda org: f"Bearer {signed(claims(org, groups={'admins': True}))}",
    "alg none": lambda org: f"Bearer {jwt.encode(claims(org), '', algorithm='none')}",
    "alg none with a signature": lambda org: f"Bearer {forged({'alg': 'none'}, claims(org))}",
    "RS256 with the HS256 key": lambda org: f"Bearer {forged({'alg': 'RS256'}, claims(org))}",
    "HS512 with the same key": lambda org: f"Bearer {jwt.encode(claims(org), JWT_KEY * 2, algorithm='HS512')}",
    "changed after signing": lambda org: f"Bearer {tampered(signed(claims(org)))}",
    "two tokens": lambda org: f"Bearer {signed(claims(org))} {signed(claims(org))}",
}


@pytest.mark.parametrize("name", BAD_TOKENS)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/events"), ("GET", "/events"), ("GET", "/events/server"), ("PUT", "/organizations/acme")],
)
def test_without_a_good_token_nobody_gets_in(method: str, path: str, name: str, server: Server, member: Member) -> None:
    authorization = BAD_TOKENS[name](member.organization)
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = server.client.request(method, path, headers=headers, json=AN_EVENT)
    assert (answer.status_code, answer.headers["www-authenticate"], answer.json()) == (401, "Bearer", NEEDS_TOKEN)


def test_a_good_token_lets_in(member: Member) -> None:
    authorization = f"bearer {signed(claims(member.organization))}"
    answer = member.server.client.post("/events", headers={"Authorization": authorization}, json=AN_EVENT)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("groups", "publishes", "reads"),
    [
        ([], 403, 403),
        (["others"], 403, 403),
        (["publishers"], 201, 403),
        (["readers"], 403, 200),
        (["publishers", "readers"], 201, 200),
        (["admins"], 201, 200),
        (["pushy_job_writers"], 201, 403),
        (["pushy_job_readers"], 403, 200),
    ],
)
def test_groups_say_what_one_may_do(groups: list[str], publishes: int, reads: int, member: Member) -> None:
    somebody = member.server.member(member.organization, groups=groups, user="bob")
    answers = [somebody.post(AN_EVENT), somebody.get("/events"), somebody.get("/events/server")]
    assert [answer.status_code for answer in answers] == [publishes, reads, reads]
    refusal = "User or client 'bob' does not have access to that action on this server."
    assert {answer.json()["detail"] for answer in answers if answer.status_code == 403} <= {refusal}
    assert len(member.stored()["events"]) == (publishes == 201)


def test_an_organization_that_is_not_in_the_token_is_forbidden(server: Server, member: Member) -> None:
    stranger = server.organization()
    foreign = {"X-Organization": member.organization}
    answers = [
        stranger.post(AN_EVENT, **foreign),
        stranger.get("/events", headers=foreign),
        stranger.get("/events/server", headers=foreign),
    ]
    detail = f"'anna' is not associated with organization '{member.organization}'"
    assert [(answer.status_code, answer.json()["detail"]) for answer in answers] == 3 * [(403, detail)]
    assert member.stored()["events"] == []


def test_a_token_without_an_organization_is_forbidden(server: Server) -> None:
    answer = server.member().post(AN_EVENT)
    assert (answer.status_code, answer.json()["detail"]) == (403, "'anna' is not associated with any organization")


def test_an_organization_that_nobody_created_is_not_found(server: Server) -> None:
    name = new_name()
    somebody = server.member(name)
    answers = [somebody.post(AN_EVENT), somebody.get("/events"), somebody.get("/events/server")]
    detail = f"organization '{name}' does not exist; an admin creates it with PUT /organizations/{name}"
    assert [(answer.status_code, answer.json()["detail"]) for answer in answers] == 3 * [(404, detail)]


def test_the_header_chooses_among_the_tokens_organizations(server: Server) -> None:
    one, other = server.organization(), server.organization()
    both = server.member(one.organization, other.organization)
    both.post(AN_EVENT)
    both.post({"events": [{"type": ["b"]}]}, **{"X-Organization": other.organization})
    assert [[event["type"] for event in member.stored()["events"]] for member in (one, other)] == [[["a"]], [["b"]]]


def test_an_organization_may_be_a_name_instead_of_a_list(member: Member) -> None:
    headers = {"Authorization": f"Bearer {signed(claims(member.organization, groups='readers'))}"}
    assert member.server.client.get("/events", headers=headers).status_code == 200


def test_a_token_is_not_remembered_beyond_its_end(member: Member) -> None:
    ends_s = int(time.time()) + 1
    headers = {"Authorization": f"Bearer {signed(claims(member.organization, exp=ends_s))}"}
    statuses = set()
    while time.time() < ends_s + 0.8:
        asked_s = time.time()
        status = member.server.client.get("/events?timeout=0.2", headers=headers).status_code
        statuses.add((status, asked_s > ends_s + 0.5))
    assert {(200, False), (401, True)} <= statuses <= {(200, False), (401, False), (401, True)}
