"""`make cloud` with AWS_ENDPOINT_URL of a LocalStack."""

import socket
from urllib.parse import urlsplit

import pytest

from tests.deploy.deployment import DEPLOY_TIMEOUT_S, REGION, STAGE, aws_client, command


def test_make_cloud_deploys_to_localstack(localstack: str) -> None:
    """Functions cannot run without Docker, so the API answers an error, which the command explains."""
    process = command(
        "local",
        *("--stage", STAGE, "--once"),
        AWS_ENDPOINT_URL=localstack,
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_DEFAULT_REGION=REGION,
    )
    output, _ = process.communicate(timeout=DEPLOY_TIMEOUT_S)
    assert (process.returncode, "Traceback" in output) == (0, False), output
    assert "This endpoint has no Glue workflows: deploying without history and reports." in output
    assert "This endpoint has no SES (API version 2): deploying without mail." in output
    assert "the organization local was not created" in output
    assert f"Annals is deployed to {localstack}" in output
    cloudformation = aws_client(localstack, "cloudformation")
    (stack,) = cloudformation.describe_stacks(StackName=f"annals-{STAGE}")["Stacks"]
    cloudformation.close()
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    # LocalStack calls no authorizers.
    assert {"ParameterKey": "TokenVerification", "ParameterValue": "functions"} in stack["Parameters"]


def test_localstack_listens_on_loopback_only(localstack: str) -> None:
    port = urlsplit(localstack).port
    socket.create_connection(("127.0.0.1", port), timeout=1).close()
    # A server that listens on all interfaces accepts this address, too.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=1)
