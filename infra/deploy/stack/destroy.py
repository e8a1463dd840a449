"""`make destroy`: delete a stage with all its data. Refuses if the stage has deletion protection."""

import argparse
import sys
from collections.abc import Iterable

from botocore.exceptions import BotoCoreError, ClientError

from infra.deploy.build.package import STAGES
from infra.deploy.stack import prompts, retained
from infra.deploy.stack.stacks import Stack, StackFailed


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
    if stack.is_failed_creation():
        print(f"{stack.name} was never created completely.")
        _print_lines(retained.remove_failed_creation(stack))
        print(f"{stack.name} is deleted.")
        return
    tables = [table for table in map(stack.physical_id, retained.TABLES) if table is not None]
    bucket = stack.physical_id(retained.BUCKET)
    _check_protection(stage, stack, tables)
    if is_interactive:
        print(f"This deletes {stack.name} with all its events: tables {', '.join(tables)} and bucket {bucket}.")
        if prompts.ask(f"Type {stage} to continue:") != stage:
            raise StackFailed(f"the answer was not '{stage}'")
    _print_lines(stack.delete())
    _print_lines(retained.delete(tables, bucket))
    print(f"{stack.name} is deleted.")


def _check_protection(stage: str, stack: Stack, tables: list[str]) -> None:
    if retained.protected_tables(tables) or stack.parameters().get("DeletionProtection") == "true":
        raise StageProtected(
            f"{stack.name} is protected from deletion. To turn the protection off:\n"
            f"  make deploy STAGE={stage} PARAMS='DeletionProtection=false'"
        )


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
