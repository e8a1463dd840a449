"""The IAM permissions that a call needs."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

ANYTHING = "*"
RAW_MAIL_ACTIONS = ("ses:SendEmail", "ses:SendRawEmail")
"""AWS documents ses:SendEmail for API v2, but refuses raw content without ses:SendRawEmail."""
EXPORT_ACTIONS = ("s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl")
"""DynamoDB writes export files with the caller's permissions. It documents these."""


class Permission(NamedTuple):
    """An action on a resource. In a policy, the resource may be a pattern."""

    action: str
    resource: str


class Place(NamedTuple):
    """A region and an account."""

    region: str
    account: str

    def arn(self, service: str, name: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{name}"


def required_permissions(service: str, operation: str, params: Mapping[str, Any], place: Place) -> Iterator[Permission]:
    """The permissions that IAM requires for a call. Unknown operations have no resource."""
    match service, operation:
        case "dynamodb", _:
            yield from _dynamodb_permissions(operation, params, place)
        case "sqs", _:
            queue = PurePosixPath(params["QueueUrl"]).name
            yield Permission(f"sqs:{operation.removesuffix('Batch')}", place.arn("sqs", queue))
        case "ses", "SendEmail" if "Raw" in params["Content"]:
            # The identity may have a default configuration set, which IAM checks, too.
            for resource in (f"identity/{params['FromEmailAddress']}", "configuration-set/default"):
                yield from (Permission(action, place.arn("ses", resource)) for action in RAW_MAIL_ACTIONS)
        case "s3", "GetObject" | "PutObject":
            yield Permission(f"s3:{operation}", f"arn:aws:s3:::{params['Bucket']}/{params['Key']}")
        case "events", "PutEvents":
            yield from (Permission("events:PutEvents", entry["EventBusName"]) for entry in params["Entries"])
        case "glue", "StartJobRun":
            yield Permission("glue:StartJobRun", place.arn("glue", f"job/{params['JobName']}"))
        case _:
            yield Permission(f"{service}:{operation}", ANYTHING)


def _dynamodb_permissions(operation: str, params: Mapping[str, Any], place: Place) -> Iterator[Permission]:
    """A batch has a separate action."""
    match operation:
        case "BatchGetItem" | "BatchWriteItem":
            yield from (_table_permission(operation, table, place) for table in params["RequestItems"])
        case "ExportTableToPointInTime":
            yield Permission(f"dynamodb:{operation}", params["TableArn"])
            file = f"arn:aws:s3:::{params['S3Bucket']}/{params['S3Prefix']}/AWSDynamoDB/a-file"
            yield from (Permission(action, file) for action in EXPORT_ACTIONS)
        case "DescribeExport":
            yield Permission(f"dynamodb:{operation}", params["ExportArn"])
        case _ if "TableName" in params:
            yield _table_permission(operation, params["TableName"], place)
        case _:
            yield Permission(f"dynamodb:{operation}", ANYTHING)


def _table_permission(operation: str, table: str, place: Place) -> Permission:
    return Permission(f"dynamodb:{operation}", place.arn("dynamodb", f"table/{table}"))
