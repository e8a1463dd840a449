"""Fixtures: a log and views in tables of two emulators, with the list of calls."""

from dataclasses import dataclass

import pytest

from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.adapters.dynamodb.views import DynamoViews
from tests.adapters.aws.transports import CallList, RecordingClient


@dataclass(frozen=True, slots=True)
class Tables:
    """Two empty tables and their client."""

    client: RecordingClient
    log: str
    views: str


@pytest.fixture(params=["moto", "dynamodb_local"])
def tables(request: pytest.FixtureRequest) -> Tables:
    if request.param == "moto":
        return Tables(request.getfixturevalue("moto_tables"), "log", "views")
    client = RecordingClient(request.getfixturevalue("dynamodb_local_client"))
    return Tables(client, *request.getfixturevalue("dynamodb_local_tables"))


@pytest.fixture
def calls(tables: Tables) -> CallList:
    """The requests sent after the creation of the tables."""
    tables.client.calls.clear()
    return tables.client.calls


@pytest.fixture
def table_log(tables: Tables) -> DynamoLog:
    return DynamoLog(tables.client, tables.log, tables.views)


@pytest.fixture
def table_views(tables: Tables) -> DynamoViews:
    return DynamoViews(tables.client, tables.views, threads=1)
