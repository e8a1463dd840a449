"""The table's exports to S3, and the Glue job that reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from chalicelib.domain.exports import FULL
from chalicelib.store.dynamodb.failures import answered

if TYPE_CHECKING:
    from typing import Literal

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import ExportTableToPointInTimeInputTypeDef

    from chalicelib.domain.table_exports import TableExport


class DynamoExports:
    """Exports of one table to one place in S3; the table needs point-in-time recovery."""

    def __init__(self, client: DynamoDBClient, table_arn: str, bucket: str, prefix: str) -> None:
        self._client = client
        self._table_arn = table_arn
        self._bucket = bucket
        self._prefix = prefix

    def start(self, export: TableExport) -> str | None:
        """The ARN of the export, started now or when it was asked for before; None if its span is too long ago."""
        with answered():
            try:
                answer = self._client.export_table_to_point_in_time(**self._request(export))
            except self._client.exceptions.InvalidExportTimeException:
                return None
        return answer["ExportDescription"]["ExportArn"]

    def status(self, arn: str) -> Literal["IN_PROGRESS", "COMPLETED", "FAILED"]:
        """How far it is."""
        with answered():
            return self._client.describe_export(ExportArn=arn)["ExportDescription"]["ExportStatus"]

    def _request(self, export: TableExport) -> ExportTableToPointInTimeInputTypeDef:
        request: ExportTableToPointInTimeInputTypeDef = {
            "TableArn": self._table_arn,
            "ClientToken": export.token,
            "S3Bucket": self._bucket,
            "ExportFormat": "DYNAMODB_JSON",
            "ExportType": export.kind,
        }
        if self._prefix:
            request["S3Prefix"] = self._prefix
        if export.kind == FULL:
            request["ExportTime"] = _time(export.to_s)
        else:
            request["IncrementalExportSpecification"] = {
                "ExportFromTime": _time(export.begin_s),
                "ExportToTime": _time(export.to_s),
                "ExportViewType": "NEW_IMAGE",
            }
        return request


class GlueJob:
    """A job of Glue with its arguments."""

    def __init__(self, client: Any, name: str, arguments: dict[str, str]) -> None:
        self._client = client
        self._name = name
        self._arguments = arguments

    def start(self) -> str | None:
        """The id of its run; None if it is running already."""
        with answered():
            try:
                answer = self._client.start_job_run(JobName=self._name, Arguments=self._arguments)
            except self._client.exceptions.ConcurrentRunsExceededException:
                return None
        return str(answer["JobRunId"])


def glue_client() -> Any:
    """A client that starts jobs."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415

    return boto3.client("glue")


def _time(time_s: int) -> datetime:
    return datetime.fromtimestamp(time_s, UTC)
