"""Tokens of an OIDC issuer whose keys come over HTTP, as Cognito's do."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest

from chalicelib import wiring
from chalicelib.http.auth.tokens import BadToken, Claims
from chalicelib.settings import Settings
from tests.issuing import (
    AUDIENCE,
    EC_KEY,
    EXPIRES_S,
    OTHER_RSA_KEY,
    RSA_KEY,
    SHARED_SECRET,
    Issuer,
    hmac_signed,
    public_pem,
    signed,
)
from tests.serving import JWT_KEY, PATIENCE_S, serving


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    running = Issuer()
    yield running
    running.close()


@pytest.mark.parametrize(
    ("kid", "key", "algorithm"), [("rsa", RSA_KEY, "RS256"), ("ec", EC_KEY, "ES256")], ids=["RS256", "ES256"]
)
def test_a_token_that_the_issuer_signed_is_good(kid: str, key: Any, algorithm: str, issuer: Issuer) -> None:
    claims = issuer.verifier().verify(signed(issuer.claims(), kid, key, algorithm))
    assert claims == Claims("anna", ("acme", "other"), ("readers",), EXPIRES_S)


def test_the_keys_may_be_elsewhere_than_the_issuer_says(issuer: Issuer) -> None:
    verifier = issuer.verifier(OIDC_ISSUER="https://issuer.example", JWKS_URL=f"{issuer.url}/keys")
    token = signed(issuer.claims(iss="https://issuer.example"))
    assert verifier.verify(token).user == "anna"


def test_a_token_may_be_for_several_audiences(issuer: Issuer) -> None:
    assert issuer.verifier().verify(signed(issuer.claims(aud=["x", AUDIENCE]))).user == "anna"


def test_an_access_token_of_cognito_names_the_client_instead_of_the_audience(issuer: Issuer) -> None:
    verifier = issuer.verifier(ORG_CLAIM="custom:org", GROUPS_CLAIM="cognito:groups")
    token = signed(
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


def test_without_a_configured_audience_any_will_do(issuer: Issuer) -> None:
    verifier = issuer.verifier(OIDC_AUDIENCE="")
    assert [verifier.verify(signed(issuer.claims(aud=aud))).user for aud in ("x", None)] == ["anna", "anna"]


def test_a_token_without_organizations_and_groups_has_none(issuer: Issuer) -> None:
    claims = issuer.verifier().verify(signed(issuer.claims(org=None, groups=None)))
    assert (claims.organizations, claims.groups) == ((), ())


BAD: dict[str, Callable[[Issuer], str]] = {
    "another key under the same name": lambda issuer: signed(issuer.claims(), key=OTHER_RSA_KEY),
    "an unknown key": lambda issuer: signed(issuer.claims(), kid="unknown"),
    "no name of a key": lambda issuer: signed(issuer.claims(), kid=None),
    "another issuer": lambda issuer: signed(issuer.claims(iss="https://evil.example")),
    "no issuer": lambda issuer: signed(issuer.claims(iss=None)),
    "another audience": lambda issuer: signed(issuer.claims(aud="others")),
    "no audience": lambda issuer: signed(issuer.claims(aud=None)),
    "another client": lambda issuer: signed(issuer.claims(aud=None, client_id="others")),
    "expired": lambda issuer: signed(issuer.claims(exp=int(time.time()) - 1)),
    "not yet valid": lambda issuer: signed(issuer.claims(nbf=int(time.time()) + 600)),
    "no exp": lambda issuer: signed(issuer.claims(exp=None)),
    "no sub": lambda issuer: signed(issuer.claims(sub=None)),
    "an empty sub": lambda issuer: signed(issuer.claims(sub="")),
    "the EC key with the name of the RSA key": lambda issuer: signed(issuer.claims(), "rsa", EC_KEY, "ES256"),
    "the RSA key with the name of the EC key": lambda issuer: signed(issuer.claims(), "ec"),
    "the public key as a secret": lambda issuer: hmac_signed(
        issuer.claims(), {"alg": "HS256", "kid": "rsa"}, public_pem()
    ),
    "a secret that the issuer published": lambda issuer: hmac_signed(
        issuer.claims(), {"alg": "HS256", "kid": "oct"}, SHARED_SECRET.encode()
    ),
    "the local key": lambda issuer: hmac_signed(issuer.claims(), {"alg": "HS256", "kid": "rsa"}, JWT_KEY.encode()),
    "no signature": lambda issuer: f"Bearer {jwt.encode(issuer.claims(), '', 'none', headers={'kid': 'rsa'})}",
    "garbage": lambda _: "Bearer garbage",
    "nothing": lambda _: "",
}


@pytest.mark.parametrize("name", BAD)
def test_any_other_token_is_bad(name: str, issuer: Issuer) -> None:
    with pytest.raises(BadToken):
        issuer.verifier(JWT_KEY=JWT_KEY).verify(BAD[name](issuer))


def test_the_issuer_is_not_asked_again_for_every_unknown_key(issuer: Issuer) -> None:
    verifier = issuer.verifier()
    issuer.asked.clear()
    for number in range(5):
        with pytest.raises(BadToken):
            verifier.verify(signed(issuer.claims(), kid=f"unknown {number}"))
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


def test_without_any_key_nobody_gets_in(issuer: Issuer) -> None:
    verifier = wiring.verifier(Settings.from_environment({}))
    for key in ("", "None"):
        with pytest.raises(BadToken):
            verifier.verify(hmac_signed(issuer.claims(), {"alg": "HS256"}, key.encode()))


def test_the_server_asks_the_issuer(issuer: Issuer, tmp_path: Path) -> None:
    """With an issuer configured its tokens are good, and those of the server's own key are not."""
    with serving(tmp_path, OIDC_ISSUER=issuer.url, OIDC_AUDIENCE=AUDIENCE) as server:
        good = {"Authorization": signed(issuer.claims(org="local", groups=["readers", "publishers"]))}
        answers = [
            server.client.post("/events", json={"events": [{"type": ["a"]}]}, headers=good),
            server.client.get("/events", headers=good),
            server.client.get("/events", headers=server.member("local").headers),
            server.client.get("/events", headers={"Authorization": signed(issuer.claims(org="local"), kid="unknown")}),
        ]
    assert [answer.status_code for answer in answers] == [201, 200, 401, 401]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_issuer_that_takes_its_time_holds_up_nobody_else(method: str, issuer: Issuer, tmp_path: Path) -> None:
    with serving(tmp_path, OIDC_ISSUER=issuer.url, OIDC_AUDIENCE=AUDIENCE) as server, ThreadPoolExecutor(1) as pool:
        headers = {"Authorization": signed(issuer.claims(org="local", groups=["readers", "publishers"]))}
        issuer.is_asked.clear()
        issuer.may_answer.clear()
        try:
            waiting = pool.submit(server.client.request, method, "/events", json={"events": []}, headers=headers)
            assert issuer.is_asked.wait(PATIENCE_S)
            health = server.client.get("/health", timeout=3.0)
        finally:
            issuer.may_answer.set()
        assert (health.status_code, waiting.result(PATIENCE_S).status_code) == (200, 200)
