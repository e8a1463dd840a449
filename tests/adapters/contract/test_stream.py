"""The stream of the log table, as DynamoDB's emulators send it: the functions find the logs that have new commits."""

import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from chalicelib.adapters.dynamodb.items import item_from_commit
from chalicelib.adapters.dynamodb.log import DynamoLog
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, configuration_log, inbox_log
from chalicelib.lambda_events import streams
from tests.builders import a_commit
from tests.torture.stores import REGION

TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.05


class StreamReader:
    """Reads the stream of a table from its start."""

    def __init__(self, endpoint: str, table: str) -> None:
        dynamodb = boto3.client("dynamodb", endpoint_url=endpoint, region_name=REGION)
        self._client = boto3.client("dynamodbstreams", endpoint_url=endpoint, region_name=REGION)
        self._arn = dynamodb.describe_table(TableName=table)["Table"]["LatestStreamArn"]
        dynamodb.close()

    def event(self, number: int) -> dict[str, Any]:
        """The first records of the stream, in the form of a Lambda event."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(records := list(self._records())) < number:
            assert time.monotonic() < deadline, records
            Event().wait(POLL_INTERVAL_S)
        return {"Records": records}

    def close(self) -> None:
        self._client.close()

    def _records(self) -> Iterator[dict[str, Any]]:
        for shard in self._client.describe_stream(StreamArn=self._arn)["StreamDescription"]["Shards"]:
            start = {"StreamArn": self._arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = self._client.get_shard_iterator(**start)["ShardIterator"]
            yield from self._client.get_records(ShardIterator=iterator)["Records"]


@pytest.fixture(params=["ministack", "dynamodb_local", "localstack"])
def emulator(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def log(request: pytest.FixtureRequest, emulator: str) -> DynamoLog:
    opened: DynamoLog = request.getfixturevalue(f"{emulator}_log")
    return opened


@pytest.fixture
def stream(request: pytest.FixtureRequest, emulator: str) -> Iterator[StreamReader]:
    log_table, _ = request.getfixturevalue(f"{emulator}_tables")
    reader = StreamReader(request.getfixturevalue(emulator), log_table)
    yield reader
    reader.close()


def test_stream_has_each_commit_once_with_its_item(log: DynamoLog, stream: StreamReader) -> None:
    commits = [a_commit(session=n, server=server) for n in (1, 2) for server in (1, 2)]
    append(log, *commits[:2])
    append(log, commits[2])
    append(log, commits[3])
    records = stream.event(len(commits))["Records"]
    images = [record["dynamodb"]["NewImage"] for record in records]
    assert sorted(images, key=str) == sorted((item_from_commit(commit) for commit in commits), key=str)
    sessions = [image["session"]["N"] for image in images if image["server"]["N"] == "1"]
    assert sessions == ["1", "2"]


def test_stream_names_logs_to_project_and_observe(log: DynamoLog, stream: StreamReader) -> None:
    servers = [7, DIRECTORY_SERVER, configuration_log(7), inbox_log(7), 8]
    for server in servers:
        append(log, a_commit(session=1, server=server))
    event = stream.event(len(servers))
    assert sorted(streams.logs_to_project(event)) == sorted(servers)
    assert sorted(streams.logs_to_observe(event)) == [7, 8]


def test_stream_response_names_first_record_of_failed_log(log: DynamoLog, stream: StreamReader) -> None:
    for session in (1, 2):
        append(log, a_commit(session=session, server=7))
    event = stream.event(2)
    first = event["Records"][0]["dynamodb"]["SequenceNumber"]
    assert streams.partial_batch_response(event, [7]) == {"batchItemFailures": [{"itemIdentifier": first}]}


def append(log: DynamoLog, *commits: Commit) -> None:
    for commit in commits:
        log.append([commit])
