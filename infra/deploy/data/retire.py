"""`make retire STAGE=… ORG=…`: delete the events of an organization that has left.

Its observers end, its log and its users' inboxes are deleted, and what was made of them. It stays in the directory: its
number is never used again, and whoever publishes to it goes on with higher numbers. Readers who ask for what is gone
are told so (Torn). Stopped, it can be run again.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.adapters.aws.client import DYNAMODB, client
from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.domain import timestamps
from chalicelib.domain.errors import AnnalsError
from chalicelib.domain.organizations.organization import inbox_of
from infra.deploy.build.package import STAGES
from infra.deploy.data.organization_removal import Holding, Retiring
from infra.deploy.stack.functions import begin_anew
from infra.deploy.stack.prompts import answer_to
from infra.deploy.stack.stage import NotDeployed, Stage
from infra.tools.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from chalicelib.adapters.aws.protocol import Calls

FAILURES: Final = (NotDeployed, AnnalsError, Refusal, ClientError, BotoCoreError)


def main() -> None:
    """Retire one organization."""
    args = _arguments()
    try:
        stage = Stage.deployed(args.stage)
        confirm = (lambda _: True) if args.yes else _typed
        if not retire(stage, args.org, args.before, client(DYNAMODB), confirm):
            sys.exit("\nNothing was deleted.")
        if not stage.retention:
            # Where nothing is ever forgotten, functions look only once where a log begins.
            print(f"{begin_anew(f'annals-{stage.name}', _why(args.org))} functions begin anew.")
    except FAILURES as failure:
        sys.exit(f"\nNot retired, or not all of it: {failure}")
    except KeyboardInterrupt:
        sys.exit("\nStopped. Run it again to go on.")


def retire(stage: Stage, name: str, before_us: int | None, client: Calls, confirm: Callable[[str], bool]) -> bool:
    """Delete what the organization holds, or what is older than `before_us`; False if somebody said no."""
    parts = stage.annals()
    server = parts.organizations.server(name)
    retiring = Retiring(parts, client, stage.log_table, before_us)
    holdings = [retiring.holding(server), retiring.holding(inbox_of(server))]
    _show(name, holdings)
    if not confirm(name):
        return False
    if before_us is None:
        ended = retiring.end_observers(server)
        print(f"Observers ended: {', '.join(ended) or 'there are none'}.")
    for holding in holdings:
        _delete(retiring, holding)
        retiring.forget_views(holding.server)
    if before_us is None:
        retiring.forget_deliveries(server)
    print(
        f"{name} is retired." if before_us is None else f"What {name} held before {timestamps.iso(before_us)} is gone."
    )
    return True


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Delete the events of an organization that has left.")
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--org", required=True, help="the organization's name")
    parser.add_argument("--before", type=_time, help="only what is older, such as 2026-11-16T10:00:00Z")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    return parser.parse_args()


def _time(text: str) -> int:
    try:
        return timestamps.parse(text)
    except ValueError as failure:
        raise argparse.ArgumentTypeError(str(failure)) from failure


def _typed(name: str) -> bool:
    return answer_to(f"This cannot be undone. Type {name} to go on:") == name


def _why(name: str) -> str:
    return f"Began anew {timestamps.iso(time.time_ns() // 1000)}: {name} was retired."


def _show(name: str, holdings: list[Holding]) -> None:
    for what, holding in zip((name, f"{name} (inbox)"), holdings, strict=True):
        print(f"  {what:<30} {holding.commits:>12,} commits with {holding.events:,} events would be deleted")


def _delete(retiring: Retiring, holding: Holding) -> None:
    progress = Progress("Deleting", holding.commits, "commits")
    deleted = retiring.delete(holding.server, progress.to)
    progress.end(f"{deleted:,} commits are deleted.")


if __name__ == "__main__":
    main()
