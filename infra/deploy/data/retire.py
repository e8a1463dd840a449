"""`make retire STAGE=… ORG=…`: delete the events of an organization that has left.

Deletes its observers, its log, its users' inboxes, the views of them, and its history and reports. The organization
stays in the directory, so its number is never reused, and new events get higher numbers. Readers that ask for deleted
events get Torn. The command can be stopped and run again.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.adapters.aws.client import DYNAMODB, create_client
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.domain import timestamps
from chalicelib.domain.errors import AnnalsError
from chalicelib.domain.organizations.organization import inbox_log
from infra.deploy.build.package import STAGES
from infra.deploy.data.lake_removal import delete_from_lake
from infra.deploy.data.organization_removal import DeletionPlan, OrganizationRemoval
from infra.deploy.stack import prompts
from infra.deploy.stack.stacks import Stack
from infra.deploy.stack.stage import NotDeployed, Stage
from infra.tools.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from chalicelib.adapters.aws.protocol import ServiceClient

FAILURES: Final = (NotDeployed, AnnalsError, ServiceError, ClientError, BotoCoreError)


def main() -> None:
    args = _arguments()
    try:
        stage = Stage.from_stack(args.stage)
        confirm = (lambda _: True) if args.yes else _confirm_by_name
        if not retire(stage, args.org, args.before, create_client(DYNAMODB), confirm):
            sys.exit("\nNothing was deleted.")
        if not stage.retention:
            # Without retention, functions cache the start of a log forever.
            functions = Stack(f"annals-{stage.name}").restart_functions(_restart_reason(args.org))
            print(f"{functions} functions restarted.")
    except FAILURES as error:
        sys.exit(f"\nNot retired, or only in part: {error}")
    except KeyboardInterrupt:
        sys.exit("\nStopped. Run the command again to resume.")


def retire(
    stage: Stage, name: str, before_us: int | None, client: ServiceClient, confirm: Callable[[str], bool]
) -> bool:
    """Delete the organization's events, or those before `before_us`. False if not confirmed."""
    components = stage.components()
    server = components.log.organizations.server(name)
    removal = OrganizationRemoval(components, client, stage.log_table, before_us)
    plans = [removal.plan(server), removal.plan(inbox_log(server))]
    _print_plans(name, plans)
    if not confirm(name):
        return False
    if before_us is None:
        deleted = removal.delete_observers(server)
        print(f"Observers deleted: {', '.join(deleted) or 'none'}.")
        # Otherwise their alarms would be appended to the log that is deleted.
        print(f"Expectations deleted: {', '.join(removal.delete_expectations(server)) or 'none'}.")
    for plan in plans:
        _delete(removal, plan)
        removal.rebuild_views(plan.server)
    if before_us is None:
        removal.delete_delivery_records(server)
    if stage.export_bucket:
        before_day = None if before_us is None else timestamps.iso(before_us)[:10]
        print(f"{delete_from_lake(stage.export_bucket, server, before_day):,} files of history and reports deleted.")
    print(
        f"{name} is retired."
        if before_us is None
        else f"The events of {name} before {timestamps.iso(before_us)} are deleted."
    )
    return True


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Delete the events of an organization that has left.")
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--org", required=True, help="the organization's name")
    parser.add_argument("--before", type=_time, help="only delete older events, such as 2026-11-16T10:00:00Z")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    return parser.parse_args()


def _time(text: str) -> int:
    try:
        return timestamps.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _confirm_by_name(name: str) -> bool:
    return prompts.ask(f"This cannot be undone. Type {name} to continue:") == name


def _restart_reason(name: str) -> str:
    return f"Restarted {timestamps.iso(time.time_ns() // 1000)}: {name} was retired."


def _print_plans(name: str, plans: list[DeletionPlan]) -> None:
    for log_name, plan in zip((name, f"{name} (inbox)"), plans, strict=True):
        print(f"  {log_name:<30} {plan.commits:>12,} commits with {plan.events:,} events would be deleted")


def _delete(removal: OrganizationRemoval, plan: DeletionPlan) -> None:
    progress = Progress("Deleting", plan.commits, "commits")
    deleted = removal.delete(plan.server, progress.update)
    progress.finish(f"{deleted:,} commits deleted.")


if __name__ == "__main__":
    main()
