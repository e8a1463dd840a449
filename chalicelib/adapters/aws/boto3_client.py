"""A client for one AWS service on boto3, as an alternative to `Client`.

It starts more slowly and takes more CPU per call, and behaves as AWS documents its SDK. `AWS_CLIENT=boto3` selects it.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.adapters.aws.client import ATTEMPT_TIMEOUT_S, DYNAMODB, MAX_ATTEMPTS, USER_AGENT, Service
from chalicelib.adapters.aws.connection_pool import CONNECT_TIMEOUT_S, MAX_IDLE_CONNECTIONS
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.aws.time_budget import remaining_s
from chalicelib.domain.errors import Unavailable


class Boto3Client:
    """Implements `ServiceClient` with the SDK, which finds region, endpoint and credentials itself. Thread-safe."""

    def __init__(
        self,
        service: Service,
        endpoint: str | None = None,
        region: str | None = None,
        on_retry: Callable[[], None] = lambda: None,
    ) -> None:
        self._service = service
        self._on_retry = on_retry
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=ATTEMPT_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
            max_pool_connections=MAX_IDLE_CONNECTIONS,
            user_agent_extra=USER_AGENT,
        )
        # A session of its own: creating clients in boto3's default session is not thread-safe.
        self._client: Any = boto3.session.Session().client(
            service.signing_name, region_name=region, endpoint_url=endpoint, config=config
        )

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        name = self._service.name
        if remaining_s() <= 0:
            raise Unavailable(f"{name} was not called: {operation}: the time for this request is used up")
        sdk_params = _decode_binaries(params) if self._service is DYNAMODB else params
        try:
            response = getattr(self._client, xform_name(operation))(**sdk_params)
        except ClientError as error:
            service_error = _service_error(operation, error.response)
            self._count_retries(error.response)
            if service_error.is_retryable:
                raise Unavailable(f"{name} is temporarily unavailable: {service_error}") from error
            raise service_error from error
        except BotoCoreError as error:
            raise Unavailable(f"{name} cannot be reached: {operation}: {error}") from error
        self._count_retries(response)
        return {member: _encode_binaries(value) for member, value in response.items() if member != "ResponseMetadata"}

    def close(self) -> None:
        self._client.close()

    def _count_retries(self, response: Mapping[str, Any]) -> None:
        for _ in range(response["ResponseMetadata"].get("RetryAttempts", 0)):
            self._on_retry()


def _service_error(operation: str, response: Mapping[str, Any]) -> ServiceError:
    error, metadata = response["Error"], response["ResponseMetadata"]
    # The SDK puts the other members of an error, such as CancellationReasons, beside it.
    members = {name: _encode_binaries(value) for name, value in response.items() if name not in _SDK_MEMBERS}
    body = {"message": error.get("Message", ""), **members}
    request_id = metadata.get("RequestId", "")
    return ServiceError(operation, metadata["HTTPStatusCode"], error.get("Code", ""), body, request_id)


_SDK_MEMBERS = frozenset({"Error", "ResponseMetadata"})


def _decode_binaries(value: Any) -> Any:
    """The SDK takes attributes `{"B": …}` as bytes, where the JSON of DynamoDB has Base64."""
    match value:
        case {"B": str(text), **rest} if not rest:
            return {"B": b64decode(text)}
        case Mapping():
            return {name: _decode_binaries(member) for name, member in value.items()}
        case list() | tuple():
            return [_decode_binaries(element) for element in value]
        case _:
            return value


def _encode_binaries(value: Any) -> Any:
    """The inverse of `_decode_binaries`."""
    match value:
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {name: _encode_binaries(member) for name, member in value.items()}
        case list():
            return [_encode_binaries(element) for element in value]
        case _:
            return value
