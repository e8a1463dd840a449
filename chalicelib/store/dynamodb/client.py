"""The client that talks to DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CONNECT_TIMEOUT_S = 1
READ_TIMEOUT_S = 5
ATTEMPTS = 3
CONNECTIONS = 50


def dynamodb_client(endpoint_url: str | None = None, region: str | None = None) -> DynamoDBClient:
    """A low-level client for the whole process; threads may share it."""
    # boto3 takes a third of a second to import: only who talks to DynamoDB pays that.
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    client: DynamoDBClient = boto3.client(
        "dynamodb",
        endpoint_url=endpoint_url,
        region_name=region,
        config=Config(
            # We send what we built; checking it costs more CPU than sending it.
            parameter_validation=False,
            tcp_keepalive=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=CONNECTIONS,
        ),
    )
    return client
