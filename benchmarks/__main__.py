"""`make bench`: Annals and its peers side by side on this machine, and what Annals costs by itself.

What is found is kept, the latest of each part; docs/performance.md is written from it.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    castore_units,
    console,
    document,
    dynamodb_cost,
    dynamodb_units,
    functions,
    machine,
    observers,
    servers,
    side_by_side,
    spark,
    streams,
)
from benchmarks.results import QUICK_RESULTS, RESULTS, Measured, Results, Table
from benchmarks.side_by_side import Effort, Sides

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (2_000, 10_000)
THOROUGH = Effort(rounds=3, seconds=1.5, asks=200, waits=150)
BRIEF = Effort(rounds=1, seconds=1.5, asks=200, waits=150)
"""For all lengths of the log but the first."""
QUICK = Effort(rounds=1, seconds=0.5, asks=30, waits=40)

BESIDE_PEERS: dict[str, Callable[[Sides], Iterator[Table]]] = {
    "reading": Sides.reading,
    "queries": Sides.queries,
    "read units": Sides.read_units,
    "alone": Sides.alone,
    "waiting": Sides.waiting,
    "appends": Sides.appends,
}
"""Measured at each length of the log, in this order: the last make it longer. Alone Annals has the longest only."""
BY_ITSELF: dict[str, Callable[[Path, bool], Iterator[Table]]] = {
    "streams": lambda folder, quick: streams.measured(folder, 40 if quick else streams.EVENTS),
    "observers": lambda folder, _: observers.measured(folder),
    "console": lambda folder, quick: console.measured(folder, 3 if quick else console.SECONDS),
    "cost": lambda _, quick: dynamodb_cost.measured(quick),
    "units": lambda _, __: dynamodb_units.measured(),
    "castore": lambda _, __: castore_units.measured(),
    "functions": lambda _, quick: functions.measured(3 if quick else 7),
}
"""Annals by itself, or beside another kind of peer; each has a folder of its own."""
SPARK = "spark"
"""It has a venv of its own, exports of several lengths, and takes its time."""
USUAL = [*BESIDE_PEERS, *BY_ITSELF]
ALL = (*USUAL, SPARK)


def main() -> None:
    """Measure what is wanted, keep it, print it."""
    args = _arguments()
    # Ended from outside we still stop the servers and remove their data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    path = servers.ROOT / (QUICK_RESULTS if args.quick else RESULTS)
    results = Results.load(path)
    with servers.fresh_directory() as directory:
        facts = machine.facts(directory)
        print(_introduction(facts), flush=True)
        for measured in _measured(args, directory, facts):
            results.add(measured)
            results.save(path)
            _show(measured)
    document.write(results, document.QUICK_DOCUMENT if args.quick else document.DOCUMENT)
    print(f"\n{time.monotonic() - began:.0f} s.")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short and rough, within two minutes")
    parser.add_argument("--only", type=_names, default=USUAL, help=f"some of {','.join(ALL)}")
    parser.add_argument("--sizes", type=_numbers, default=[], help="lengths of the log: 10000,100000")
    args = parser.parse_args()
    args.sizes = args.sizes or (QUICK_SIZES if args.quick else SIZES)
    return args


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(ALL):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(ALL)}")
    return names


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _measured(args: argparse.Namespace, directory: Path, facts: dict[str, Any]) -> Iterator[Measured]:
    wanted = [name for name in BESIDE_PEERS if name in args.only]
    for size in args.sizes if wanted else ():
        folder = directory / str(size)
        effort = QUICK if args.quick else THOROUGH if size == args.sizes[0] else BRIEF
        some = [name for name in wanted if name != "alone" or size == max(args.sizes)]
        yield from _at_size(some, folder, size, effort, facts)
        shutil.rmtree(folder)
    for name in (name for name in BY_ITSELF if name in args.only):
        yield _one(name, 0, facts, partial(BY_ITSELF[name], directory / name, args.quick))
    for events in spark.QUICK_SIZES if args.quick else spark.SIZES:
        if SPARK in args.only:
            yield _one(SPARK, events, facts, partial(spark.measured, directory / f"{SPARK}-{events}", events))


def _at_size(wanted: list[str], folder: Path, size: int, effort: Effort, facts: dict[str, Any]) -> Iterator[Measured]:
    began = time.monotonic()
    with side_by_side.sides(folder, size, effort) as sides:
        print(f"{size:,} events stored in each log, in {time.monotonic() - began:.0f} s.\n", flush=True)
        for name in wanted:
            yield _one(name, size, facts, partial(BESIDE_PEERS[name], sides))
        if "appends" in wanted and effort is not BRIEF:
            print(f"Verified, every event: {sides.verify()}.\n", flush=True)


def _one(part: str, size: int, facts: dict[str, Any], tables: Callable[[], Iterator[Table]]) -> Measured:
    before = machine.moment()
    began = time.monotonic()
    found = tuple(tables())
    return Measured(part, size, {**facts, **before, "seconds": round(time.monotonic() - began)}, found)


def _show(measured: Measured) -> None:
    where = f" of {measured.size:,} events" if measured.size else ""
    facts = measured.facts
    print(f"{measured.part}{where}: load before {facts['load']}, took {facts['seconds']} s\n")
    print("\n\n".join(map(str, measured.tables)), "\n", flush=True)


def _introduction(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"Annals beside {versions}: {facts['cores']} cores ({facts['processor']}), Python {facts['python']}, "
        f"a sync to the disk takes {facts['sync_ms']} ms, load average {os.getloadavg()[0]:.1f} before.\n"
    )


if __name__ == "__main__":
    main()
