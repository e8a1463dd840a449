"""What functions log: JSON that says which request it is about, and nothing that anybody sent."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pydantic import BaseModel, ValidationError

import app
from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.delivery_message import Queued
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.redaction import described
from chalicelib.wiring import Annals
from tests.telemetry.lambdas import FUNCTION, MEMBER, Context, Failing, Lambda, message, request

ROOT = Path(__file__).parent.parent.parent
SECRET = "s3cr3tZk9"
EVENT = {"type": [SECRET], "key": f"/{SECRET}", "payload": {"type": "json", "data": {SECRET: SECRET}}}
POSTED = {"events": [EVENT]}

Fault = Callable[[Annals], None]


class _Strict(BaseModel):
    number: int


def fault(make: Callable[[], Exception], operation: str = "Query") -> Fault:
    """Have every such call of the log fail."""

    def install(parts: Annals) -> None:
        log: Any = parts.log
        log._client = Failing(log._client, operation, make)

    return install


def chained() -> Exception:
    """A failure with a secret in its words, in those of its cause and of that one's, and in a note."""
    failure, cause = ValueError(f"invalid literal: '{SECRET}'"), KeyError(SECRET)
    failure.__cause__ = cause
    failure.add_note(SECRET)
    try:
        _Strict.model_validate({"number": SECRET})
    except ValidationError as invalid:
        cause.__cause__ = invalid
    return failure


def no_answer() -> Exception:
    return Unavailable("DynamoDB cannot be reached: timed out")


def refused() -> Exception:
    return Refusal("Query", 400, "ValidationException", {"message": f"value {SECRET} is not valid"})


def refused_by_sdk() -> Exception:
    error = {"Code": "MessageRejected", "Message": f"{SECRET} is not verified"}
    return ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, "SendEmail")  # type: ignore[typeddict-item]


def told_by(observer: str) -> dict[str, Any]:
    """The event of a delivery with a secret in all that is somebody's."""
    delivery = Delivery(f"1.1.1/{observer}", 1, observer, Id(1, 1, 1), f"/{SECRET}", f"{SECRET}@example.org")
    return message(Queued(delivery).text, group="group")


HEADERS = dict.fromkeys(("x-organization", "idempotency-key", "last-event-id", "accept", "user-agent"), SECRET)
API: dict[str, dict[str, Any]] = {
    "a good request": request("POST", "/events", POSTED),
    "a key": request("POST", "/events", POSTED, headers={"idempotency-key": SECRET}),
    "no JSON": request("POST", "/events", f'{{"{SECRET}": "{SECRET}'),
    "an unknown field": request("POST", "/events", {**POSTED, SECRET: SECRET}),
    "a bad type": request("POST", "/events", {"events": [{"type": [f"{SECRET}?"]}]}),
    "headers": request("GET", "/events", headers={**HEADERS, "authorization": f"Bearer {SECRET}"}),
    "a query": request("GET", "/events", query={"types": SECRET, "keys": SECRET, SECRET: SECRET}),
    "a bad number": request("GET", "/events", query={"after": SECRET}),
    "no member": request("PUT", "/organizations/{org}", path_parameters={"org": SECRET}),
    "nobody": request("POST", "/events", POSTED, member=None),
    "an observer": request(
        "PUT",
        "/observers/{name}",
        {"channel": "slack", "config": {"url": f"https://{SECRET}.example/{SECRET}"}, "filter": SECRET},
        path_parameters={"name": "ops"},
    ),
}
FAULTS: dict[str, Fault] = {
    "all is well": lambda _: None,
    "no answer": fault(no_answer),
    "an unexpected failure of a write": fault(lambda: ValueError(SECRET), "PutItem"),
    "a refusal": fault(refused),
    "an unexpected failure": fault(chained),
}
OTHERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "publish": (app.publish, {"org": "acme", **POSTED}),
    "publish a bad event": (app.publish, {"org": "acme", "events": [{**EVENT, "type": [f"{SECRET}?"], SECRET: 1}]}),
    "publish for nobody": (app.publish, {"org": f"{SECRET}/{SECRET}", **POSTED}),
    "ingest": (app.ingest, message(json.dumps(POSTED))),
    "ingest no JSON": (app.ingest, message(f'{{"{SECRET}')),
    "ingest a bad event": (app.ingest, message(json.dumps({"events": [{"type": [f"{SECRET}?"], SECRET: SECRET}]}))),
    "deliver no delivery": (app.deliver, message(SECRET)),
    "deliver mail": (app.deliver, told_by("mail")),
    "deliver by Slack": (app.deliver, told_by("secretly")),
    "deliver what cannot be rendered": (app.deliver, told_by("broken")),
    "no event at all": (app.ingest, {SECRET: SECRET}),
}


@pytest.fixture
def configured(parts: Annals) -> Annals:
    """With observers whose configurations hold a secret, and an event to tell them of."""
    url = f"https://127.0.0.1:9/services/{SECRET}"
    parts.observers.put(1, "secretly", Configuration(channel="slack", config={"url": url}))
    parts.observers.put(
        1, "broken", Configuration(channel="app", config={"to": SECRET}, filter=f"event['{SECRET}'].{SECRET} / 0")
    )
    app.publish({"org": "acme", **POSTED}, Context())
    return parts


@pytest.mark.parametrize("wrong", FAULTS)
@pytest.mark.parametrize("asked", API)
def test_nothing_of_a_request_is_written_whatever_happens(
    aws: Lambda, configured: Annals, asked: str, wrong: str
) -> None:
    FAULTS[wrong](configured)
    aws.written()
    aws.api(API[asked])
    written = aws.written()
    assert SECRET not in written.text
    assert [line["correlation_id"] for line in written.log] == ["gateway-1"] * len(written.log)


@pytest.mark.parametrize("wrong", FAULTS)
@pytest.mark.parametrize("called", OTHERS)
def test_nothing_of_an_event_is_written_whatever_happens(
    aws: Lambda, configured: Annals, called: str, wrong: str
) -> None:
    FAULTS[wrong](configured)
    aws.written()
    aws.call(*OTHERS[called])
    written = aws.written()
    assert SECRET not in written.text + "".join(aws.raised)
    assert [line["correlation_id"] for line in written.log] == ["lambda-1"] * len(written.log)


@pytest.mark.parametrize("token", [SECRET, f"Bearer {SECRET}", f"Bearer {SECRET}.{SECRET}.{SECRET}", f"Basic {SECRET}"])
def test_a_bad_token_is_unauthorized_and_not_written(aws: Lambda, token: str) -> None:
    assert aws.authorizer(token) is None
    assert aws.raised[0].startswith("Unauthorized: Unauthorized\n")
    assert SECRET not in aws.written().text + "".join(aws.raised)


def test_a_token_that_cannot_be_checked_is_a_failure_that_is_logged(
    aws: Lambda, parts: Annals, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise chained()

    monkeypatch.setattr(parts.verifier._keys, "claims", fail)
    assert aws.authorizer(f"Bearer {SECRET}") is None
    written = aws.written()
    assert SECRET not in written.text + "".join(aws.raised)
    assert [(line["message"], line["correlation_id"]) for line in written.log] == [("the function failed", "lambda-1")]


def test_a_failure_is_one_line_with_all_that_finds_its_cause(aws: Lambda, parts: Annals) -> None:
    fault(chained)(parts)
    assert aws.api(request("GET", "/events"))["statusCode"] == 500
    (line,) = aws.written().log
    told = {name: line[name] for name in line.keys() - {"timestamp", "location", "exception"}}
    assert told == {
        "level": "ERROR",
        "message": "unexpected failure",
        "service": "annals",
        "function_name": FUNCTION,
        "correlation_id": "gateway-1",
        "organization": "acme",
        "cold_start": True,
        "exception_name": "ValueError",
    }
    kinds = [one.splitlines()[-1] for one in line["exception"].split("\n\n")]
    assert kinds == ["ValidationError: number: int_parsing", "KeyError: number: int_parsing", "ValueError"]
    assert "in get_events" in line["exception"]


def test_a_store_without_an_answer_is_a_warning(aws: Lambda, parts: Annals) -> None:
    fault(no_answer)(parts)
    assert aws.api(request("GET", "/events"))["statusCode"] == 503
    (line,) = aws.written().log
    assert (line["level"], line["organization"]) == ("WARNING", "acme")
    assert line["message"].startswith("Unavailable: DynamoDB cannot be reached")


def test_two_invocations_share_neither_id_nor_organization(aws: Lambda, parts: Annals) -> None:
    fault(no_answer)(parts)
    other = {**MEMBER, "organizations": '["other"]'}
    aws.api(request("GET", "/events", request_id="one"))
    aws.api(request("GET", "/events", request_id="two", member=other))
    aws.api(request("GET", "/health", request_id="three", member=None))
    aws.call(app.publish, {"org": "acme", "events": []}, Context("four"))
    found = [
        (line["correlation_id"], line.get("organization"), line["cold_start"])
        for line in aws.written().log
        if line["level"] in ("WARNING", "ERROR")
    ]
    assert found == [("one", "acme", True), ("two", "other", False), ("three", None, False), ("four", "acme", False)]


def test_what_a_function_raises_keeps_its_name_and_says_where(aws: Lambda) -> None:
    aws.call(app.publish, {"org": "acme", "events": [{"type": ["a?"]}]})
    aws.call(app.publish, {"org": "nobody", "events": []})
    assert [raised.partition("\n")[0] for raised in aws.raised] == [
        "BadInput: events.0.type.0: string_pattern_mismatch",
        "NoSuchOrganization: ",
    ]


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (OSError(111, "Connection refused", SECRET), "ConnectionRefusedError: Connection refused"),
        (refused(), "Refusal: ValidationException"),
        (refused_by_sdk(), "ClientError: MessageRejected"),
        (TypeError("'int' object is not iterable"), "TypeError: 'int' object is not iterable"),
        (ValueError(SECRET), "ValueError"),
        (KeyError(SECRET), "KeyError"),
        (TypeError("x" * 400), f"TypeError: {'x' * 300}…"),
    ],
)
def test_a_failure_is_described_without_quoting_anybody(failure: Exception, told: str) -> None:
    assert described(failure) == told


def test_the_embedded_server_loads_nothing_of_this(tmp_path: Path) -> None:
    script = """
import sys
import app
from infra.server.gateway.gateway import Gateway, HttpRequest
answer = Gateway(app.app).answer(HttpRequest("GET", "/health", {}, b""))
assert answer.status_code == 200
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"aws_lambda_powertools", "aws_xray_sdk", "wrapt", "boto3"}))
print("chalicelib.telemetry" in sys.modules)
"""
    environment = {"DATA_DIR": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout == "[]\nFalse\n"
