"""`make destroy`: delete a stage with all its data. Refuses if the stage has deletion protection."""

import argparse
import sys
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from infra.deploy.build.package import STAGES
from infra.deploy.stack import clients, prompts
from infra.deploy.stack.stacks import Stack, StackFailed

TABLES: Final = ("LogTable", "ViewsTable")
BUCKET: Final = "ExportBucket"


class StageProtected(Exception):
    """The stage has deletion protection. The message says how to turn it off."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Delete a stage with all its events.")
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    args = parser.parse_args()
    try:
        destroy(args.stage, is_interactive=not args.yes)
    except (StageProtected, StackFailed, ClientError, BotoCoreError) as error:
        sys.exit(f"Not destroyed: {error}")


def destroy(stage: str, *, is_interactive: bool) -> None:
    """Delete the stack, then its tables and its bucket, which CloudFormation retains."""
    stack = Stack(f"annals-{stage}")
    if stack.description() is None:
        raise StackFailed(f"there is no stack {stack.name}")
    tables = [table for table in map(stack.physical_id, TABLES) if table is not None]
    bucket = stack.physical_id(BUCKET)
    _check_protection(stage, stack, tables)
    if is_interactive:
        print(f"This deletes {stack.name} with all its events: tables {', '.join(tables)} and bucket {bucket}.")
        if prompts.ask(f"Type {stage} to continue:") != stage:
            raise StackFailed(f"the answer was not '{stage}'")
    for line in stack.delete():
        print(f"  {line}", flush=True)
    for table in tables:
        _delete_table(table)
    if bucket is not None:
        _delete_bucket(bucket)
    print(f"{stack.name} is deleted.")


def _check_protection(stage: str, stack: Stack, tables: list[str]) -> None:
    dynamodb = clients.client("dynamodb")
    protected = [
        name for name in tables if dynamodb.describe_table(TableName=name)["Table"].get("DeletionProtectionEnabled")
    ]
    if protected or stack.parameters().get("DeletionProtection") == "true":
        raise StageProtected(
            f"{stack.name} is protected from deletion. To turn the protection off:\n"
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
            keys = [{"Key": item["Key"]} for item in page.get("Contents", ())]
            if keys:
                s3.delete_objects(Bucket=name, Delete={"Objects": keys, "Quiet": True})
        s3.delete_bucket(Bucket=name)
    except s3.exceptions.NoSuchBucket:
        return
    print(f"  bucket {name} is deleted")


if __name__ == "__main__":
    main()
