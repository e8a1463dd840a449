"""`make smoke STAGE=...`: the first hour on AWS as a command. Checks a deployed stage and prints the results."""

import argparse
import sys
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from infra.deploy.build.package import STAGES
from infra.deploy.smoke import queues, requests, stacks
from infra.deploy.smoke.check import Check, Result, Status, run_checks, table
from infra.deploy.smoke.target import NotPossible, Target
from infra.deploy.stack import prompts
from infra.deploy.stack.stage import NotDeployed

MINUTE_S: Final = 60.0
CHECKS: Final = (
    Check(1, "failed update is rolled back", 15 * MINUTE_S, stacks.fail_update),
    Check(2, "requests and routes", 3 * MINUTE_S, requests.route_requests),
    Check(3, "bad message among good ones", 5 * MINUTE_S, queues.ingest_bad_message),
    Check(4, "1,000 notifications", 15 * MINUTE_S, queues.deliver_burst),
    Check(5, "200 followers and a publisher", 3 * MINUTE_S, requests.poll_in_parallel),
    Check(6, "5 MB of Cyrillic", 5 * MINUTE_S, requests.read_cyrillic),
    Check(7, "expired tokens", 15 * MINUTE_S, requests.send_expired_tokens),
    Check(8, "traces", 5 * MINUTE_S, requests.find_trace),
    Check(9, "mail", 10 * MINUTE_S, queues.send_mails),
    Check(10, "export and report", 60 * MINUTE_S, stacks.build_report),
    Check(11, "cost of a read", 10 * MINUTE_S, requests.count_read_units),
    Check(12, "projection stopped and resumed", 20 * MINUTE_S, queues.stop_projection),
    Check(13, "cost of a day", MINUTE_S, stacks.read_costs),
)
WARNING: Final = """\
make smoke runs {number} checks on {stack}. It publishes about 1,100 events in new organizations named {prefix}-...,
sends 31 mails if mail is configured, stops the function `project` for five minutes and runs an update that fails.
Use a stage without users. On AWS this takes up to two hours and costs about a dollar."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Check a deployed stage.")
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--only", help="numbers of checks, such as 2,3,6")
    args = parser.parse_args()
    checks = _select(args.only)
    try:
        target = Target.from_stack(args.stage)
    except (NotDeployed, NotPossible, ClientError, BotoCoreError) as error:
        sys.exit(f"Nothing was checked: {error}")
    print(WARNING.format(number=len(checks), stack=target.stack.name, prefix=f"smoke-{target.run}"))
    if not args.yes and not prompts.confirm("Continue?"):
        sys.exit("\nNothing was checked.")
    results = []
    for result in run_checks(checks, target):
        results.append(result)
        _print_progress(result, len(results), len(checks))
    print(f"\n{table(results)}")
    if failed := [str(result.check.number) for result in results if result.status is Status.FAILED]:
        sys.exit(f"\nFailed: {', '.join(failed)}.")


def _select(only: str | None) -> list[Check]:
    if only is None:
        return list(CHECKS)
    numbers = {number.strip() for number in only.split(",")}
    if unknown := numbers - {str(check.number) for check in CHECKS}:
        sys.exit(f"There is no check {', '.join(sorted(unknown))}: they are numbered from 1 to {len(CHECKS)}.")
    return [check for check in CHECKS if str(check.number) in numbers]


def _print_progress(result: Result, done: int, total: int) -> None:
    print(f"[{done}/{total}] {result.check.name}: {result.status}, {result.duration_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
