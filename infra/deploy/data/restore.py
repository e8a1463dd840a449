"""`make restore STAGE=… TO=…`: restore lost commits of a stage's log.

Commits never change, so a restore only adds missing ones and overwrites nothing. They come from the log's table as of a
point in time, which DynamoDB restores into a second table, or from a table restored from a backup. The command can be
stopped and run again. Views are not restored: they can be rebuilt.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.adapters.aws.client import DYNAMODB, create_client
from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.domain import timestamps
from chalicelib.domain.errors import AnnalsError, LogBroken
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, configuration_log, inbox_log
from infra.deploy.build.package import STAGES
from infra.deploy.data.commit_restore import CommitRestore, LogDiverged, RestoreSummary
from infra.deploy.data.log_continuity import LogContinuity, check_continuity
from infra.deploy.data.point_in_time import UnusableTable, check_restore_source, restore_table, wait_until_active
from infra.deploy.stack import prompts
from infra.deploy.stack.stage import NotDeployed, Stage
from infra.tools.progress import Progress

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient

Confirm = Callable[[str], bool]
FAILURES: Final = (NotDeployed, UnusableTable, AnnalsError, ServiceError, ClientError, BotoCoreError)


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """Number of commits by outcome, and the state of the logs afterwards."""

    present: int
    restored: int
    expired: int
    continuity: dict[int, LogContinuity]
    """State of each log by server."""


def main() -> None:
    args = _arguments()
    try:
        stage, dynamodb = Stage.from_stack(args.stage), create_client(DYNAMODB)
        table = _table(dynamodb, stage, args.table, args.to)
        result = restore(
            stage, table, dynamodb, (lambda _: True) if args.yes else prompts.confirm, dry_run=args.dry_run
        )
    except LogDiverged as error:
        sys.exit(
            f"\nStopped without further writes: {error}\n"
            "The lost commits cannot be restored, because their session numbers are in use."
        )
    except FAILURES as error:
        sys.exit(f"\nNot restored: {error}")
    except KeyboardInterrupt:
        sys.exit("\nStopped. Run the command again to resume.")
    if result is not None:
        _print_result(result, _log_names(stage))
    print(f"\nThe table {table} stays. To delete it: aws dynamodb delete-table --table-name {table}")


def restore(
    stage: Stage, table: str, client: ServiceClient, confirm: Confirm, *, dry_run: bool = False
) -> RestoreResult | None:
    """Copy the commits from `table` that the log lacks. None if not confirmed. Raises `LogDiverged`."""
    check_restore_source(client, table, stage.log_table)
    now_s = int(time.time())
    commit_restore = CommitRestore(client, table, stage.log_table, now_s)
    summary = _compare(commit_restore)
    missing = summary.missing.total()
    restored = 0
    if missing and not dry_run:
        _list_missing(summary, _log_names(stage))
        if not confirm(f"Restore {missing:,} commits?"):
            return None
        progress = Progress("Restoring", missing, "commits")
        restored = commit_restore.restore(sorted(summary.missing), progress.update)
        progress.finish(f"{restored:,} commits restored.")
    continuity = {
        server: check_continuity(client, stage.log_table, server, now_s) for server in sorted(summary.servers)
    }
    return RestoreResult(summary.present, restored, summary.expired, continuity)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Restore lost commits of a stage's log.")
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--to", type=_time, help="the point in time, such as 2026-11-16T10:00:00Z")
    parser.add_argument("--table", help="a table that is already restored, for example from a backup")
    parser.add_argument("--dry-run", action="store_true", help="only report missing commits")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    args = parser.parse_args()
    if args.to is None and args.table is None:
        parser.error("one of --to (a time) and --table (a restored table) is required")
    return args


def _time(text: str) -> datetime:
    """Parse to whole seconds, the resolution of DynamoDB's restores."""
    try:
        return datetime.fromtimestamp(timestamps.parse(text) // 1_000_000, UTC)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _table(client: ServiceClient, stage: Stage, name: str | None, to: datetime) -> str:
    """The name of the table to restore from, once it can be read."""
    if name is None:
        return restore_table(client, stage.log_table, to, time.sleep)
    wait_until_active(client, name, time.sleep)
    return name


def _compare(commit_restore: CommitRestore) -> RestoreSummary:
    # DynamoDB updates item counts every few hours: the total is approximate.
    counts = [
        commit_restore.client.call("DescribeTable", {"TableName": name})["Table"]["ItemCount"]
        for name in (commit_restore.restored_table, commit_restore.live_table)
    ]
    progress = Progress("Comparing", max(counts), "commits")
    summary = commit_restore.compare(progress.update)
    progress.finish(
        f"{summary.total:,} commits in {commit_restore.restored_table}: "
        f"{summary.present:,} are in the log, {summary.missing.total():,} are missing, "
        f"{summary.expired:,} are past retention."
    )
    return summary


def _list_missing(summary: RestoreSummary, names: dict[int, str]) -> None:
    for server, missing in sorted(summary.missing.items()):
        print(f"  {names.get(server, f'server {server}'):<30} {missing:>12,} missing")
    print(
        "Stop publishing to these logs until the restore is complete: "
        "new events would reuse the missing session numbers."
    )


def _print_result(result: RestoreResult, names: dict[int, str]) -> None:
    print(f"\nAlready present: {result.present:,}; restored: {result.restored:,}; past retention: {result.expired:,}.")
    for server, continuity in result.continuity.items():
        print(f"  {names.get(server, f'server {server}'):<30} {continuity}")


def _log_names(stage: Stage) -> dict[int, str]:
    """Names of logs for people, as far as the directory can be read."""
    names = {DIRECTORY_SERVER: "(organizations)"}
    try:
        for organization in stage.components().log.organizations.all():
            names[organization.server] = organization.name
            names[configuration_log(organization.server)] = f"{organization.name} (configuration)"
            names[inbox_log(organization.server)] = f"{organization.name} (inbox)"
    except LogBroken:
        print("The directory of organizations has a gap: logs are listed by their numbers.")
    return names


if __name__ == "__main__":
    main()
