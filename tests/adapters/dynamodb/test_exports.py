"""What the adapters ask of AWS, checked against AWS's own description of its API, and how they take the answers."""

from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib.adapters.aws.client import DYNAMODB, GLUE
from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.adapters.dynamodb.exports import DynamoExports, GlueJob
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.exports.export import FULL, INCREMENTAL
from chalicelib.domain.exports.table_export import TableExport
from tests.adapters.aws.wires import Script, client_on

TABLE = "arn:aws:dynamodb:eu-central-1:123456789012:table/log"
ARN = f"{TABLE}/export/01794798000000-1a2b3c4d"
START = "ExportTableToPointInTime"
FULL_EXPORT = TableExport(begin_s=0, to_s=1_794_798_000, kind=FULL, since_s=0)
INCREMENT = TableExport(begin_s=1_794_798_000, to_s=1_794_801_600, kind=INCREMENTAL, since_s=0, tries=2)


@pytest.fixture
def dynamodb() -> Iterator[Script]:
    script = Script(DYNAMODB)
    yield script
    script.close()


@pytest.fixture
def glue() -> Iterator[Script]:
    script = Script(GLUE)
    yield script
    script.close()


def exports(dynamodb: Script, prefix: str = "logs") -> DynamoExports:
    return DynamoExports(client_on(dynamodb, DYNAMODB), TABLE, "annals-exports", prefix)


def job(glue: Script, name: str, arguments: dict[str, str]) -> GlueJob:
    return GlueJob(client_on(glue, GLUE), name, arguments)


def test_a_full_export_asks_for_a_point_in_time(dynamodb: Script) -> None:
    expected = {
        "TableArn": TABLE,
        "ClientToken": "0-1794798000-1",
        "S3Bucket": "annals-exports",
        "S3Prefix": "logs",
        "ExportFormat": "DYNAMODB_JSON",
        "ExportType": "FULL_EXPORT",
        "ExportTime": 1_794_798_000,
    }
    dynamodb.answers(START, {"ExportDescription": {"ExportArn": ARN, "ExportStatus": "IN_PROGRESS"}}, expected)
    assert exports(dynamodb).start(FULL_EXPORT) == ARN


def test_an_incremental_export_asks_for_a_span_and_for_new_images(dynamodb: Script) -> None:
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
    dynamodb.answers(START, {"ExportDescription": {"ExportArn": ARN, "ExportStatus": "IN_PROGRESS"}}, expected)
    assert exports(dynamodb, prefix="").start(INCREMENT) == ARN


def test_a_span_that_is_too_long_ago_is_an_answer_not_an_error(dynamodb: Script) -> None:
    dynamodb.refuses(START, "InvalidExportTimeException", "The export time is before the earliest one", 400)
    assert exports(dynamodb).start(INCREMENT) is None


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("PointInTimeRecoveryUnavailableException", 400, Refusal),
        ("TableNotFoundException", 400, Refusal),
        ("LimitExceededException", 400, Refusal),
        ("ThrottlingException", 400, Unavailable),
        ("InternalServerError", 500, Unavailable),
    ],
)
def test_what_somebody_has_to_mend_is_raised(code: str, status: int, error: type[Exception], dynamodb: Script) -> None:
    dynamodb.refuses(START, code, "no", status)
    with pytest.raises(error):
        exports(dynamodb).start(INCREMENT)


@pytest.mark.parametrize("status", ["IN_PROGRESS", "COMPLETED", "FAILED"])
def test_the_status_is_what_aws_says(status: str, dynamodb: Script) -> None:
    answer: dict[str, Any] = {"ExportDescription": {"ExportArn": ARN, "ExportStatus": status}}
    dynamodb.answers("DescribeExport", answer, {"ExportArn": ARN})
    assert exports(dynamodb).status(ARN) == status


def test_a_job_is_started_with_its_arguments(glue: Script) -> None:
    arguments = {"--exports": "s3://annals-exports/logs", "--lake": "s3://annals-lake"}
    glue.answers("StartJobRun", {"JobRunId": "jr_1"}, {"JobName": "history", "Arguments": arguments})
    assert job(glue, "history", arguments).start() == "jr_1"


def test_a_job_that_is_running_is_an_answer_not_an_error(glue: Script) -> None:
    glue.refuses("StartJobRun", "ConcurrentRunsExceededException", "1 run is under way", 400)
    assert job(glue, "history", {}).start() is None


def test_a_job_that_does_not_exist_is_an_error(glue: Script) -> None:
    glue.refuses("StartJobRun", "EntityNotFoundException", "no such job", 400)
    with pytest.raises(Refusal, match="no such job"):
        job(glue, "history", {}).start()
