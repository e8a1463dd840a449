"""What the adapters ask of AWS, checked against AWS's own description of its API, and how they take the answers."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from chalicelib.domain.errors import Unavailable
from chalicelib.domain.exports import FULL, INCREMENTAL
from chalicelib.domain.table_exports import TableExport
from chalicelib.store.dynamodb.exports import DynamoExports, GlueJob
from tests.torture.stores import REGION

TABLE = "arn:aws:dynamodb:eu-central-1:123456789012:table/log"
ARN = f"{TABLE}/export/01794798000000-1a2b3c4d"
START = "export_table_to_point_in_time"
FULL_EXPORT = TableExport(begin_s=0, to_s=1_794_798_000, kind=FULL, since_s=0)
INCREMENT = TableExport(begin_s=1_794_798_000, to_s=1_794_801_600, kind=INCREMENTAL, since_s=0, tries=2)


@pytest.fixture
def dynamodb(aws_environment: None) -> Iterator[Stubber]:  # noqa: ARG001
    with Stubber(boto3.client("dynamodb", region_name=REGION)) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def glue(aws_environment: None) -> Iterator[Stubber]:  # noqa: ARG001
    with Stubber(boto3.client("glue", region_name=REGION)) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def exports(dynamodb: Stubber, prefix: str = "logs") -> DynamoExports:
    client: Any = dynamodb.client
    return DynamoExports(client, TABLE, "annals-exports", prefix)


def test_a_full_export_asks_for_a_point_in_time(dynamodb: Stubber) -> None:
    expected = {
        "TableArn": TABLE,
        "ClientToken": "0-1794798000-1",
        "S3Bucket": "annals-exports",
        "S3Prefix": "logs",
        "ExportFormat": "DYNAMODB_JSON",
        "ExportType": "FULL_EXPORT",
        "ExportTime": datetime(2026, 11, 16, 3, 0, tzinfo=UTC),
    }
    dynamodb.add_response(START, {"ExportDescription": {"ExportArn": ARN, "ExportStatus": "IN_PROGRESS"}}, expected)
    assert exports(dynamodb).start(FULL_EXPORT) == ARN


def test_an_incremental_export_asks_for_a_span_and_for_new_images(dynamodb: Stubber) -> None:
    expected = {
        "TableArn": TABLE,
        "ClientToken": "1794798000-1794801600-2",
        "S3Bucket": "annals-exports",
        "ExportFormat": "DYNAMODB_JSON",
        "ExportType": "INCREMENTAL_EXPORT",
        "IncrementalExportSpecification": {
            "ExportFromTime": datetime(2026, 11, 16, 3, 0, tzinfo=UTC),
            "ExportToTime": datetime(2026, 11, 16, 4, 0, tzinfo=UTC),
            "ExportViewType": "NEW_IMAGE",
        },
    }
    dynamodb.add_response(START, {"ExportDescription": {"ExportArn": ARN, "ExportStatus": "IN_PROGRESS"}}, expected)
    assert exports(dynamodb, prefix="").start(INCREMENT) == ARN


def test_a_span_that_is_too_long_ago_is_an_answer_not_an_error(dynamodb: Stubber) -> None:
    dynamodb.add_client_error(START, "InvalidExportTimeException", "The export time is before the earliest one", 400)
    assert exports(dynamodb).start(INCREMENT) is None


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("PointInTimeRecoveryUnavailableException", 400, ClientError),
        ("TableNotFoundException", 400, ClientError),
        ("LimitExceededException", 400, ClientError),
        ("ThrottlingException", 400, Unavailable),
        ("InternalServerError", 500, Unavailable),
    ],
)
def test_what_somebody_has_to_mend_is_raised(code: str, status: int, error: type[Exception], dynamodb: Stubber) -> None:
    dynamodb.add_client_error(START, code, "no", status)
    with pytest.raises(error):
        exports(dynamodb).start(INCREMENT)


@pytest.mark.parametrize("status", ["IN_PROGRESS", "COMPLETED", "FAILED"])
def test_the_status_is_what_aws_says(status: str, dynamodb: Stubber) -> None:
    answer: dict[str, Any] = {"ExportDescription": {"ExportArn": ARN, "ExportStatus": status}}
    dynamodb.add_response("describe_export", answer, {"ExportArn": ARN})
    assert exports(dynamodb).status(ARN) == status


def test_a_job_is_started_with_its_arguments(glue: Stubber) -> None:
    arguments = {"--exports": "s3://annals-exports/logs", "--lake": "s3://annals-lake"}
    glue.add_response("start_job_run", {"JobRunId": "jr_1"}, {"JobName": "history", "Arguments": arguments})
    assert GlueJob(glue.client, "history", arguments).start() == "jr_1"


def test_a_job_that_is_running_is_an_answer_not_an_error(glue: Stubber) -> None:
    glue.add_client_error("start_job_run", "ConcurrentRunsExceededException", "1 run is under way", 400)
    assert GlueJob(glue.client, "history", {}).start() is None


def test_a_job_that_does_not_exist_is_an_error(glue: Stubber) -> None:
    glue.add_client_error("start_job_run", "EntityNotFoundException", "no such job", 400)
    with pytest.raises(ClientError, match="no such job"):
        GlueJob(glue.client, "history", {}).start()
