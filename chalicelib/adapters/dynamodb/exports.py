"""The table's exports to S3, and the Glue job that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.domain.exports.export import FULL

if TYPE_CHECKING:
    from typing import Literal

    from chalicelib.adapters.aws.protocol import Calls
    from chalicelib.domain.exports.table_export import TableExport


class DynamoExports:
    """Exports of one table to one place in S3; the table needs point-in-time recovery."""

    def __init__(self, client: Calls, table_arn: str, bucket: str, prefix: str) -> None:
        self._client = client
        self._table_arn = table_arn
        self._bucket = bucket
        self._prefix = prefix

    def start(self, export: TableExport) -> str | None:
        """The ARN of the export, started now or when it was asked for before; None if its span is too long ago."""
        try:
            answer = self._client.call("ExportTableToPointInTime", self._request(export))
        except Refusal as refusal:
            if refusal.code != "InvalidExportTimeException":
                raise
            return None
        return str(answer["ExportDescription"]["ExportArn"])

    def status(self, arn: str) -> Literal["IN_PROGRESS", "COMPLETED", "FAILED"]:
        """How far it is."""
        answer = self._client.call("DescribeExport", {"ExportArn": arn})
        status: Literal["IN_PROGRESS", "COMPLETED", "FAILED"] = answer["ExportDescription"]["ExportStatus"]
        return status

    def _request(self, export: TableExport) -> dict[str, Any]:
        request: dict[str, Any] = {
            "TableArn": self._table_arn,
            "ClientToken": export.token,
            "S3Bucket": self._bucket,
            "ExportFormat": "DYNAMODB_JSON",
            "ExportType": export.kind,
        }
        if self._prefix:
            request["S3Prefix"] = self._prefix
        if export.kind == FULL:
            request["ExportTime"] = export.to_s
        else:
            request["IncrementalExportSpecification"] = {
                "ExportFromTime": export.begin_s,
                "ExportToTime": export.to_s,
                "ExportViewType": "NEW_IMAGE",
            }
        return request


class GlueJob:
    """A job of Glue with its arguments."""

    def __init__(self, client: Calls, name: str, arguments: dict[str, str]) -> None:
        self._client = client
        self._name = name
        self._arguments = arguments

    def start(self) -> str | None:
        """The id of its run; None if it is running already."""
        try:
            answer = self._client.call("StartJobRun", {"JobName": self._name, "Arguments": self._arguments})
        except Refusal as refusal:
            if refusal.code != "ConcurrentRunsExceededException":
                raise
            return None
        return str(answer["JobRunId"])
