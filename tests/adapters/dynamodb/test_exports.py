"""Requests for exports and Glue jobs, and the handling of responses."""

from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib.adapters.aws.client import DYNAMODB, GLUE
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.adapters.dynamodb.exports import DynamoExports, GlueJob
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.exports.export import FULL, INCREMENTAL
from chalicelib.domain.exports.table_export import TableExport
from tests.adapters.aws.transports import ScriptedTransport, create_test_client

TABLE = "arn:aws:dynamodb:eu-central-1:123456789012:table/log"
ARN = f"{TABLE}/export/01794798000000-1a2b3c4d"
START = "ExportTableToPointInTime"
FULL_EXPORT = TableExport(begin_s=0, to_s=1_794_798_000, kind=FULL, since_s=0)
INCREMENTAL_EXPORT = TableExport(begin_s=1_794_798_000, to_s=1_794_801_600, kind=INCREMENTAL, since_s=0, tries=2)


@pytest.fixture
def dynamodb() -> Iterator[ScriptedTransport]:
    transport = ScriptedTransport(DYNAMODB)
    yield transport
    transport.close()


@pytest.fixture
def glue() -> Iterator[ScriptedTransport]:
    transport = ScriptedTransport(GLUE)
    yield transport
    transport.close()


def exports(dynamodb: ScriptedTransport, prefix: str = "logs") -> DynamoExports:
    return DynamoExports(create_test_client(dynamodb, DYNAMODB), TABLE, "annals-exports", prefix)


def job(glue: ScriptedTransport, name: str, arguments: dict[str, str]) -> GlueJob:
    return GlueJob(create_test_client(glue, GLUE), name, arguments)


def test_start_full_export_requests_point_in_time(dynamodb: ScriptedTransport) -> None:
    expected = {
        "TableArn": TABLE,
        "ClientToken": "0-1794798000-1",
        "S3Bucket": "annals-exports",
        "S3Prefix": "logs",
        "ExportFormat": "DYNAMODB_JSON",
        "ExportType": "FULL_EXPORT",
        "ExportTime": 1_794_798_000,
    }
    dynamodb.expect(START, {"ExportDescription": {"ExportArn": ARN, "ExportStatus": "IN_PROGRESS"}}, expected)
    assert exports(dynamodb).start(FULL_EXPORT) == ARN


def test_start_incremental_export_requests_span_of_new_images(dynamodb: ScriptedTransport) -> None:
    expected = {
        "TableArn": TABLE,
        "ClientToken": "1794798000-1794801600-2",
        "S3Bucket": "annals-exports",
        "ExportFormat": "DYNAMODB_JSON",
        "ExportType": "INCREMENTAL_EXPORT",
        "IncrementalExportSpecification": {
            "ExportFromTime": 1_794_798_000,
            "ExportToTime": 1_794_801_600,
            "ExportViewType": "NEW_IMAGE",
        },
    }
    dynamodb.expect(START, {"ExportDescription": {"ExportArn": ARN, "ExportStatus": "IN_PROGRESS"}}, expected)
    assert exports(dynamodb, prefix="").start(INCREMENTAL_EXPORT) == ARN


def test_start_export_of_expired_span_returns_none(dynamodb: ScriptedTransport) -> None:
    dynamodb.expect_error(START, "InvalidExportTimeException", "The export time is before the earliest one", 400)
    assert exports(dynamodb).start(INCREMENTAL_EXPORT) is None


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("PointInTimeRecoveryUnavailableException", 400, ServiceError),
        ("TableNotFoundException", 400, ServiceError),
        ("LimitExceededException", 400, ServiceError),
        ("ThrottlingException", 400, Unavailable),
        ("InternalServerError", 500, Unavailable),
    ],
)
def test_start_export_other_errors_are_raised(
    code: str, status: int, error: type[Exception], dynamodb: ScriptedTransport
) -> None:
    dynamodb.expect_error(START, code, "no", status)
    with pytest.raises(error):
        exports(dynamodb).start(INCREMENTAL_EXPORT)


@pytest.mark.parametrize("status", ["IN_PROGRESS", "COMPLETED", "FAILED"])
def test_status_returns_export_status(status: str, dynamodb: ScriptedTransport) -> None:
    response: dict[str, Any] = {"ExportDescription": {"ExportArn": ARN, "ExportStatus": status}}
    dynamodb.expect("DescribeExport", response, {"ExportArn": ARN})
    assert exports(dynamodb).status(ARN) == status


def test_start_job_sends_arguments(glue: ScriptedTransport) -> None:
    arguments = {"--exports": "s3://annals-exports/logs", "--lake": "s3://annals-lake"}
    glue.expect("StartJobRun", {"JobRunId": "jr_1"}, {"JobName": "history", "Arguments": arguments})
    assert job(glue, "history", arguments).start() == "jr_1"


def test_start_running_job_returns_none(glue: ScriptedTransport) -> None:
    glue.expect_error("StartJobRun", "ConcurrentRunsExceededException", "1 run is under way", 400)
    assert job(glue, "history", {}).start() is None


def test_start_unknown_job_raises_service_error(glue: ScriptedTransport) -> None:
    glue.expect_error("StartJobRun", "EntityNotFoundException", "no such job", 400)
    with pytest.raises(ServiceError, match="no such job"):
        job(glue, "history", {}).start()
