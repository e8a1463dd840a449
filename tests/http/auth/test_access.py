"""Access control by tokens, organizations and groups."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest

from chalicelib.http.auth.tokens import LEEWAY_S
from tests.serving import JWT_KEY, Member, Server, new_organization_name

AN_EVENT = {"events": [{"type": ["a"]}]}
NEEDS_TOKEN = {
    "type": "about:blank",
    "title": "Unauthorized",
    "status": 401,
    "detail": "send a header 'Authorization: Bearer <token>' with a valid token",
}


def claims(organization: str, **changes: Any) -> dict[str, Any]:
    """The claims of a valid token, with changes. None removes a claim."""
    good = {"sub": "anna", "org": organization, "groups": ["publishers", "readers"], "exp": int(time.time()) + 60}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def forged(header: dict[str, str], content: dict[str, Any], key: str = JWT_KEY) -> str:
    """A token with an HMAC signature, independent of its header."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, content)]
    signature = hmac.new(key.encode(), b".".join(parts), hashlib.sha256).digest()
    return b".".join((*parts, base64.urlsafe_b64encode(signature).rstrip(b"="))).decode()


def signed(content: dict[str, Any], key: str = JWT_KEY) -> str:
    return jwt.encode(content, key, algorithm="HS256")


def with_changed_claims(token: str) -> str:
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
    "expired": lambda org: f"Bearer {signed(claims(org, exp=int(time.time()) - LEEWAY_S - 1))}",
    "not yet valid": lambda org: f"Bearer {signed(claims(org, nbf=int(time.time()) + 60))}",
    "no exp": lambda org: f"Bearer {signed(claims(org, exp=None))}",
    "no sub": lambda org: f"Bearer {signed(claims(org, sub=None))}",
    "an empty sub": lambda org: f"Bearer {signed(claims(org, sub=''))}",
    "a sub that is not text": lambda org: f"Bearer {signed(claims(org) | {'sub': 5})}",
    "organizations that are not names": lambda org: f"Bearer {signed(claims(org, org=[1, 2]))}",
    "groups that are not names": lambda org: f"Bearer {signed(claims(org, groups={'admins': True}))}",
    "alg none": lambda org: f"Bearer {jwt.encode(claims(org), '', algorithm='none')}",
    "alg none with a signature": lambda org: f"Bearer {forged({'alg': 'none'}, claims(org))}",
    "RS256 with the HS256 key": lambda org: f"Bearer {forged({'alg': 'RS256'}, claims(org))}",
    "HS512 with the same key": lambda org: f"Bearer {jwt.encode(claims(org), JWT_KEY * 2, algorithm='HS512')}",
    "changed after signing": lambda org: f"Bearer {with_changed_claims(signed(claims(org)))}",
    "two tokens": lambda org: f"Bearer {signed(claims(org))} {signed(claims(org))}",
}


@pytest.mark.parametrize("name", BAD_TOKENS)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/events"), ("GET", "/events"), ("GET", "/events/server"), ("PUT", "/organizations/acme")],
)
def test_request_without_valid_token_is_refused(
    method: str, path: str, name: str, server: Server, member: Member
) -> None:
    authorization = BAD_TOKENS[name](member.organization)
    headers = {} if authorization is None else {"Authorization": authorization}
    response = server.client.request(method, path, headers=headers, json=AN_EVENT)
    assert (response.status_code, response.headers["www-authenticate"], response.json()) == (401, "Bearer", NEEDS_TOKEN)


def test_valid_token_is_accepted(member: Member) -> None:
    authorization = f"bearer {signed(claims(member.organization))}"
    response = member.server.client.post("/events", headers={"Authorization": authorization}, json=AN_EVENT)
    assert response.status_code == 201


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
def test_groups_determine_rights(groups: list[str], publishes: int, reads: int, member: Member) -> None:
    caller = member.server.member(member.organization, groups=groups, user="bob")
    responses = [caller.post(AN_EVENT), caller.get("/events"), caller.get("/events/server")]
    assert [response.status_code for response in responses] == [publishes, reads, reads]
    refusal = "User or client 'bob' does not have access to that action on this server."
    remedies = {
        "To publish, the token needs one of the groups admins, publishers, pushy_job_writers.",
        "To read, the token needs one of the groups admins, pushy_job_readers, pushy_jobs_readers, readers.",
    }
    refused = [response.json() for response in responses if response.status_code == 403]
    assert {document["detail"] for document in refused} <= {f"{refusal} {remedy}" for remedy in remedies}
    assert all(document["error"] == [refusal] for document in refused)
    assert len(member.read_log()["events"]) == (publishes == 201)


def test_organization_not_in_token_is_forbidden(server: Server, member: Member) -> None:
    stranger = server.organization()
    foreign = {"X-Organization": member.organization}
    responses = [
        stranger.post(AN_EVENT, **foreign),
        stranger.get("/events", headers=foreign),
        stranger.get("/events/server", headers=foreign),
    ]
    detail = f"'anna' is not associated with organization '{member.organization}'"
    assert [(response.status_code, response.json()["detail"]) for response in responses] == 3 * [(403, detail)]
    assert member.read_log()["events"] == []


def test_token_without_organization_is_forbidden(server: Server) -> None:
    response = server.member().post(AN_EVENT)
    assert (response.status_code, response.json()["detail"]) == (403, "'anna' is not associated with any organization")


def test_organization_not_created_is_not_found(server: Server) -> None:
    name = new_organization_name()
    caller = server.member(name)
    responses = [caller.post(AN_EVENT), caller.get("/events"), caller.get("/events/server")]
    detail = f"organization '{name}' does not exist; an admin creates it with PUT /organizations/{name}"
    assert [(response.status_code, response.json()["detail"]) for response in responses] == 3 * [(404, detail)]


def test_header_selects_organization_of_token(server: Server) -> None:
    first, second = server.organization(), server.organization()
    both = server.member(first.organization, second.organization)
    both.post(AN_EVENT)
    both.post({"events": [{"type": ["b"]}]}, **{"X-Organization": second.organization})
    assert [[event["type"] for event in member.read_log()["events"]] for member in (first, second)] == [
        [["a"]],
        [["b"]],
    ]


def test_organization_claim_may_be_text(member: Member) -> None:
    headers = {"Authorization": f"Bearer {signed(claims(member.organization, groups='readers'))}"}
    assert member.server.client.get("/events", headers=headers).status_code == 200


def test_expired_token_is_not_cached(member: Member) -> None:
    ends_s = int(time.time()) + 1
    headers = {"Authorization": f"Bearer {signed(claims(member.organization, exp=ends_s - LEEWAY_S))}"}
    statuses = set()
    while time.time() < ends_s + 0.8:
        asked_s = time.time()
        status = member.server.client.get("/events?timeout=0.2", headers=headers).status_code
        statuses.add((status, asked_s > ends_s + 0.5))
    assert {(200, False), (401, True)} <= statuses <= {(200, False), (401, False), (401, True)}
