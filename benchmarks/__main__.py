"""`make bench`: measure Annals beside its peers on this machine, and Annals by itself.

The latest result of each part is stored, and docs/performance.md is written from the results.
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

from benchmarks.annals import console, lists, observers, streams
from benchmarks.aws import castore_units, dynamodb_cost, dynamodb_units, functions
from benchmarks.peers import servers, side_by_side
from benchmarks.peers.side_by_side import Comparison, Effort
from benchmarks.report import document, machine
from benchmarks.report.results import QUICK_RESULTS, RESULTS, Measurement, Results, Table
from benchmarks.spark import jobs as spark

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (2_000, 10_000)
THOROUGH = Effort(rounds=3, seconds=1.5, queries=200, waits=150)
BRIEF = Effort(rounds=1, seconds=1.5, queries=200, waits=150)
"""For all log sizes but the first."""
QUICK = Effort(rounds=1, seconds=0.5, queries=30, waits=40)

PEER_PARTS: dict[str, Callable[[Comparison], Iterator[Table]]] = {
    "reading": Comparison.reading,
    "queries": Comparison.queries,
    "read units": Comparison.read_units,
    "alone": Comparison.alone,
    "waiting": Comparison.waiting,
    "appends": Comparison.appends,
}
"""Measured at each log size, in this order because the last two append. `alone` runs at the largest size only."""
ANNALS_PARTS: dict[str, Callable[[Path, bool], Iterator[Table]]] = {
    "streams": lambda folder, quick: streams.measure(folder, 40 if quick else streams.EVENTS),
    "observers": lambda folder, _: observers.measure(folder),
    "console": lambda folder, quick: console.measure(folder, 3 if quick else console.SECONDS),
    "lists": lambda folder, quick: lists.measure(folder, lists.QUICK_SIZES if quick else lists.SIZES),
    "cost": lambda _, quick: dynamodb_cost.measure(quick),
    "units": lambda _, __: dynamodb_units.measure(),
    "castore": lambda _, __: castore_units.measure(),
    "functions": lambda _, quick: functions.measure(3 if quick else 7),
}
"""Measured once. Each part gets its own folder."""
SPARK = "spark"
"""Not measured by default: it needs the Spark venv and takes long."""
DEFAULT_PARTS = [*PEER_PARTS, *ANNALS_PARTS]
ALL_PARTS = (*DEFAULT_PARTS, SPARK)


def main() -> None:
    """Measure the selected parts, store and print the results, and write the document."""
    args = _parse_arguments()
    # On SIGTERM, unwind: stop the servers and remove their data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    path = servers.ROOT / (QUICK_RESULTS if args.quick else RESULTS)
    results = Results.load(path)
    with servers.fresh_directory() as directory:
        facts = machine.facts(directory)
        print(_introduction(facts), flush=True)
        for measurement in _measure_all(args, directory, facts):
            results.add(measurement)
            results.save(path)
            _print(measurement)
    document.write(results, document.QUICK_DOCUMENT if args.quick else document.DOCUMENT)
    print(f"\n{time.monotonic() - began:.0f} s.")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short and imprecise, within two minutes")
    parser.add_argument(
        "--only", type=_parse_parts, default=DEFAULT_PARTS, help=f"comma-separated parts: {','.join(ALL_PARTS)}"
    )
    parser.add_argument("--sizes", type=_parse_sizes, default=[], help="log sizes in events: 10000,100000")
    args = parser.parse_args()
    args.sizes = args.sizes or (QUICK_SIZES if args.quick else SIZES)
    return args


def _parse_parts(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(ALL_PARTS):
        raise argparse.ArgumentTypeError(
            f"{', '.join(sorted(unknown))}: unknown part, expected one of {', '.join(ALL_PARTS)}"
        )
    return names


def _parse_sizes(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _measure_all(args: argparse.Namespace, directory: Path, facts: dict[str, Any]) -> Iterator[Measurement]:
    peer_parts = [name for name in PEER_PARTS if name in args.only]
    for size in args.sizes if peer_parts else ():
        folder = directory / str(size)
        effort = QUICK if args.quick else THOROUGH if size == args.sizes[0] else BRIEF
        parts = [name for name in peer_parts if name != "alone" or size == max(args.sizes)]
        yield from _measure_at_size(parts, folder, size, effort, facts)
        shutil.rmtree(folder)
    for name in (name for name in ANNALS_PARTS if name in args.only):
        yield _measure_part(name, 0, facts, partial(ANNALS_PARTS[name], directory / name, args.quick))
    for events in spark.QUICK_SIZES if args.quick else spark.SIZES:
        if SPARK in args.only:
            yield _measure_part(SPARK, events, facts, partial(spark.measure, directory / f"{SPARK}-{events}", events))


def _measure_at_size(
    parts: list[str], folder: Path, size: int, effort: Effort, facts: dict[str, Any]
) -> Iterator[Measurement]:
    began = time.monotonic()
    with side_by_side.comparison(folder, size, effort) as comparison:
        print(f"{size:,} events stored in each log, in {time.monotonic() - began:.0f} s.\n", flush=True)
        for name in parts:
            yield _measure_part(name, size, facts, partial(PEER_PARTS[name], comparison))
        if "appends" in parts and effort is not BRIEF:
            print(f"Verified every event: {comparison.verify()}.\n", flush=True)


def _measure_part(part: str, size: int, facts: dict[str, Any], tables: Callable[[], Iterator[Table]]) -> Measurement:
    before = machine.current_state()
    began = time.monotonic()
    measured = tuple(tables())
    return Measurement(part, size, {**facts, **before, "seconds": round(time.monotonic() - began)}, measured)


def _print(measurement: Measurement) -> None:
    size = f" at {measurement.size:,} events" if measurement.size else ""
    facts = measurement.facts
    print(f"{measurement.part}{size}: load average before {facts['load']}, took {facts['seconds']} s\n")
    print("\n\n".join(map(str, measurement.tables)), "\n", flush=True)


def _introduction(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"Annals beside {versions}: {facts['cores']} cores ({facts['processor']}), Python {facts['python']}, "
        f"fsync takes {facts['sync_ms']} ms, load average {os.getloadavg()[0]:.1f}.\n"
    )


if __name__ == "__main__":
    main()
