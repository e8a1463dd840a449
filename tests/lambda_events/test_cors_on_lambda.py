"""Cross-origin requests to the API function: API Gateway passes preflight requests to it, too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import app
from tests.telemetry.conftest import reset_process
from tests.telemetry.lambda_runner import FUNCTION, Context, request

ALLOWED = "https://portal.example.org"
ALLOW_ORIGIN = "Access-Control-Allow-Origin"


@pytest.fixture(autouse=True)
def function_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"STORE": "sqlite", "DATA_DIR": str(tmp_path), "AWS_LAMBDA_FUNCTION_NAME": FUNCTION}.items():
        monkeypatch.setenv(name, value)
    reset_process()
    yield
    reset_process()


def call(method: str, path: str, origin: str) -> dict[str, Any]:
    response: dict[str, Any] = app.app(request(method, path, headers={"origin": origin}), Context())
    return response


def test_function_answers_preflight_of_allowed_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORS_ORIGINS", ALLOWED)
    response = call("OPTIONS", "/events", ALLOWED)
    assert (response["statusCode"], response["headers"][ALLOW_ORIGIN]) == (204, ALLOWED)
    assert response["headers"]["Access-Control-Allow-Methods"] == "GET, POST"


def test_function_adds_cors_headers_to_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORS_ORIGINS", "*")
    health, problem = call("GET", "/health", ALLOWED), call("GET", "/reports", ALLOWED)
    assert (health["statusCode"], problem["statusCode"]) == (200, 404)
    assert [response["headers"][ALLOW_ORIGIN] for response in (health, problem)] == ["*", "*"]


def test_function_refuses_other_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORS_ORIGINS", "https://second.example.org")
    responses = [call("OPTIONS", "/events", ALLOWED), call("GET", "/health", ALLOWED)]
    assert [response["statusCode"] for response in responses] == [405, 200]
    assert not [response for response in responses if ALLOW_ORIGIN in response["headers"]]
