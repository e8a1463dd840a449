"""Simulated weeks from the command line: `python -m tests.faults.week --seeds 20`.

With the same seed and PYTHONHASHSEED=0, all happens in the same order.
"""

import argparse
import sys
from collections import Counter

from tests.faults.week.report import folder_in_memory, run_week
from tests.faults.week.scenario import RUNS_OF_TYPE


def main() -> int:
    """Run a week for each seed. Returns 1 if alarms or messages differ from what the logs call for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.week", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of weeks")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--types", type=int, default=50, help="number of job types")
    parser.add_argument("--runs", type=int, default=RUNS_OF_TYPE, help="planned runs of each type")
    args = parser.parse_args()
    failed, kills = 0, Counter[str]()
    for seed in range(args.first, args.first + args.seeds):
        with folder_in_memory() as folder:
            report = run_week(folder, seed, args.types, args.runs)
        print(*report.lines, sep="\n", flush=True)
        failed += not report.is_exact
        for (kind, moment), count in report.kills.kills.items():
            kills[f"{moment} {kind}"] += count
    print("kills:", ", ".join(f"{count} {name}" for name, count in sorted(kills.items())))
    print(f"{args.seeds - failed} of {args.seeds} weeks are exact")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
