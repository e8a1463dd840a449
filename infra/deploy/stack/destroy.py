"""`make destroy`: a stage with all that it holds. Refuses a stage that is protected from it."""

import argparse
import sys
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from infra.deploy.build.package import STAGES
from infra.deploy.stack import clients
from infra.deploy.stack.stacks import Failed, Stack

TABLES: Final = ("LogTable", "ViewsTable")
BUCKET: Final = "ExportBucket"


class Protected(Exception):
    """The stage is not to be destroyed; the message says how that is changed."""


def main() -> None:
    """Destroy one stage."""
    parser = argparse.ArgumentParser(description="Destroy a stage with all its events.")
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    args = parser.parse_args()
    try:
        destroy(args.stage, asks=not args.yes)
    except (Protected, Failed, ClientError, BotoCoreError) as failure:
        sys.exit(f"Not destroyed: {failure}")


def destroy(stage: str, *, asks: bool) -> None:
    """Delete the stack, and then its tables and its bucket, which outlive it."""
    stack = Stack(f"annals-{stage}")
    if stack.description() is None:
        raise Failed(f"there is no stack {stack.name}")
    tables = [found for found in map(stack.resource, TABLES) if found is not None]
    bucket = stack.resource(BUCKET)
    _check_protection(stage, stack, tables)
    held = ", ".join(["tables", *tables, "and bucket", str(bucket)])
    if asks and input(f"This deletes {stack.name} with all its events: {held}.\nType {stage} to go on: ") != stage:
        raise Failed("that was not its name")
    for line in stack.delete():
        print(f"  {line}", flush=True)
    for table in tables:
        _delete_table(table)
    if bucket is not None:
        _delete_bucket(bucket)
    print(f"{stack.name} is gone.")


def _check_protection(stage: str, stack: Stack, tables: list[str]) -> None:
    dynamodb = clients.client("dynamodb")
    protected = [
        name for name in tables if dynamodb.describe_table(TableName=name)["Table"].get("DeletionProtectionEnabled")
    ]
    if protected or stack.parameters().get("DeletionProtection") == "true":
        raise Protected(
            f"{stack.name} is protected from deletion. If you mean it, first:\n"
            f"  make deploy STAGE={stage} PARAMS='DeletionProtection=false'"
        )


def _delete_table(name: str) -> None:
    dynamodb = clients.client("dynamodb")
    try:
        dynamodb.delete_table(TableName=name)
    except dynamodb.exceptions.ResourceNotFoundException:
        return
    print(f"  table {name} is deleted")


def _delete_bucket(name: str) -> None:
    s3 = clients.client("s3")
    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
            keys = [{"Key": one["Key"]} for one in page.get("Contents", ())]
            if keys:
                s3.delete_objects(Bucket=name, Delete={"Objects": keys, "Quiet": True})
        s3.delete_bucket(Bucket=name)
    except s3.exceptions.NoSuchBucket:
        return
    print(f"  bucket {name} is deleted")


if __name__ == "__main__":
    main()
