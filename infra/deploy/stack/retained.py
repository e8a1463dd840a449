"""The tables and the bucket of a stage. CloudFormation retains them when it deletes the stack."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from infra.deploy.stack import clients
from infra.deploy.stack.stacks import Stack, StackFailed

TABLES: Final = ("LogTable", "ViewsTable")
BUCKET: Final = "ExportBucket"


def protected_tables(tables: Iterable[str]) -> list[str]:
    """Those of the tables that exist and have deletion protection."""
    return [name for name in tables if (_describe_table(name) or {}).get("DeletionProtectionEnabled")]


def remove_failed_creation(stack: Stack) -> Iterator[str]:
    """Delete a stack that was never created completely. Yields a line for each deleted resource.

    Raises `StackFailed` if a table or the bucket of the stack holds data.
    """
    remains = stack.remains()
    tables = [remains[name] for name in TABLES if name in remains]
    bucket = remains.get(BUCKET)
    for name in (*filter(_has_items, tables), *filter(_has_objects, [bucket] if bucket else ())):
        raise StackFailed(f"{stack.name} was never created completely, but {name} is not empty. Delete both yourself.")
    dynamodb = clients.client("dynamodb")
    for table in protected_tables(tables):
        dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
        dynamodb.get_waiter("table_exists").wait(TableName=table)
    yield from stack.delete()
    yield from delete(tables, bucket)


def delete(tables: Iterable[str], bucket: str | None) -> Iterator[str]:
    """Delete tables, and a bucket with its content. Yields a line for each that existed."""
    dynamodb, s3 = clients.client("dynamodb"), clients.client("s3")
    for name in tables:
        try:
            dynamodb.delete_table(TableName=name)
        except dynamodb.exceptions.ResourceNotFoundException:
            continue
        yield f"table {name} is deleted"
    if bucket is None:
        return
    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            keys = [{"Key": item["Key"]} for item in page.get("Contents", ())]
            if keys:
                s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
        s3.delete_bucket(Bucket=bucket)
    except s3.exceptions.NoSuchBucket:
        return
    yield f"bucket {bucket} is deleted"


def _describe_table(name: str) -> Mapping[str, Any] | None:
    dynamodb = clients.client("dynamodb")
    try:
        table: Mapping[str, Any] = dynamodb.describe_table(TableName=name)["Table"]
    except dynamodb.exceptions.ResourceNotFoundException:
        return None
    return table


def _has_items(table: str) -> bool:
    if _describe_table(table) is None:
        return False
    return bool(clients.client("dynamodb").scan(TableName=table, Limit=1, ConsistentRead=True)["Items"])


def _has_objects(bucket: str) -> bool:
    s3 = clients.client("s3")
    try:
        return bool(s3.list_objects_v2(Bucket=bucket, MaxKeys=1).get("Contents"))
    except s3.exceptions.NoSuchBucket:
        return False
