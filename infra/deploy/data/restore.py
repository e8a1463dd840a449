"""`make restore STAGE=… TO=…`: put back what the log of a stage has lost.

Commits never change, so to restore is to put back those that are missing; nothing that is there is overwritten. They
come from the log's table as it was at a point in time, which DynamoDB makes beside it, or from a table that was made
from a backup. Stopped, it can be run again; views need no restoring, they can be built anew.
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

from chalicelib.adapters.aws.client import DYNAMODB, client
from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.domain import timestamps
from chalicelib.domain.errors import AnnalsError, LogBroken
from chalicelib.domain.organizations.organization import DIRECTORY, configuration_of, inbox_of
from infra.deploy.build.package import STAGES
from infra.deploy.data.commit_restore import Diverged, PuttingBack, Tally
from infra.deploy.data.log_continuity import Chain, chain_of
from infra.deploy.data.point_in_time import NotRestored, await_active, check_is_log, restored_table
from infra.deploy.stack.prompts import agreed
from infra.deploy.stack.stage import NotDeployed, Stage
from infra.tools.progress import Progress

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls

Confirm = Callable[[str], bool]
FAILURES: Final = (NotDeployed, NotRestored, AnnalsError, Refusal, ClientError, BotoCoreError)


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of the commits of the restored table, and how the logs are now."""

    there: int
    put_back: int
    expired: int
    chains: dict[int, Chain]
    """By server."""


def main() -> None:
    """Restore the log of one stage."""
    args = _arguments()
    try:
        stage, dynamodb = Stage.deployed(args.stage), client(DYNAMODB)
        table = _table(dynamodb, stage, args.table, args.to)
        restored = restore(stage, table, dynamodb, (lambda _: True) if args.yes else agreed, dry_run=args.dry_run)
    except Diverged as failure:
        sys.exit(f"\nStopped, and nothing more is written: {failure}\nWhat is lost cannot have its numbers back.")
    except FAILURES as failure:
        sys.exit(f"\nNot restored: {failure}")
    except KeyboardInterrupt:
        sys.exit("\nStopped. Run it again to go on.")
    if restored is not None:
        _tell(restored, _names(stage))
    print(f"\nThe table {table} stays. To delete it: aws dynamodb delete-table --table-name {table}")


def restore(stage: Stage, table: str, client: Calls, confirm: Confirm, *, dry_run: bool = False) -> Restored | None:
    """Put back what the log lacks and `table` has; None if somebody said no. Raises `Diverged` if it cannot be."""
    check_is_log(client, table, stage.log_table)
    now_s = int(time.time())
    back = PuttingBack(client, table, stage.log_table, now_s)
    tally = _compared(back)
    missing = tally.missing.total()
    put_back = 0
    if missing and not dry_run:
        _list_missing(tally, _names(stage))
        if not confirm(f"Put back {missing:,} commits?"):
            return None
        progress = Progress("Putting back", missing, "commits")
        put_back = back.put_back(sorted(tally.missing), progress.to)
        progress.end(f"{put_back:,} commits are put back.")
    chains = {server: chain_of(client, stage.log_table, server, now_s) for server in sorted(tally.servers)}
    return Restored(tally.there, put_back, tally.expired, chains)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Put back what the log of a stage has lost.")
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--to", type=_time, help="the point in time, such as 2026-11-16T10:00:00Z")
    parser.add_argument("--table", help="a table that is restored already, from a backup for instance")
    parser.add_argument("--dry-run", action="store_true", help="only say what is missing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    args = parser.parse_args()
    if args.to is None and args.table is None:
        parser.error("to which time (--to), or from which table (--table)?")
    return args


def _time(text: str) -> datetime:
    """The second that is meant; DynamoDB knows no smaller ones."""
    try:
        return datetime.fromtimestamp(timestamps.parse(text) // 1_000_000, UTC)
    except ValueError as failure:
        raise argparse.ArgumentTypeError(str(failure)) from failure


def _table(client: Calls, stage: Stage, given: str | None, to: datetime) -> str:
    """The table to restore from, ready to be read."""
    if given is None:
        return restored_table(client, stage.log_table, to, time.sleep)
    await_active(client, given, time.sleep)
    return given


def _compared(back: PuttingBack) -> Tally:
    # DynamoDB counts items every few hours: the bar is about right.
    sizes = [
        back.client.call("DescribeTable", {"TableName": name})["Table"]["ItemCount"]
        for name in (back.restored, back.live)
    ]
    progress = Progress("Comparing", max(sizes), "commits")
    tally = back.compare(progress.to)
    progress.end(
        f"{tally.seen:,} commits are in {back.restored}: {tally.there:,} are in the log, {tally.missing.total():,} "
        f"are missing, {tally.expired:,} are past retention."
    )
    return tally


def _list_missing(tally: Tally, names: dict[int, str]) -> None:
    for server, missing in sorted(tally.missing.items()):
        print(f"  {names.get(server, f'server {server}'):<30} {missing:>12,} missing")
    print("Nobody should publish to these logs before all is put back: numbers that are free could be used again.")


def _tell(restored: Restored, names: dict[int, str]) -> None:
    print(f"\nThere before: {restored.there:,}; put back: {restored.put_back:,}; past retention: {restored.expired:,}.")
    for server, chain in restored.chains.items():
        print(f"  {names.get(server, f'server {server}'):<30} {chain}")


def _names(stage: Stage) -> dict[int, str]:
    """What to call the logs, as far as the directory can be read."""
    names = {DIRECTORY: "(organizations)"}
    try:
        for one in stage.annals().organizations.all():
            names[one.server] = one.name
            names[configuration_of(one.server)] = f"{one.name} (observers)"
            names[inbox_of(one.server)] = f"{one.name} (inbox)"
    except LogBroken:
        print("The directory itself has a gap: logs are called by their numbers.")
    return names


if __name__ == "__main__":
    main()
