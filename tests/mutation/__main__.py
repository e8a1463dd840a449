"""`make mutate`: put seeded bugs into copies of the tree and print the share that the tests notice.

Results are stored in `build/mutation`. A run that was stopped resumes with the same arguments.
"""

import argparse
import compileall
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.mutation.covering_tests import GROUPS
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.operators import Mutation, find_mutations
from tests.mutation.trial import Tree, copy_tree, preload

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "mutation"
GOAL = 0.9

Results = dict[str, str | None]
"""The test that noticed a mutation, or None, by `_id`."""


def main(argv: Sequence[str]) -> int:
    args = _arguments(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    groups = args.only.split(",") if args.only else list(GROUPS)
    chosen = choose(groups, args.count, args.seed)
    file = RESULTS / f"seed-{args.seed}.jsonl"
    results = _load(file)
    if args.retry:
        results = {name: test for name, test in results.items() if test is not None}
    pending = [mutation for mutation in chosen if _id(mutation) not in results and mutation.key not in EQUIVALENT]
    print(f"{len(chosen)} mutations, {len(pending)} to try. Results: {file.relative_to(ROOT)}", flush=True)
    try:
        for mutation, test in _try_all(pending, args.workers, file):
            results[_id(mutation)] = test
    except KeyboardInterrupt:
        print("\nStopped. Run the same command again to resume.")
    return _summary(groups, chosen, results)


def choose(groups: Sequence[str], count: int, seed: int) -> list[Mutation]:
    """The mutations of a run: the same number from each group, and within a group from each operator.

    They are ordered by a hash, so that a change of one module leaves the choice from the others almost as it was.
    """
    chosen = []
    for index, group in enumerate(groups):
        by_operator: dict[str, list[Mutation]] = {}
        for path in sorted((ROOT / GROUPS[group]).rglob("*.py")):
            for mutation in find_mutations(str(path.relative_to(ROOT)), path.read_bytes()):
                by_operator.setdefault(mutation.operator, []).append(mutation)
        pools = [sorted(by_operator[name], key=partial(_rank, seed)) for name in sorted(by_operator)]
        share = count // len(groups) + (index < count % len(groups))
        while share and any(pools):
            for pool in [pool for pool in pools if pool][:share]:
                chosen.append(pool.pop())
                share -= 1
    return chosen


def _rank(seed: int, mutation: Mutation) -> bytes:
    return hashlib.sha256(f"{seed} {mutation.key}".encode()).digest()


def _try_all(pending: Sequence[Mutation], workers: int, file: Path) -> Iterator[tuple[Mutation, str | None]]:
    file.parent.mkdir(parents=True, exist_ok=True)
    preload()
    with (
        tempfile.TemporaryDirectory(prefix="annals-mutation-", ignore_cleanup_errors=True) as folder,
        file.open("a") as stored,
    ):
        trees = [Path(folder) / f"tree-{number}" for number in range(min(workers, len(pending)))]
        for tree in trees:
            copy_tree(ROOT, tree)
            compileall.compile_dir(tree, quiet=2)
        context: Any = multiprocessing.get_context("fork")
        queue, outcomes = context.SimpleQueue(), context.SimpleQueue()
        processes = [context.Process(target=_work, args=(tree, pending, queue, outcomes)) for tree in trees]
        for number in range(len(pending)):
            queue.put(number)
        for process in processes:
            queue.put(None)
            process.start()
        try:
            for done in range(1, len(pending) + 1):
                number, test, took_s = outcomes.get()
                if isinstance(test, Exception):
                    raise test
                mutation = pending[number]
                stored.write(json.dumps({"id": _id(mutation), "test": test}) + "\n")
                stored.flush()
                print(f"[{done:>3}/{len(pending)}] {took_s:5.1f} s  {_describe(mutation, test)}", flush=True)
                yield mutation, test
        finally:
            for process in processes:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.join()


def _work(tree: Path, pending: Sequence[Mutation], queue: Any, outcomes: Any) -> None:
    """In a worker process: try the mutations from the queue."""
    os.setsid()  # A group of its own, so that its tests can be ended with it.
    copy = Tree(tree)
    while (number := queue.get()) is not None:
        started_s = time.monotonic()
        try:
            outcome: str | Exception | None = copy.noticed_by(pending[number])
        except KeyboardInterrupt:
            os._exit(1)
        except Exception as error:
            outcome = error
        outcomes.put((number, outcome, time.monotonic() - started_s))


def _describe(mutation: Mutation, test: str | None) -> str:
    before, after = " ".join(mutation.before.split())[:70], " ".join(mutation.after.split())[:70]
    state = "SURVIVED" if test is None else "noticed "
    return f"{state} {mutation.path}:{mutation.line} {mutation.operator}: {before} -> {after}"


def _summary(groups: Sequence[str], chosen: Sequence[Mutation], results: Mapping[str, str | None]) -> int:
    """Print the share of noticed mutations and the survivors. Returns the exit code."""
    tried = [mutation for mutation in chosen if _id(mutation) in results and mutation.key not in EQUIVALENT]
    noticed = [mutation for mutation in tried if results[_id(mutation)] is not None]
    survivors = [mutation for mutation in tried if results[_id(mutation)] is None]
    if survivors:
        print("\nSurvivors:")
    for mutation in survivors:
        print(f"  {_describe(mutation, None)}")
    print(f"\n{'group':<12}{'tried':>8}{'noticed':>9}{'share':>8}")
    counts, notices = Counter(map(_group, tried)), Counter(map(_group, noticed))
    for group in groups:
        if counts[group]:
            print(f"{group:<12}{counts[group]:>8}{notices[group]:>9}{notices[group] / counts[group]:>8.0%}")
    share = len(noticed) / max(len(tried), 1)
    print(f"{'all':<12}{len(tried):>8}{len(noticed):>9}{share:>8.0%}")
    skipped = sum(mutation.key in EQUIVALENT for mutation in chosen)
    print(f"Equivalent, not counted: {skipped}. Not tried: {len(chosen) - len(tried) - skipped}. Goal: {GOAL:.0%}.")
    return 0 if share >= GOAL else 1


def _group(mutation: Mutation) -> str:
    return next(name for name, folder in GROUPS.items() if mutation.path.startswith(folder))


def _id(mutation: Mutation) -> str:
    """Changes with the source of the module, so that results of an older version are not used."""
    return f"{_digest(mutation.path)} {mutation.start}-{mutation.end} {mutation.after}"


@cache
def _digest(path: str) -> str:
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:12]


def _load(file: Path) -> Results:
    lines = file.read_text().splitlines() if file.exists() else []
    return {entry["id"]: entry["test"] for entry in map(json.loads, lines)}


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutate", description="Count the bugs that the tests notice.")
    parser.add_argument("--count", type=int, default=200, help="number of mutations (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="another seed chooses other mutations (default: 1)")
    parser.add_argument("--only", default="", help=f"some groups, separated by commas: {', '.join(GROUPS)}")
    parser.add_argument("--workers", type=int, default=2, help="mutations that are tried at once (default: 2)")
    parser.add_argument("--retry", action="store_true", help="try the survivors of the last run again")
    args = parser.parse_args(argv)
    unknown = set(filter(None, args.only.split(","))) - GROUPS.keys()
    if unknown:
        parser.error(f"unknown group: {', '.join(sorted(unknown))}. Groups: {', '.join(GROUPS)}")
    if shutil.which("git") is None:
        parser.error("git is not installed; it lists the files to copy")
    return args


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
