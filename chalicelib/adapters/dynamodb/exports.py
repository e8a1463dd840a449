"""Exports of a table to S3, and the Glue job that loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.domain.exports.export import FULL

if TYPE_CHECKING:
    from typing import Literal

    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.domain.exports.table_export import TableExport


class DynamoExports:
    """Exports one table to a prefix in S3. Point-in-time recovery must be enabled on the table."""

    def __init__(self, client: ServiceClient, table_arn: str, bucket: str, prefix: str) -> None:
        self._client = client
        self._table_arn = table_arn
        self._bucket = bucket
        self._prefix = prefix

    def start(self, export: TableExport) -> str | None:
        try:
            response = self._client.call("ExportTableToPointInTime", self._request(export))
        except ServiceError as error:
            if error.code != "InvalidExportTimeException":
                raise
            return None
        return str(response["ExportDescription"]["ExportArn"])

    def status(self, arn: str) -> Literal["IN_PROGRESS", "COMPLETED", "FAILED"]:
        response = self._client.call("DescribeExport", {"ExportArn": arn})
        status: Literal["IN_PROGRESS", "COMPLETED", "FAILED"] = response["ExportDescription"]["ExportStatus"]
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
    """Starts a Glue job with fixed arguments."""

    def __init__(self, client: ServiceClient, name: str, arguments: dict[str, str]) -> None:
        self._client = client
        self._name = name
        self._arguments = arguments

    def start(self) -> str | None:
        try:
            response = self._client.call("StartJobRun", {"JobName": self._name, "Arguments": self._arguments})
        except ServiceError as error:
            if error.code != "ConcurrentRunsExceededException":
                raise
            return None
        return str(response["JobRunId"])
