"""Permissions: what IAM has to allow for a call."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

ANYTHING = "*"
OF_A_TRANSACTION = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}
OF_RAW_MAIL = ("ses:SendEmail", "ses:SendRawEmail")
"""AWS documents the first for SendEmail of its second API, but refuses raw content to whoever has not the second."""
OF_AN_EXPORT = ("s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl")
"""DynamoDB writes the files with the rights of whoever asks for the export; these are what it documents."""


class Permission(NamedTuple):
    """Something that is done to something; in a policy the resource may be a pattern."""

    action: str
    resource: str


class Place(NamedTuple):
    """Where everything is."""

    region: str
    account: str

    def arn(self, service: str, name: str) -> str:
        """The name that IAM knows it by."""
        return f"arn:aws:{service}:{self.region}:{self.account}:{name}"


def needed(service: str, operation: str, params: Mapping[str, Any], place: Place) -> Iterator[Permission]:
    """What IAM asks for when this is called; an operation that is not known here has no resource."""
    match service, operation:
        case "dynamodb", _:
            yield from _of_dynamodb(operation, params, place)
        case "sqs", _:
            queue = PurePosixPath(params["QueueUrl"]).name
            yield Permission(f"sqs:{operation.removesuffix('Batch')}", place.arn("sqs", queue))
        case "ses", "SendEmail" if "Raw" in params["Content"]:
            sender = place.arn("ses", f"identity/{params['FromEmailAddress']}")
            yield from (Permission(action, sender) for action in OF_RAW_MAIL)
        case "s3", "GetObject":
            yield Permission("s3:GetObject", f"arn:aws:s3:::{params['Bucket']}/{params['Key']}")
        case "glue", "StartJobRun":
            yield Permission("glue:StartJobRun", place.arn("glue", f"job/{params['JobName']}"))
        case _:
            yield Permission(f"{service}:{operation}", ANYTHING)


def _of_dynamodb(operation: str, params: Mapping[str, Any], place: Place) -> Iterator[Permission]:
    """A transaction needs what its writes need by themselves, a batch has an action of its own."""
    match operation:
        case "TransactWriteItems":
            writes = [one for item in params["TransactItems"] for one in item.items()]
            yield from (_to_table(OF_A_TRANSACTION[kind], write["TableName"], place) for kind, write in writes)
        case "BatchGetItem" | "BatchWriteItem":
            yield from (_to_table(operation, table, place) for table in params["RequestItems"])
        case "ExportTableToPointInTime":
            yield Permission(f"dynamodb:{operation}", params["TableArn"])
            file = f"arn:aws:s3:::{params['S3Bucket']}/{params['S3Prefix']}/AWSDynamoDB/a-file"
            yield from (Permission(action, file) for action in OF_AN_EXPORT)
        case "DescribeExport":
            yield Permission(f"dynamodb:{operation}", params["ExportArn"])
        case _ if "TableName" in params:
            yield _to_table(operation, params["TableName"], place)
        case _:
            yield Permission(f"dynamodb:{operation}", ANYTHING)


def _to_table(operation: str, table: str, place: Place) -> Permission:
    return Permission(f"dynamodb:{operation}", place.arn("dynamodb", f"table/{table}"))
