"""`make torture`: fault injection from the command line."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.dynamodb_local.server import missing
from tests.torture.checks.checker import Kind
from tests.torture.checks.report import Outcome, table
from tests.torture.hubs import torture_hubs
from tests.torture.progress import RunSettings
from tests.torture.servers import dynamodb_local, ministack
from tests.torture.targets import torture_dynamodb, torture_http, torture_sqlite

ROUND_DURATION_S = 10.0
"""A new log is used after this time, to limit what is checked and the size of the emulator's tables."""
MAX_SHOWN = 5
"""Violations printed per kind."""

TARGETS = ("sqlite", "dynamodb", "dynamodb-local", "http", "hubs")
ON_DYNAMODB_LOCAL = {"dynamodb-local", "hubs"}

TargetRunner = Callable[[RunSettings], Outcome]


def main() -> int:
    """Run all targets. Returns 1 if there are violations."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="duration per target")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--target", choices=[*TARGETS, "all"], default="all")
    args = parser.parse_args()
    targets: tuple[str, ...] = TARGETS if args.target == "all" else (args.target,)
    if ON_DYNAMODB_LOCAL & set(targets) and (reason := missing()):
        print(f"skipping {', '.join(sorted(ON_DYNAMODB_LOCAL & set(targets)))}: {reason}", flush=True)
        targets = tuple(name for name in targets if name not in ON_DYNAMODB_LOCAL)
    print(f"seed {args.seed}, {args.seconds:g} s per target: {', '.join(targets)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="annals-torture-") as directory, ExitStack() as running:
        home = Path(directory)
        outcomes = [
            _run_rounds(name, _target_runner(name, home, running), home, args.seconds, args.seed) for name in targets
        ]
    print("\n" + table(outcomes), flush=True)
    return _print_violations(outcomes, args.seed)


def _target_runner(name: str, home: Path, running: ExitStack) -> TargetRunner:
    match name:
        case "sqlite":
            return torture_sqlite
        case "http":
            return torture_http
        case _:
            run_emulator = ministack if name == "dynamodb" else dynamodb_local
            endpoint = running.enter_context(run_emulator(home / f"{name} emulator"))
            run = torture_hubs if name == "hubs" else torture_dynamodb
            return lambda settings: run(settings, endpoint)


def _run_rounds(name: str, run_target: TargetRunner, home: Path, seconds: float, seed: int) -> Outcome:
    total = Outcome(name)
    for number, round_s in enumerate(_rounds(seconds)):
        total += run_target(RunSettings(home / f"{name}-{number}", round_s, f"{seed}/{number}", _print))
    return total


def _rounds(seconds: float) -> Iterator[float]:
    while seconds > 0:
        yield min(seconds, ROUND_DURATION_S)
        seconds -= ROUND_DURATION_S


def _print_violations(outcomes: list[Outcome], seed: int) -> int:
    violations = [(outcome.target, violation) for outcome in outcomes for violation in outcome.violations]
    if not violations:
        print("\nNothing lost, duplicated, reordered or skipped.")
        return 0
    print(f"\n{len(violations)} violations with seed {seed}:")
    shown: Counter[Kind] = Counter()
    for target, violation in violations:
        shown[violation.kind] += 1
        if shown[violation.kind] <= MAX_SHOWN:
            print(f"- {target}: {violation}")
    print(", ".join(f"{number} {kind.name}" for kind, number in shown.items()))
    return 1


def _print(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
