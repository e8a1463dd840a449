"""Clients of AWS, or of an endpoint that speaks like it."""

import os
from typing import Any, Final

import boto3  # type: ignore[import-untyped]

ENDPOINT: Final = "AWS_ENDPOINT_URL"
_LOCAL: Final = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}


def endpoint() -> str:
    """The endpoint that stands in for AWS; empty for AWS itself."""
    return os.environ.get(ENDPOINT, "").rstrip("/")


def pretend(address: str) -> None:
    """Have all clients, also those of programs started from here, talk to an endpoint that asks nobody who they are."""
    os.environ[ENDPOINT] = address
    for name, value in _LOCAL.items():
        os.environ.setdefault(name, value)


def client(service: str) -> Any:
    """A client."""
    return boto3.session.Session().client(service)


def account() -> str:
    """The account that we deploy to."""
    return str(client("sts").get_caller_identity()["Account"])


def region() -> str:
    """The region that we deploy to."""
    return str(client("cloudformation").meta.region_name)
