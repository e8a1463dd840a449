"""Log lines of functions: JSON with the context of the invocation and without user data."""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from botocore.exceptions import ClientError
from pydantic import BaseModel, ValidationError

import app
from chalicelib import wiring
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.delivery_message import DeliveryMessage
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.redaction import safe_description
from chalicelib.wiring import Components
from infra.server.local_tokens import sign_token
from tests.oidc_issuer import OTHER_RSA_KEY
from tests.serving import JWT_KEY
from tests.telemetry.lambda_runner import FUNCTION, MEMBER, Context, FailingClient, Lambda, message, request

ROOT = Path(__file__).parent.parent.parent
SECRET = "s3cr3tZk9"
UNREACHABLE_ISSUER = "http://127.0.0.1:9"
EVENT = {"type": [SECRET], "key": f"/{SECRET}", "payload": {"type": "json", "data": {SECRET: SECRET}}}
REQUEST_BODY = {"events": [EVENT]}

InstallFault = Callable[[Components], None]


class _Strict(BaseModel):
    number: int


def fail_calls(make: Callable[[], Exception], operation: str = "Query") -> InstallFault:
    """Make all calls of an operation fail."""

    def install(components: Components) -> None:
        log: Any = components.stores.log
        log._client = FailingClient(log._client, operation, make)

    return install


def chained_failure() -> Exception:
    """A failure with a secret in its message, its notes and the messages of its causes."""
    failure, cause = ValueError(f"invalid literal: '{SECRET}'"), KeyError(SECRET)
    failure.__cause__ = cause
    failure.add_note(SECRET)
    try:
        _Strict.model_validate({"number": SECRET})
    except ValidationError as invalid:
        cause.__cause__ = invalid
    return failure


def unavailable() -> Exception:
    return Unavailable("DynamoDB cannot be reached: timed out")


def service_error() -> Exception:
    return ServiceError("Query", 400, "ValidationException", {"message": f"value {SECRET} is not valid"})


def sdk_error() -> Exception:
    error = {"Code": "MessageRejected", "Message": f"{SECRET} is not verified"}
    return ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, "SendEmail")  # type: ignore[typeddict-item]


def delivery_event(observer: str) -> dict[str, Any]:
    """The SQS event of a delivery with a secret in all user data."""
    delivery = Delivery(f"1.1.1/{observer}", 1, observer, Id(1, 1, 1), f"/{SECRET}", f"{SECRET}@example.org")
    return message(DeliveryMessage(delivery).text, group="group")


HEADERS = dict.fromkeys(("x-organization", "idempotency-key", "last-event-id", "accept", "user-agent"), SECRET)
API: dict[str, dict[str, Any]] = {
    "a good request": request("POST", "/events", REQUEST_BODY),
    "a key": request("POST", "/events", REQUEST_BODY, headers={"idempotency-key": SECRET}),
    "no JSON": request("POST", "/events", f'{{"{SECRET}": "{SECRET}'),
    "an unknown field": request("POST", "/events", {**REQUEST_BODY, SECRET: SECRET}),
    "a bad type": request("POST", "/events", {"events": [{"type": [f"{SECRET}?"]}]}),
    "headers": request("GET", "/events", headers={**HEADERS, "authorization": f"Bearer {SECRET}"}),
    "a query": request("GET", "/events", query={"types": SECRET, "keys": SECRET, SECRET: SECRET}),
    "a bad number": request("GET", "/events", query={"after": SECRET}),
    "no member": request("PUT", "/organizations/{org}", path_parameters={"org": SECRET}),
    "nobody": request("POST", "/events", REQUEST_BODY, member=None),
    "an observer": request(
        "PUT",
        "/observers/{name}",
        {"channel": "slack", "config": {"url": f"https://{SECRET}.example/{SECRET}"}, "filter": SECRET},
        path_parameters={"name": "ops"},
    ),
}
FAULTS: dict[str, InstallFault] = {
    "all is well": lambda _: None,
    "no response": fail_calls(unavailable),
    "an unexpected failure of a write": fail_calls(lambda: ValueError(SECRET), "PutItem"),
    "a refusal": fail_calls(service_error),
    "an unexpected failure": fail_calls(chained_failure),
}
FUNCTION_CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "publish": (app.publish, {"org": "acme", **REQUEST_BODY}),
    "publish a bad event": (app.publish, {"org": "acme", "events": [{**EVENT, "type": [f"{SECRET}?"], SECRET: 1}]}),
    "publish for nobody": (app.publish, {"org": f"{SECRET}/{SECRET}", **REQUEST_BODY}),
    "ingest": (app.ingest, message(json.dumps(REQUEST_BODY))),
    "ingest no JSON": (app.ingest, message(f'{{"{SECRET}')),
    "ingest a bad event": (app.ingest, message(json.dumps({"events": [{"type": [f"{SECRET}?"], SECRET: SECRET}]}))),
    "deliver no delivery": (app.deliver, message(SECRET)),
    "deliver mail": (app.deliver, delivery_event("mail")),
    "deliver by Slack": (app.deliver, delivery_event("secretly")),
    "deliver what cannot be rendered": (app.deliver, delivery_event("broken")),
    "no event at all": (app.ingest, {SECRET: SECRET}),
}


@pytest.fixture
def components_with_secrets(components: Components) -> Components:
    """Components with observers whose configurations contain a secret, and an event."""
    url = f"https://127.0.0.1:9/services/{SECRET}"
    components.notifications.observers.put(1, "secretly", Configuration(channel="slack", config={"url": url}))
    components.notifications.observers.put(
        1, "broken", Configuration(channel="app", config={"to": SECRET}, filter=f"event['{SECRET}'].{SECRET} / 0")
    )
    app.publish({"org": "acme", **REQUEST_BODY}, Context())
    return components


@pytest.mark.parametrize("fault_name", FAULTS)
@pytest.mark.parametrize("request_name", API)
def test_api_request_content_is_never_logged(
    aws: Lambda, components_with_secrets: Components, request_name: str, fault_name: str
) -> None:
    FAULTS[fault_name](components_with_secrets)
    aws.read_output()
    aws.api(API[request_name])
    output = aws.read_output()
    assert SECRET not in output.text
    assert [line["correlation_id"] for line in output.log] == ["gateway-1"] * len(output.log)


@pytest.mark.parametrize("fault_name", FAULTS)
@pytest.mark.parametrize("call_name", FUNCTION_CALLS)
def test_function_event_content_is_never_logged(
    aws: Lambda, components_with_secrets: Components, call_name: str, fault_name: str
) -> None:
    FAULTS[fault_name](components_with_secrets)
    aws.read_output()
    aws.call(*FUNCTION_CALLS[call_name])
    output = aws.read_output()
    assert SECRET not in output.text + "".join(aws.raised)
    assert [line["correlation_id"] for line in output.log] == ["lambda-1"] * len(output.log)


@pytest.mark.parametrize("token", [SECRET, f"Bearer {SECRET}", f"Bearer {SECRET}.{SECRET}.{SECRET}", f"Basic {SECRET}"])
def test_authorizer_bad_token_is_denied_without_error(aws: Lambda, token: str) -> None:
    """An exception would count as a failure of the function and raise its alarm."""
    (statement,) = aws.authorizer(token)["policyDocument"]["Statement"]
    assert (statement["Effect"], statement["Resource"]) == ("Deny", "*")
    assert aws.raised == []
    assert SECRET not in aws.read_output().text


def test_authorizer_unexpected_failure_is_logged(
    aws: Lambda, components: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise chained_failure()

    monkeypatch.setattr(components.auth.verifier._keys, "claims", fail)
    assert aws.authorizer(f"Bearer {SECRET}") is None
    output = aws.read_output()
    assert SECRET not in output.text + "".join(aws.raised)
    assert [(line["message"], line["correlation_id"]) for line in output.log] == [("the function failed", "lambda-1")]


@pytest.mark.parametrize("verification", ["authorizer", "functions"])
def test_unreachable_issuer_is_no_denial_and_logged(
    aws: Lambda, components: Components, verification: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API Gateway would cache a denial for a minute."""
    del components
    monkeypatch.setenv("TOKEN_VERIFICATION", verification)
    monkeypatch.setenv("OIDC_ISSUER", UNREACHABLE_ISSUER)
    wiring.get_components.cache_clear()
    claims = {"iss": UNREACHABLE_ISSUER, "sub": "anna", "exp": time.time() + 600}
    token = f"Bearer {jwt.encode(claims, OTHER_RSA_KEY, 'RS256', headers={'kid': SECRET})}"
    if verification == "authorizer":
        assert aws.authorizer(token) is None
        assert aws.raised[0].startswith("Unavailable: the keys of the token's issuer are not available; retry\n")
        correlation_id, last = "lambda-1", "the function failed"
    else:
        response = aws.api(request("GET", "/events", headers={"authorization": token}, member=None))
        assert (response["statusCode"], response["headers"]["Retry-After"]) == (503, "1")
        correlation_id, last = "gateway-1", "Unavailable: the keys of the token's issuer are not available; retry"
    output = aws.read_output()
    fetch_failed = "cannot fetch the issuer's keys: URLError"
    assert [line["message"] for line in output.log] == [fetch_failed, last]
    assert {line["correlation_id"] for line in output.log} == {correlation_id}
    assert SECRET not in output.text
    assert "RefusedTokens" not in output.metrics


def test_api_unexpected_failure_logs_one_line_with_causes(aws: Lambda, components: Components) -> None:
    fail_calls(chained_failure)(components)
    assert aws.api(request("GET", "/events"))["statusCode"] == 500
    (line,) = aws.read_output().log
    description = {name: line[name] for name in line.keys() - {"timestamp", "location", "exception"}}
    assert description == {
        "level": "ERROR",
        "message": "unexpected failure",
        "service": "annals",
        "function_name": FUNCTION,
        "correlation_id": "gateway-1",
        "organization": "acme",
        "cold_start": True,
        "exception_name": "ValueError",
    }
    kinds = [trace.splitlines()[-1] for trace in line["exception"].split("\n\n")]
    assert kinds == ["ValidationError: number: int_parsing", "KeyError: number: int_parsing", "ValueError"]
    assert "in get_events" in line["exception"]


def test_api_unavailable_store_logs_warning(aws: Lambda, components: Components) -> None:
    fail_calls(unavailable)(components)
    assert aws.api(request("GET", "/events"))["statusCode"] == 503
    (line,) = aws.read_output().log
    assert (line["level"], line["organization"]) == ("WARNING", "acme")
    assert line["message"].startswith("Unavailable: DynamoDB cannot be reached")


def test_log_lines_have_id_and_organization_of_invocation(aws: Lambda, components: Components) -> None:
    fail_calls(unavailable)(components)
    other = {**MEMBER, "organizations": '["other"]'}
    aws.api(request("GET", "/events", request_id="one"))
    aws.api(request("GET", "/events", request_id="two", member=other))
    aws.api(request("GET", "/health", request_id="three", member=None))
    aws.call(app.publish, {"org": "acme", "events": []}, Context("four"))
    context = [
        (line["correlation_id"], line.get("organization"), line["cold_start"])
        for line in aws.read_output().log
        if line["level"] in ("WARNING", "ERROR")
    ]
    assert context == [("one", "acme", True), ("two", "other", False), ("three", None, False), ("four", "acme", False)]


@pytest.fixture
def own_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_VERIFICATION", "functions")


@pytest.mark.usefixtures("own_verification")
def test_log_has_organization_of_token_verified_by_app(aws: Lambda, components: Components) -> None:
    fail_calls(unavailable)(components)
    headers = {"authorization": f"Bearer {sign_token(JWT_KEY, 'anna', ['acme'], ['readers'])}"}
    aws.api(request("GET", "/events", headers=headers, member=None))
    (line,) = aws.read_output().log
    assert (line["level"], line["correlation_id"], line["organization"]) == ("WARNING", "gateway-1", "acme")
    logging.getLogger("annals").warning("between requests")
    (line,) = aws.read_output().log
    assert line.keys().isdisjoint({"correlation_id", "organization"})


def test_publish_raises_redacted_exception_with_same_name(aws: Lambda) -> None:
    aws.call(app.publish, {"org": "acme", "events": [{"type": ["a?"]}]})
    aws.call(app.publish, {"org": "nobody", "events": []})
    assert [raised.partition("\n")[0] for raised in aws.raised] == [
        "BadInput: events.0.type.0: string_pattern_mismatch",
        "NoSuchOrganization: ",
    ]


@pytest.mark.parametrize(
    ("failure", "description"),
    [
        (OSError(111, "Connection service_error", SECRET), "ConnectionRefusedError: Connection service_error"),
        (service_error(), "ServiceError: Query: ValidationException"),
        (sdk_error(), "ClientError: MessageRejected"),
        (TypeError("'int' object is not iterable"), "TypeError: 'int' object is not iterable"),
        (ValueError(SECRET), "ValueError"),
        (KeyError(SECRET), "KeyError"),
        (TypeError("x" * 400), f"TypeError: {'x' * 300}…"),
    ],
)
def test_safe_description_contains_no_user_data(failure: Exception, description: str) -> None:
    assert safe_description(failure) == description


def test_embedded_server_imports_no_telemetry(tmp_path: Path) -> None:
    script = """
import sys
import app
from infra.server.gateway.gateway import Gateway
from infra.server.http.protocol import HttpRequest
gateway, request = Gateway(app.app), HttpRequest("GET", "/health", {}, b"")
response = gateway.respond(gateway.find(request), request)
assert response.status_code == 200
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"aws_lambda_powertools", "aws_xray_sdk", "wrapt", "boto3"}))
print("chalicelib.telemetry" in sys.modules)
"""
    environment = {"DATA_DIR": str(tmp_path), "PATH": ""}
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    assert process.stdout == "[]\nFalse\n"
