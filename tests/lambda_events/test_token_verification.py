"""TOKEN_VERIFICATION=functions: the API functions verify tokens with the results of the authorizer."""

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import app
from chalicelib import wiring
from infra.server.local_tokens import sign_token
from tests.oidc_issuer import AUDIENCE, OTHER_RSA_KEY, Issuer, sign
from tests.serving import JWT_KEY
from tests.telemetry.conftest import reset_process
from tests.telemetry.lambda_runner import FUNCTION, MEMBER, Context, request

Configure = Callable[..., None]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Configure]:
    """Sets the environment of the function, and creates the organization acme."""

    def set_environment(**environment: str) -> None:
        own = {"STORE": "sqlite", "DATA_DIR": str(tmp_path), "AWS_LAMBDA_FUNCTION_NAME": FUNCTION}
        for name, value in {**own, **environment}.items():
            monkeypatch.setenv(name, value)
        reset_process()
        wiring.get_components().log.organizations.create("acme")

    yield set_environment
    wiring.get_components().close()
    reset_process()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    running = Issuer()
    yield running
    running.close()


def call(path: str, authorization: str | None, member: object = None, **headers: str) -> tuple[int, dict[str, Any]]:
    if authorization is not None:
        headers["authorization"] = authorization
    response = app.app(request("GET", path, headers=headers, member=member), Context())
    return response["statusCode"], json.loads(response["body"])


def test_functions_accept_valid_token_only(configure: Configure) -> None:
    configure(JWT_KEY=JWT_KEY, TOKEN_VERIFICATION="functions")
    token = sign_token(JWT_KEY, "anna", ["acme"], ["readers"])
    status, me = call("/me", f"Bearer {token}")
    assert (status, me["user"], me["organizations"], me["groups"]) == (200, "anna", ["acme"], ["readers"])
    for authorization in (None, "", f"Bearer {token}x", f"Basic {token}"):
        status, problem = call("/me", authorization, MEMBER)
        assert (status, problem["detail"]) == (401, "send a header 'Authorization: Bearer <token>' with a valid token")


def test_functions_verify_nothing_after_authorizer(configure: Configure) -> None:
    configure(JWT_KEY=JWT_KEY, TOKEN_VERIFICATION="authorizer")
    token = sign_token(JWT_KEY, "anna", ["acme"], ["readers"])
    assert call("/me", None, MEMBER)[0] == 200
    assert call("/me", f"Bearer {token}")[0] == 403


def test_functions_without_key_accept_no_token(configure: Configure) -> None:
    configure(JWT_KEY="", TOKEN_VERIFICATION="functions")
    assert call("/me", f"Bearer {sign_token(JWT_KEY, 'anna', ['acme'], ['readers'])}")[0] == 401


@pytest.mark.parametrize("verification", ["functions", "authorizer"])
def test_public_route_needs_no_token(configure: Configure, verification: str) -> None:
    configure(JWT_KEY=JWT_KEY, TOKEN_VERIFICATION=verification)
    assert call("/health", "Bearer nonsense")[0] == 200


def test_rights_of_verified_token_are_checked(configure: Configure) -> None:
    configure(JWT_KEY=JWT_KEY, TOKEN_VERIFICATION="functions")
    stranger = sign_token(JWT_KEY, "anna", ["acme"], ["strangers"])
    assert call("/events", f"Bearer {stranger}")[0] == 403
    foreign = sign_token(JWT_KEY, "anna", ["other"], ["readers"])
    assert call("/events", f"Bearer {foreign}", **{"x-organization": "acme"})[0] == 403


def test_functions_verify_tokens_of_issuer(configure: Configure, issuer: Issuer) -> None:
    configure(OIDC_ISSUER=issuer.url, OIDC_AUDIENCE=AUDIENCE, JWT_KEY=JWT_KEY, TOKEN_VERIFICATION="functions")
    status, me = call("/me", sign(issuer.claims()))
    assert (status, me["user"], me["organizations"]) == (200, "anna", ["acme", "other"])
    refused = [
        sign(issuer.claims(), key=OTHER_RSA_KEY),
        sign(issuer.claims(exp=int(time.time()) - 3_600)),
        sign(issuer.claims(aud="others")),
        f"Bearer {sign_token(JWT_KEY, 'anna', ['acme'], ['readers'])}",
    ]
    assert [call("/me", authorization)[0] for authorization in refused] == [401] * 4


def test_unreachable_issuer_is_temporary_failure(configure: Configure, issuer: Issuer) -> None:
    def fail(handler: BaseHTTPRequestHandler) -> None:
        handler.send_error(500)

    issuer.respond = fail
    configure(OIDC_ISSUER=issuer.url, OIDC_AUDIENCE=AUDIENCE, TOKEN_VERIFICATION="functions")
    response = app.app(request("GET", "/me", headers={"authorization": sign(issuer.claims())}, member=None), Context())
    assert (response["statusCode"], response["headers"]["Retry-After"]) == (503, "1")
    assert response["headers"]["Content-Type"] == "application/problem+json"
