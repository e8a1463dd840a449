"""The client that talks to DynamoDB."""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Any

from chalicelib.domain.errors import Unavailable
from chalicelib.store.dynamodb.deadlines import left_s

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CONNECT_TIMEOUT_S = 1
READ_TIMEOUT_S = 3
ATTEMPTS = 3
CONNECTIONS = 50

PAUSE_S = 0.1

_FIRST = re.compile(rb"attempt=1\b")


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
    events: Any = client.meta.events
    events.register("before-send.dynamodb", refuse_late_retry)
    events.register_first("needs-retry.dynamodb", mistrust)
    return client


def refuse_late_retry(request: Any, **_: object) -> None:
    """Raise `Unavailable` before an attempt that is not the first, if nobody could wait for its answer."""
    said = request.headers.get("amz-sdk-request", b"attempt=1")
    is_first = _FIRST.search(said if isinstance(said, bytes) else said.encode())
    if not is_first and left_s() < CONNECT_TIMEOUT_S + READ_TIMEOUT_S:
        raise Unavailable("DynamoDB does not answer, and there is no time to try again")


def mistrust(response: tuple[Any, object] | None, attempts: int, **_: object) -> float | None:
    """After how long to try again, if what came is no answer of DynamoDB, or not as it was sent.

    The SDK would take the page of a proxy for a success, and an answer with a wrong checksum after a few tries, too.
    """
    if response is None or _is_whole(response[0].headers.get("x-amz-crc32"), response[0].content):
        return None
    if attempts >= ATTEMPTS:
        raise Unavailable("DynamoDB does not answer: what came instead is none of its answers")
    return PAUSE_S * attempts


def _is_whole(checksum: str | None, content: bytes) -> bool:
    """Whether the content is as DynamoDB sent it; where no checksum says so, it has to be JSON at least."""
    if checksum is not None:
        return zlib.crc32(content) == int(checksum)
    try:
        json.loads(content)
    except ValueError:
        return False
    return True
