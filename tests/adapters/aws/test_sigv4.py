"""Signatures, computed a second time by the SDK."""

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

from chalicelib.adapters.aws.client import DYNAMODB, SQS, Service, client
from chalicelib.adapters.aws.sigv4 import Credentials, Scope, signed
from tests.adapters.aws.endpoints import Request, noting_server
from tests.torture.stores import REGION

TIME = "%Y%m%dT%H%M%SZ"
names = st.text(string.ascii_lowercase + string.digits + "-", min_size=1).map("x-annals-{}".format)
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1)
secrets = st.text(string.ascii_letters + string.digits + "/+=", min_size=1)
words = st.text(string.ascii_lowercase + string.digits + "-", min_size=1)


def by_sdk(headers: Mapping[str, str], body: bytes, credentials: Credentials, scope: Scope, now_s: float) -> str:
    """What the SDK signs the same request with."""
    request = AWSRequest("POST", f"https://{headers['host']}/", dict(headers), body)
    request.context["timestamp"] = datetime.fromtimestamp(int(now_s), UTC).strftime(TIME)
    request.headers["X-Amz-Date"] = request.context["timestamp"]
    if credentials.token:
        request.headers["X-Amz-Security-Token"] = credentials.token
    who = SdkCredentials(credentials.access_key, credentials.secret_key, credentials.token)
    auth = SigV4Auth(who, scope.service, scope.region)
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
    st.builds(Scope, words, words),
    st.floats(0, 4e9),
)
def test_the_sdk_signs_the_same_request_in_the_same_way(
    headers: dict[str, str], body: bytes, credentials: Credentials, scope: Scope, now_s: float
) -> None:
    headers["host"] = f"{scope.service}.{scope.region}.example:4566"
    whole = signed(headers, body, credentials, scope, now_s)
    assert whole["authorization"] == by_sdk(headers, body, credentials, scope, now_s)
    assert whole.get("x-amz-security-token") == credentials.token
    assert {name: whole[name] for name in headers} == headers


def test_a_key_is_of_one_day_and_the_next_day_has_another() -> None:
    who, scope = Credentials("a", "b"), Scope(REGION, "dynamodb")
    midnight = 1_794_873_600
    for now_s in (midnight - 1, midnight, midnight + 1, midnight - 1):
        found = signed({"host": "h"}, b"{}", who, scope, now_s)
        assert found["authorization"] == by_sdk({"host": "h"}, b"{}", who, scope, now_s)


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("token", [None, "of a session"])
def test_what_the_sdk_sends_we_would_sign_as_it_did(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    with noting_server() as (endpoint, requests):
        sdk = boto3.session.Session().client("dynamodb", endpoint_url=endpoint, region_name=REGION)
        sdk.put_item(TableName="log", Item={"session": {"N": "7"}})
        sdk.close()
    (request,) = requests
    names = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    own = {name: request.headers[name] for name in names if name not in ("x-amz-date", "x-amz-security-token")}
    found = signed(
        own, request.body, Credentials("testing", "testing", token), Scope(REGION, "dynamodb"), sent(request)
    )
    assert found["authorization"] == request.headers["authorization"]


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("service", [DYNAMODB, SQS], ids=lambda service: service.name)
def test_what_we_send_the_sdk_would_sign_as_we_did(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of a session")
    with noting_server() as (endpoint, requests):
        ours = client(service, endpoint, REGION)
        ours.call("PutItem", {"TableName": "log", "Item": {"session": {"N": "7"}, "body": {"S": "Grüße"}}})
        ours.close()
    (request,) = requests
    own = {name: request.headers[name] for name in ("content-type", "host", "x-amz-target")}
    scope = Scope(REGION, service.signing_name)
    credentials = Credentials("testing", "testing", "of a session")
    assert request.headers["authorization"] == by_sdk(own, request.body, credentials, scope, sent(request))


def sent(request: Request) -> float:
    """When it says that it was made."""
    return timegm(strptime(request.headers["x-amz-date"], TIME))
