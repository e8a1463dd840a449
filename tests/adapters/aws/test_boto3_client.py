"""The client on boto3: errors in the form of Annals' own client. The contract tests of the stores cover the rest."""

from collections.abc import Callable
from functools import partial

import pytest

from chalicelib.adapters.aws.boto3_client import Boto3Client
from chalicelib.adapters.aws.client import DYNAMODB, create_client
from chalicelib.adapters.aws.protocol import ServiceClient, ServiceError
from chalicelib.adapters.aws.time_budget import RESPONSE_RESERVE_S, time_limit
from chalicelib.domain.errors import Unavailable, Unusable
from chalicelib.wiring.on_aws import service_client
from tests.adapters.aws.endpoints import Reply, closing_server, recording_server
from tests.torture.stores import REGION

FOUND = Reply(content=b'{"Item":{"z":{"B":"AP8="}}}')
BROKEN = Reply(500, b'{"__type":"x#InternalServerError","message":"oh"}', {"x-amzn-RequestId": "R1"})
REJECTED = Reply(
    400,
    b'{"__type":"x#ConditionalCheckFailedException","message":"no","Item":{"z":{"B":"AP8="}}}',
    {"x-amzn-RequestId": "R1"},
)
GET: dict[str, object] = {"TableName": "log", "Key": {"id": {"B": "AP8="}}}
PUT: dict[str, object] = {"TableName": "log", "Item": {"id": {"B": "AP8="}}}

pytestmark = pytest.mark.usefixtures("aws_environment")


OpenClient = Callable[..., ServiceClient]


@pytest.fixture(params=["boto3", "own"])
def open_client(request: pytest.FixtureRequest) -> OpenClient:
    """A factory of both clients, which have the same behaviour."""
    factory: OpenClient = Boto3Client if request.param == "boto3" else create_client
    return partial(factory, DYNAMODB, region=REGION)


def test_call_keeps_binaries_as_base64(open_client: OpenClient) -> None:
    with recording_server(FOUND) as (endpoint, requests):
        assert open_client(endpoint=endpoint).call("GetItem", GET) == {"Item": {"z": {"B": "AP8="}}}
    assert b'"B":"AP8="' in requests[0].body.replace(b" ", b"")
    assert "annals/" in requests[0].headers["user-agent"]


def test_rejected_call_raises_service_error(open_client: OpenClient) -> None:
    with recording_server(REJECTED) as (endpoint, _), pytest.raises(ServiceError) as error:
        open_client(endpoint=endpoint).call("PutItem", PUT)
    refusal = error.value
    assert (refusal.operation, refusal.code, refusal.status) == ("PutItem", "ConditionalCheckFailedException", 400)
    assert (refusal.request_id, refusal.response["Item"]) == ("R1", {"z": {"B": "AP8="}})


def test_broken_service_is_unavailable_after_retries(open_client: OpenClient) -> None:
    retries: list[None] = []
    with recording_server(BROKEN, BROKEN, BROKEN) as (endpoint, requests):
        client = open_client(endpoint=endpoint, on_retry=lambda: retries.append(None))
        with pytest.raises(Unavailable, match=r"^DynamoDB is temporarily unavailable: GetItem: .*\(request id R1\)$"):
            client.call("GetItem", GET)
    assert (len(requests), len(retries)) == (3, 2)


def test_closed_connection_is_unavailable(open_client: OpenClient) -> None:
    with closing_server() as endpoint, pytest.raises(Unavailable, match=r"^DynamoDB cannot be reached: GetItem: "):
        open_client(endpoint=endpoint).call("GetItem", GET)


def test_call_without_time_is_not_made(open_client: OpenClient) -> None:
    with (
        recording_server(FOUND) as (endpoint, requests),
        time_limit(RESPONSE_RESERVE_S),
        pytest.raises(Unavailable, match="DynamoDB was not called: GetItem"),
    ):
        open_client(endpoint=endpoint).call("GetItem", GET)
    assert requests == []


def test_setting_selects_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CLIENT", "boto3")
    assert isinstance(service_client(DYNAMODB), Boto3Client)
    monkeypatch.setenv("AWS_CLIENT", "curl")
    with pytest.raises(Unusable, match="AWS_CLIENT is 'curl'; it must be 'boto3' or empty"):
        service_client(DYNAMODB)
