"""Signatures, compared with those of the SDK."""

import string
from calendar import timegm
from collections.abc import Mapping
from datetime import UTC, datetime
from time import strptime

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as SdkCredentials
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.adapters.aws.client import DYNAMODB, SQS, Service, create_client
from chalicelib.adapters.aws.sigv4 import Credentials, Scope, sign
from tests.adapters.aws.endpoints import Request, recording_server
from tests.torture.stores import REGION

TIME = "%Y%m%dT%H%M%SZ"
names = st.text(string.ascii_lowercase + string.digits + "-", min_size=1).map("x-annals-{}".format)
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1)
secrets = st.text(string.ascii_letters + string.digits + "/+=", min_size=1)
lowercase_words = st.text(string.ascii_lowercase + string.digits + "-", min_size=1)


def sdk_authorization(
    headers: Mapping[str, str], body: bytes, credentials: Credentials, scope: Scope, now_s: float
) -> str:
    """The Authorization header that the SDK computes for the same request."""
    request = AWSRequest("POST", f"https://{headers['host']}/", dict(headers), body)
    request.context["timestamp"] = datetime.fromtimestamp(int(now_s), UTC).strftime(TIME)
    request.headers["X-Amz-Date"] = request.context["timestamp"]
    if credentials.token:
        request.headers["X-Amz-Security-Token"] = credentials.token
    sdk_credentials = SdkCredentials(credentials.access_key, credentials.secret_key, credentials.token)
    auth = SigV4Auth(sdk_credentials, scope.service, scope.region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    signed_headers = auth.signed_headers(auth.headers_to_sign(request))
    return (
        f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={signed_headers}, "
        f"Signature={auth.signature(text, request)}"
    )


@given(
    st.dictionaries(names, values),
    st.binary(max_size=3_000),
    st.builds(Credentials, secrets, secrets, st.none() | secrets),
    st.builds(Scope, lowercase_words, lowercase_words),
    st.floats(0, 4e9),
)
def test_sign_equals_sdk_signature(
    headers: dict[str, str], body: bytes, credentials: Credentials, scope: Scope, now_s: float
) -> None:
    headers["host"] = f"{scope.service}.{scope.region}.example:4566"
    signed = sign(headers, body, credentials, scope, now_s)
    assert signed["authorization"] == sdk_authorization(headers, body, credentials, scope, now_s)
    assert signed.get("x-amz-security-token") == credentials.token
    assert {name: signed[name] for name in headers} == headers


def test_sign_around_midnight_uses_key_of_the_day() -> None:
    credentials, scope = Credentials("a", "b"), Scope(REGION, "dynamodb")
    midnight = 1_794_873_600
    for now_s in (midnight - 1, midnight, midnight + 1, midnight - 1):
        signed_headers_of_day = sign({"host": "h"}, b"{}", credentials, scope, now_s)
        assert signed_headers_of_day["authorization"] == sdk_authorization(
            {"host": "h"}, b"{}", credentials, scope, now_s
        )


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("token", [None, "session-token"])
def test_sign_request_of_sdk_equals_its_signature(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    with recording_server() as (endpoint, requests):
        sdk = boto3.session.Session().client("dynamodb", endpoint_url=endpoint, region_name=REGION)
        sdk.put_item(TableName="log", Item={"session": {"N": "7"}})
        sdk.close()
    (request,) = requests
    names = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers_to_sign = {
        name: request.headers[name] for name in names if name not in ("x-amz-date", "x-amz-security-token")
    }
    signed_headers_of_day = sign(
        headers_to_sign,
        request.body,
        Credentials("testing", "testing", token),
        Scope(REGION, "dynamodb"),
        request_time_s(request),
    )
    assert signed_headers_of_day["authorization"] == request.headers["authorization"]


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("service", [DYNAMODB, SQS], ids=lambda service: service.name)
def test_client_request_has_same_signature_as_sdk(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token")
    with recording_server() as (endpoint, requests):
        client = create_client(service, endpoint, REGION)
        client.call("PutItem", {"TableName": "log", "Item": {"session": {"N": "7"}, "body": {"S": "Grüße"}}})
        client.close()
    (request,) = requests
    headers_to_sign = {name: request.headers[name] for name in ("content-type", "host", "x-amz-target")}
    scope = Scope(REGION, service.signing_name)
    credentials = Credentials("testing", "testing", "session-token")
    assert request.headers["authorization"] == sdk_authorization(
        headers_to_sign, request.body, credentials, scope, request_time_s(request)
    )


def request_time_s(request: Request) -> float:
    """The time in the request's date header."""
    return timegm(strptime(request.headers["x-amz-date"], TIME))
