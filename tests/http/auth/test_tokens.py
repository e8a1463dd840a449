"""Tokens of an OIDC issuer, such as Cognito, whose keys are fetched over HTTP."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest

from chalicelib import wiring
from chalicelib.domain.errors import Unavailable
from chalicelib.http.auth.tokens import LEEWAY_S, BadToken, Claims, LocalKey
from chalicelib.settings import Settings
from tests.oidc_issuer import (
    AUDIENCE,
    EC_KEY,
    EXPIRES_S,
    OTHER_RSA_KEY,
    RSA_KEY,
    SHARED_SECRET,
    Issuer,
    public_pem,
    sign,
    sign_with_hmac,
)
from tests.serving import JWT_KEY, TIMEOUT_S, run_server


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    running = Issuer()
    yield running
    running.close()


@pytest.mark.parametrize(
    ("kid", "key", "algorithm"), [("rsa", RSA_KEY, "RS256"), ("ec", EC_KEY, "ES256")], ids=["RS256", "ES256"]
)
def test_token_signed_by_issuer_is_accepted(kid: str, key: Any, algorithm: str, issuer: Issuer) -> None:
    claims = issuer.verifier().verify(sign(issuer.claims(), kid, key, algorithm))
    assert claims == Claims("anna", ("acme", "other"), ("readers",), EXPIRES_S)


def test_configured_jwks_url_is_used(issuer: Issuer) -> None:
    verifier = issuer.verifier(OIDC_ISSUER="https://issuer.example", JWKS_URL=f"{issuer.url}/keys")
    token = sign(issuer.claims(iss="https://issuer.example"))
    assert verifier.verify(token).user == "anna"


def test_token_with_several_audiences_is_accepted(issuer: Issuer) -> None:
    assert issuer.verifier().verify(sign(issuer.claims(aud=["x", AUDIENCE]))).user == "anna"


def test_cognito_client_id_is_accepted_as_audience(issuer: Issuer) -> None:
    verifier = issuer.verifier(ORG_CLAIM="custom:org", GROUPS_CLAIM="cognito:groups")
    token = sign(
        issuer.claims(
            aud=None,
            client_id=AUDIENCE,
            token_use="access",
            scope="openid",
            org=None,
            groups=None,
            **{"custom:org": "acme", "cognito:groups": ["publishers", "readers"]},
        )
    )
    assert verifier.verify(token) == Claims("anna", ("acme",), ("publishers", "readers"), EXPIRES_S)


def test_any_audience_is_accepted_without_configuration(issuer: Issuer) -> None:
    verifier = issuer.verifier(OIDC_AUDIENCE="")
    assert [verifier.verify(sign(issuer.claims(aud=aud))).user for aud in ("x", None)] == ["anna", "anna"]


def test_token_without_org_and_groups_has_empty_claims(issuer: Issuer) -> None:
    claims = issuer.verifier().verify(sign(issuer.claims(org=None, groups=None)))
    assert (claims.organizations, claims.groups) == ((), ())


BAD: dict[str, Callable[[Issuer], str]] = {
    "another key under the same name": lambda issuer: sign(issuer.claims(), key=OTHER_RSA_KEY),
    "an unknown key": lambda issuer: sign(issuer.claims(), kid="unknown"),
    "no name of a key": lambda issuer: sign(issuer.claims(), kid=None),
    "another issuer": lambda issuer: sign(issuer.claims(iss="https://evil.example")),
    "no issuer": lambda issuer: sign(issuer.claims(iss=None)),
    "another audience": lambda issuer: sign(issuer.claims(aud="others")),
    "no audience": lambda issuer: sign(issuer.claims(aud=None)),
    "another client": lambda issuer: sign(issuer.claims(aud=None, client_id="others")),
    "expired": lambda issuer: sign(issuer.claims(exp=int(time.time()) - LEEWAY_S - 1)),
    "not yet valid": lambda issuer: sign(issuer.claims(nbf=int(time.time()) + 600)),
    "issued in the future": lambda issuer: sign(issuer.claims(iat=int(time.time()) + 600)),
    "no exp": lambda issuer: sign(issuer.claims(exp=None)),
    "no sub": lambda issuer: sign(issuer.claims(sub=None)),
    "an empty sub": lambda issuer: sign(issuer.claims(sub="")),
    "the EC key with the name of the RSA key": lambda issuer: sign(issuer.claims(), "rsa", EC_KEY, "ES256"),
    "the RSA key with the name of the EC key": lambda issuer: sign(issuer.claims(), "ec"),
    "the public key as a secret": lambda issuer: sign_with_hmac(
        issuer.claims(), {"alg": "HS256", "kid": "rsa"}, public_pem()
    ),
    "a secret that the issuer published": lambda issuer: sign_with_hmac(
        issuer.claims(), {"alg": "HS256", "kid": "oct"}, SHARED_SECRET.encode()
    ),
    "the local key": lambda issuer: sign_with_hmac(issuer.claims(), {"alg": "HS256", "kid": "rsa"}, JWT_KEY.encode()),
    "no signature": lambda issuer: f"Bearer {jwt.encode(issuer.claims(), '', 'none', headers={'kid': 'rsa'})}",
    "garbage": lambda _: "Bearer garbage",
    "nothing": lambda _: "",
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_token_is_refused(name: str, issuer: Issuer) -> None:
    with pytest.raises(BadToken):
        issuer.verifier(JWT_KEY=JWT_KEY).verify(BAD[name](issuer))


@pytest.mark.parametrize(("claim", "seconds"), [("exp", 5 - LEEWAY_S), ("nbf", LEEWAY_S - 5), ("iat", LEEWAY_S - 5)])
def test_clocks_may_differ_by_the_leeway(claim: str, seconds: int, issuer: Issuer) -> None:
    claims = issuer.claims(**{claim: int(time.time()) + seconds})
    assert issuer.verifier().verify(sign(claims)).user == "anna"
    assert LocalKey(JWT_KEY).claims(jwt.encode(claims, JWT_KEY))["sub"] == "anna"


def test_unknown_keys_do_not_cause_repeated_requests(issuer: Issuer) -> None:
    """The first one is refused. Whether the issuer has since published the others is not known."""
    verifier = issuer.verifier()
    issuer.requests.clear()
    for number, refusal in enumerate([BadToken, *[Unavailable] * 4]):
        with pytest.raises(refusal):
            verifier.verify(sign(issuer.claims(), kid=f"unknown {number}"))
    assert issuer.requests == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize("name", ["another issuer", "another audience", "expired"])
def test_token_with_wrong_claims_causes_no_request(name: str, issuer: Issuer) -> None:
    issuer.requests.clear()
    with pytest.raises(BadToken):
        issuer.verifier().verify(BAD[name](issuer))
    assert issuer.requests == []


def test_issuer_without_keys_is_refused(issuer: Issuer) -> None:
    verifier = wiring.build_verifier(Settings.from_environment({}))
    for key in ("", "None"):
        with pytest.raises(BadToken):
            verifier.verify(sign_with_hmac(issuer.claims(), {"alg": "HS256"}, key.encode()))


def test_server_accepts_tokens_of_the_issuer(issuer: Issuer, tmp_path: Path) -> None:
    """With a configured issuer, tokens signed with the server's own key are refused."""
    with run_server(tmp_path, OIDC_ISSUER=issuer.url, OIDC_AUDIENCE=AUDIENCE) as server:
        good = {"Authorization": sign(issuer.claims(org="local", groups=["readers", "publishers"]))}
        responses = [
            server.client.post("/events", json={"events": [{"type": ["a"]}]}, headers=good),
            server.client.get("/events", headers=good),
            server.client.get("/events", headers=server.member("local").headers),
            server.client.get("/events", headers={"Authorization": sign(issuer.claims(), key=OTHER_RSA_KEY)}),
        ]
    assert [response.status_code for response in responses] == [201, 200, 401, 401]


def test_server_with_unreachable_issuer_returns_503(tmp_path: Path) -> None:
    """Not 401, after which a client would give up."""
    stopped = Issuer()
    stopped.close()
    with run_server(tmp_path, OIDC_ISSUER=stopped.url, OIDC_AUDIENCE=AUDIENCE) as server:
        response = server.client.get("/events", headers={"Authorization": sign(stopped.claims(org="local"))})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["detail"] == "the keys of the token's issuer are not available; retry"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_slow_issuer_does_not_delay_other_requests(method: str, issuer: Issuer, tmp_path: Path) -> None:
    with run_server(tmp_path, OIDC_ISSUER=issuer.url, OIDC_AUDIENCE=AUDIENCE) as server, ThreadPoolExecutor(1) as pool:
        headers = {"Authorization": sign(issuer.claims(org="local", groups=["readers", "publishers"]))}
        issuer.is_requested.clear()
        issuer.may_respond.clear()
        try:
            waiting = pool.submit(server.client.request, method, "/events", json={"events": []}, headers=headers)
            assert issuer.is_requested.wait(TIMEOUT_S)
            health = server.client.get("/health", timeout=3.0)
        finally:
            issuer.may_respond.set()
        assert (health.status_code, waiting.result(TIMEOUT_S).status_code) == (200, 200)
