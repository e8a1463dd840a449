"""Hubs on DynamoDB Local."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from chalicelib.adapters.dynamodb.log import DynamoLog
from tests.hub.recording_proxy import RecordingProxy
from tests.serving import Member, Server
from tests.torture.stores import REGION


class StartHub(Protocol):
    """Starts a hub on the tables of the test."""

    def __call__(self, **environment: str) -> Server: ...


@pytest.fixture(name="proxy")
def fixture_proxy(dynamodb_local: str) -> Iterator[RecordingProxy]:
    with RecordingProxy(dynamodb_local) as running:
        yield running


@pytest.fixture(name="start_hub")
def fixture_start_hub(
    proxy: RecordingProxy, dynamodb_local_tables: tuple[str, str], tmp_path: Path
) -> Iterator[StartHub]:
    """Each hub has an empty folder as its data directory, which it must not use."""
    running: list[Server] = []

    def start(**environment: str) -> Server:
        settings = hub_environment(proxy.url, dynamodb_local_tables)
        running.append(Server(tmp_path / f"hub-{len(running)}", **{**settings, **environment}))
        return running[-1]

    yield start
    for hub in running:
        hub.close()


@pytest.fixture(name="hub")
def fixture_hub(start_hub: StartHub) -> Server:
    return start_hub()


@pytest.fixture(name="member")
def fixture_member(hub: Server) -> Member:
    """A user with all rights in a new organization."""
    return hub.organization()


@pytest.fixture(name="log")
def fixture_log(dynamodb_local_log: DynamoLog) -> DynamoLog:
    """The log without a hub, as a Lambda function sees it."""
    return dynamodb_local_log


def hub_environment(endpoint: str, tables: tuple[str, str]) -> dict[str, str]:
    return {
        "STORE": "dynamodb",
        "LOG_TABLE": tables[0],
        "VIEWS_TABLE": tables[1],
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
    }
