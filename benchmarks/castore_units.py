"""Capacity units per 1,000 events on DynamoDB, beside castore's adapter: the same events, counted in the same way.

Both talk through a proxy that counts to an emulator: Annals with its own services and adapters, castore driven by
`castore/drive.js`. Jobs have ten events each.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.dynamodb_units import POLL_S, RUN_COMMITS
from benchmarks.events import job_events
from benchmarks.metering_proxy import metered
from benchmarks.results import Row, Table
from benchmarks.table import Goal
from benchmarks.unit_peers import CASTORE, STEPS, TOGETHER, Annals, Castore
from tests.torture.servers import ministack

EVENTS = 4_000
"""More commits of 20 than are read at once where the views would not pay."""


UNITS = "units per 1,000 events on DynamoDB"
CASTORE_COLUMN = "castore"


def main() -> None:
    """Print the table."""
    for found in measured():
        print(found)


def measured() -> Iterator[Table]:
    """What so many events took both; nothing where castore cannot be run."""
    if is_there():
        yield Table(UNITS, tuple(rows()))


def rows(events: int = EVENTS) -> list[Row]:
    """What so many events took both, measured now; needs ministack, and Node with castore."""
    # The emulator asks for nobody's credentials, but the SDK signs all the same.
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_EC2_METADATA_DISABLED="true")
    given = job_events(events, steps=STEPS)
    with (
        tempfile.TemporaryDirectory() as home,
        ministack(Path(home)) as upstream,
        metered(upstream) as (endpoint, meter),
    ):
        theirs = Castore(endpoint, meter, given)
        ours = Annals(endpoint, meter, given)
        return [*_writes(ours, theirs), *_reads(ours, theirs)]


def is_there() -> bool:
    """Whether castore can be run here."""
    return shutil.which("node") is not None and (CASTORE / "node_modules").is_dir()


def _writes(ours: Annals, theirs: Castore) -> Iterator[Row]:
    single, grouped = theirs.pushed(), theirs.grouped()
    best = min(single, grouped)
    twenty, views = ours.appended("twenty", TOGETHER), ours.projected("twenty")
    yield _row("write: append, 1 event a request", ours.appended("single", 1), single, 1)
    yield _row(f"write: append, {TOGETHER} events a request", twenty, best, 1 / 8)
    yield _row(f"write: append, {TOGETHER} at once or not at all", twenty, grouped)
    for batch in (1, TOGETHER):
        name = f"write: through the ingest queue, messages of {batch}"
        yield _row(name, ours.ingested(f"queue-{batch}", batch), best, 1 / 8)
    yield _row(f"write: the views, in runs of {RUN_COMMITS} commits", views)
    yield _row(f"write: append {TOGETHER} and views", twenty + views, best, 1 / 2)


def _reads(ours: Annals, theirs: Castore) -> Iterator[Row]:
    jobs = theirs.jobs()
    read = theirs.read(jobs)
    yield _row("read: the events of each job", ours.fed("twenty", jobs), read)
    yield _row("read: the state of each job", ours.states("twenty", jobs), read)
    yield _row("read: all events in order, following", ours.followed("twenty"))
    yield _row(f"read: an idle long poll of {POLL_S:g} s (once)", ours.idle("twenty"))
    yield _row("read: to build the views", ours.projecting)


def _row(name: str, ours: float, theirs: float | None = None, most: float | None = None) -> Row:
    """Ours, theirs if they have such a thing, and how many times theirs ours may be."""
    values = {"Annals": ours} | ({} if theirs is None else {CASTORE_COLUMN: theirs})
    return Row(name, "", values, () if most is None else (Goal(most, at_most=True, of=CASTORE_COLUMN),))


if __name__ == "__main__":
    main()
