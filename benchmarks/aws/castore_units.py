"""Capacity units per 1,000 events on DynamoDB, compared with castore.

Both use an emulator through the metering proxy: Annals with its services and adapters, castore driven by
`castore/drive.js`. Jobs have ten events each.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.aws.dynamodb_units import POLL_S, RUN_COMMITS
from benchmarks.aws.metering_proxy import run_metering_proxy
from benchmarks.aws.unit_peers import BATCH, CASTORE, STEPS, Annals, Castore
from benchmarks.load.job_events import job_events
from benchmarks.report.results import Row, Table
from benchmarks.report.table import Goal
from tests.torture.servers import ministack

EVENTS = 4_000
"""Enough commits of 20 that reads use the views instead of scanning."""


RUN_SIZES = {1: None, 2: None, 5: None, 20: 1 / 2, RUN_COMMITS: 1 / 4}
"""Commits per run of the projector, and the goal. On AWS it collects commits for 20 seconds, or up to 100 commits."""

UNITS = "units per 1,000 events on DynamoDB"
CASTORE_COLUMN = "castore"


def main() -> None:
    for table in measure():
        print(table)


def measure() -> Iterator[Table]:
    """One table. Yields nothing if castore is not installed."""
    if is_installed():
        yield Table(UNITS, tuple(rows()))


def rows(events: int = EVENTS) -> list[Row]:
    """Measure both. Needs ministack, and Node with castore."""
    # The emulator ignores credentials, but the SDK needs some to sign requests.
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_EC2_METADATA_DISABLED="true")
    events_to_write = job_events(events, steps=STEPS)
    with (
        tempfile.TemporaryDirectory() as home,
        ministack(Path(home)) as upstream,
        run_metering_proxy(upstream) as (endpoint, meter),
    ):
        theirs = Castore(endpoint, meter, events_to_write)
        ours = Annals(endpoint, meter, events_to_write)
        return [*_writes(ours, theirs), *_reads(ours, theirs)]


def is_installed() -> bool:
    return shutil.which("node") is not None and (CASTORE / "node_modules").is_dir()


def _writes(ours: Annals, theirs: Castore) -> Iterator[Row]:
    single, grouped = theirs.push_units(), theirs.group_units()
    best = min(single, grouped)
    twenty = ours.append_units("twenty", BATCH)
    yield _row("write: append, 1 event a request", ours.append_units("single", 1), single, 1)
    yield _row(f"write: append, {BATCH} events a request", twenty, best, 1 / 8)
    yield _row(f"write: append, {BATCH} at once or not at all", twenty, grouped)
    for batch in (1, BATCH):
        name = f"write: through the ingest queue, messages of {batch}"
        yield _row(name, ours.ingest_units(f"queue-{batch}", batch), best, 1 / 8)
    for commits, most in RUN_SIZES.items():
        organization = "twenty" if commits == RUN_COMMITS else f"run-{commits}"
        if organization != "twenty":
            ours.append_units(organization, BATCH)
        views = ours.projection_units(organization, commits)
        yield _row(f"write: append {BATCH}, and views in runs of {commits} commits", twenty + views, best, most)


def _reads(ours: Annals, theirs: Castore) -> Iterator[Row]:
    jobs = theirs.jobs()
    read = theirs.read_units(jobs)
    yield _row("read: the events of each job", ours.job_feed_units("twenty", jobs), read)
    yield _row("read: the state of each job", ours.state_units("twenty", jobs), read)
    yield _row("read: all events in order, following", ours.follow_units("twenty"))
    yield _row(f"read: an idle long poll of {POLL_S:g} s (once)", ours.idle_poll_units("twenty"))
    yield _row("read: to build the views", ours.projection_read_units)


def _row(name: str, ours: float, theirs: float | None = None, most: float | None = None) -> Row:
    """`most` is the goal: the maximum multiple of the units of castore."""
    values = {"Annals": ours} | ({} if theirs is None else {CASTORE_COLUMN: theirs})
    return Row(name, "", values, () if most is None else (Goal(most, at_most=True, of=CASTORE_COLUMN),))


if __name__ == "__main__":
    main()
