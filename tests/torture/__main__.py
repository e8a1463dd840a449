"""`make torture`: run the proof from the command line."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.torture.checker import Kind
from tests.torture.progress import Order
from tests.torture.report import Outcome, table
from tests.torture.servers import ministack
from tests.torture.targets import torture_dynamodb, torture_http, torture_sqlite

ROUND_S = 10.0
"""So long a log is used before a new one begins: what is checked stays small, and so does ministack's table."""
MOST_SHOWN = 5
"""Of each kind."""

TARGETS = ("sqlite", "dynamodb", "http")

Torture = Callable[[Order], Outcome]


def main() -> int:
    """Torture the targets; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each target")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--target", choices=[*TARGETS, "all"], default="all")
    args = parser.parse_args()
    targets = TARGETS if args.target == "all" else (args.target,)
    print(f"seed {args.seed}, {args.seconds:g} s for each of {', '.join(targets)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="annals-torture-") as directory, ExitStack() as running:
        home = Path(directory)
        outcomes = [_all_rounds(name, _torture(name, home, running), home, args.seconds, args.seed) for name in targets]
    print("\n" + table(outcomes), flush=True)
    return _told(outcomes, args.seed)


def _torture(name: str, home: Path, running: ExitStack) -> Torture:
    match name:
        case "sqlite":
            return torture_sqlite
        case "http":
            return torture_http
        case _:
            endpoint = running.enter_context(ministack(home / "ministack"))
            return lambda order: torture_dynamodb(order, endpoint)


def _all_rounds(name: str, torture: Torture, home: Path, seconds: float, seed: int) -> Outcome:
    total = Outcome(name)
    for number, round_s in enumerate(_rounds(seconds)):
        total += torture(Order(home / f"{name}-{number}", round_s, f"{seed}/{number}", _say))
    return total


def _rounds(seconds: float) -> Iterator[float]:
    while seconds > 0:
        yield min(seconds, ROUND_S)
        seconds -= ROUND_S


def _told(outcomes: list[Outcome], seed: int) -> int:
    broken = [(outcome.target, violation) for outcome in outcomes for violation in outcome.violations]
    if not broken:
        print("\nNothing lost, nothing doubled, nothing reordered, nothing skipped.")
        return 0
    print(f"\n{len(broken)} violations with seed {seed}:")
    shown: Counter[Kind] = Counter()
    for target, violation in broken:
        shown[violation.kind] += 1
        if shown[violation.kind] <= MOST_SHOWN:
            print(f"- {target}: {violation}")
    print(", ".join(f"{number} {kind.name}" for kind, number in shown.items()))
    return 1


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
