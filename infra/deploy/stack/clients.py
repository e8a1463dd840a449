"""boto3 clients for AWS, or for the emulator that AWS_ENDPOINT_URL points to."""

import os
from typing import Any, Final

import boto3  # type: ignore[import-untyped]

ENDPOINT_VARIABLE: Final = "AWS_ENDPOINT_URL"
_EMULATOR_ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-central-1",
}


def endpoint() -> str:
    """The emulator's endpoint. Empty for AWS itself."""
    return os.environ.get(ENDPOINT_VARIABLE, "").rstrip("/")


def use_emulator(address: str) -> None:
    """Point the clients of this process and of its child processes to an emulator. Sets placeholder credentials."""
    os.environ[ENDPOINT_VARIABLE] = address
    for name, value in _EMULATOR_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def client(service: str) -> Any:
    return boto3.session.Session().client(service)


def account() -> str:
    return str(client("sts").get_caller_identity()["Account"])


def region() -> str:
    return str(client("cloudformation").meta.region_name)
