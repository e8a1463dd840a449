"""A deployment whose API functions verify the tokens themselves, without the Lambda authorizer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.deploy.deployment import DEPLOY_TIMEOUT_S, REGION, STAGE, Deployment, command, run_deployment

PROBLEM = "application/problem+json"
VERIFYING = {"APIHandler", "Reader", "Tester", "Bearer"}


@pytest.fixture(scope="module", name="deployment")
def deployment_without_authorizer() -> Iterator[Deployment]:
    with run_deployment("TokenVerification=functions") as running:
        yield running
        running.stop()


def test_functions_verify_tokens_without_authorizer(deployment: Deployment) -> None:
    member = deployment.organization()
    (event,) = member.publish("a")
    assert member.log() == [event]
    key = deployment.environment["JWT_KEY"]
    expired, forged = member.sign_token(key, expires_s=-60), member.sign_token("a key that the server does not have")
    for headers in ({}, {"Authorization": f"Bearer {expired}"}, {"Authorization": f"Bearer {forged}"}):
        for method, path in (("GET", "/events"), ("POST", "/events"), ("POST", "/observers/a/test")):
            answer = deployment.client.request(method, path, headers=headers, json={"events": [{"type": ["b"]}]})
            assert (answer.status_code, answer.headers["Content-Type"]) == (401, PROBLEM), (method, path)
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert answer.json()["detail"] == "send a header 'Authorization: Bearer <token>' with a valid token"
    stranger = deployment.member("elsewhere")
    refused = stranger.request("GET", "/events", headers={"X-Organization": member.organization})
    assert (refused.status_code, refused.headers["Content-Type"]) == (403, PROBLEM)
    assert deployment.client.get("/health").status_code == 200
    assert member.log() == [event]


def test_gateway_calls_no_authorizer(deployment: Deployment) -> None:
    assert authorization_types(deployment) == {"NONE"}


def test_only_verifying_functions_have_the_key(deployment: Deployment) -> None:
    functions = deployment.aws("lambda").get_paginator("list_functions").paginate()
    names = {name: logical for logical, name in deployment.resources.items()}
    with_key = {
        names[function["FunctionName"]]
        for page in functions
        for function in page["Functions"]
        if "JWT_KEY" in function["Environment"]["Variables"]
    }
    assert with_key == VERIFYING


def test_parameter_is_kept_and_can_be_set_back(deployment: Deployment) -> None:
    with deploy(deployment, "LogRetentionDays=14") as changed:
        assert authorization_types(changed) == {"NONE"}
        assert changed.client.get("/events").status_code == 401
        assert changed.organization().log() == []
    with deploy(deployment, "TokenVerification=authorizer") as changed:
        assert "CUSTOM" in authorization_types(changed)
        assert changed.client.get("/events").status_code == 401
        assert changed.organization().log() == []


def authorization_types(deployment: Deployment) -> set[str]:
    gateway, api = deployment.aws("apigateway"), deployment.outputs["RestAPIId"]
    resources = gateway.get_resources(restApiId=api, limit=500, embed=["methods"])["items"]
    return {
        gateway.get_method(restApiId=api, resourceId=one["id"], httpMethod=method)["authorizationType"]
        for one in resources
        for method in one.get("resourceMethods", ())
    }


@contextmanager
def deploy(deployment: Deployment, parameter: str) -> Iterator[Deployment]:
    """Change a parameter with `make deploy`. ministack, unlike AWS, may replace the API."""
    process = command(
        "deploy",
        *("--stage", STAGE, "--yes", "--replace", parameter),
        AWS_ENDPOINT_URL=deployment.endpoint,
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_DEFAULT_REGION=REGION,
    )
    output, _ = process.communicate(timeout=DEPLOY_TIMEOUT_S)
    assert process.returncode == 0, output
    (api,) = re.findall(r"RestAPIId +(\S+)", output)
    changed = Deployment(
        deployment.process, deployment.endpoint, f"{deployment.endpoint}/restapis/{api}/api/_user_request_"
    )
    yield changed
    changed.close()
