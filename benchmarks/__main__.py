"""`make bench`: Annals and UmaDB side by side on this machine, and what events cost on DynamoDB."""

import argparse
import os
import platform
import signal
import subprocess
import sys
import time

from benchmarks import observers, reading, servers, streams, table
from benchmarks.rows import Effort, Run

HEADING = ("", "Annals", "UmaDB", "ratio", "of rounds", "goal", "")


def main() -> None:
    """Measure, check what was written, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each append load lasts")
    parser.add_argument(
        "--quick", action="store_true", help="short and rough, within 40 seconds whatever --seconds says"
    )
    args = parser.parse_args()
    effort = Effort(2, 0.7, 20, 60) if args.quick else Effort(3, args.seconds, 80, 150)
    # Ended from outside we still stop the servers and remove their data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    _introduce(effort)
    with (
        servers.fresh_directory() as directory,
        servers.annals(directory / "annals") as ours,
        servers.umadb(directory / "umadb") as theirs,
    ):
        run = Run(ours, theirs, effort)
        rows = list(run.rows())
        print(table.printed(HEADING, rows))
        print(f"\nVerified, every event: {run.verify()}.\n")
        print(reading.measured(directory / "history", 100_000 if args.quick else 1_000_000), "\n", flush=True)
        print(streams.measured(directory / "streams", 40 if args.quick else streams.EVENTS), "\n", flush=True)
        print(observers.measured(directory / "observers"), "\n", flush=True)
    cost = [sys.executable, "-m", "benchmarks.dynamodb_cost"]
    subprocess.run([*cost, "--quick"] if args.quick else cost, cwd=servers.ROOT, check=True)
    print(flush=True)
    subprocess.run([sys.executable, "-m", "benchmarks.dynamodb_units"], cwd=servers.ROOT, check=True)
    print(flush=True)
    functions = [sys.executable, "-m", "benchmarks.functions"]
    subprocess.run([*functions, "--quick"] if args.quick else functions, cwd=servers.ROOT, check=True)
    print(flush=True)
    subprocess.run([sys.executable, "-m", "benchmarks.aws_prices"], cwd=servers.ROOT, check=True)
    print(f"\n{time.monotonic() - started:.0f} s.")


def _introduce(effort: Effort) -> None:
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(
        f"Annals beside UmaDB {servers.umadb_version()}: Python {platform.python_version()}, {cores} cores, "
        f"load average {load:.1f} before.\n"
        "Both sync to disk before they answer, on the same disk; events of about 200 bytes; Annals answers with the\n"
        "numbered events, UmaDB with a position. Servers and load generators share the cores.\n"
        f"Medians of {effort.rounds} rounds in turns. ratio = Annals / UmaDB: more is better of /s, less of ms;\n"
        '"of rounds" is its range over the rounds: where that is wide, the machine was busy and the ratio is rough.\n',
        flush=True,
    )


if __name__ == "__main__":
    main()
