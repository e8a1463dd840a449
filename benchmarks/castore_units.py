"""Capacity units per 1,000 events on DynamoDB, beside castore's adapter: the same events, counted in the same way.

Both talk through a proxy that counts to an emulator: Annals with its own services and adapters, castore driven by
`castore/drive.js`. Jobs have ten events each.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import table
from benchmarks.dynamodb_units import POLL_S, RUN_COMMITS
from benchmarks.events import job_events
from benchmarks.metering_proxy import metered
from benchmarks.table import Goal
from benchmarks.unit_peers import CASTORE, STEPS, TOGETHER, Annals, Castore
from tests.torture.servers import ministack

EVENTS = 4_000
"""More commits of 20 than are read at once where the views would not pay."""


class Row(NamedTuple):
    """Units per 1,000 events, of Annals and of castore; None where it has no such thing."""

    name: str
    ours: float
    theirs: float | None = None
    goal: Goal | None = None
    """Of the ratio."""
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours to theirs."""
        return self.ours / self.theirs if self.theirs else None

    def cells(self) -> list[str]:
        """For a table."""
        ratio = self.ratio
        verdict = ("", "") if self.goal is None or ratio is None else (str(self.goal), self.goal.reached(ratio))
        theirs = "" if self.theirs is None else table.number(self.theirs)
        return [self.name, table.number(self.ours), theirs, "" if ratio is None else f"{ratio:.3f}", *verdict]


HEADING = ("units per 1,000 events on DynamoDB", "Annals", "castore", "ratio", "goal", "")


def main() -> None:
    """Print the table, and why some rows are as they are."""
    found = rows()
    print(table.printed(HEADING, [row.cells() for row in found]))
    print("".join(f"\n{row.name}: {row.why}" for row in found if row.why))


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
    yield Row("write: append, 1 event a request", ours.appended("single", 1), single, Goal(1, at_most=True))
    yield Row(f"write: append, {TOGETHER} events a request", twenty, best, Goal(1 / 8, at_most=True))
    yield Row(
        f"  castore's way to write {TOGETHER} at once or not at all",
        twenty,
        grouped,
        why="a transaction costs twice; what is compared above is the cheaper of both",
    )
    for batch in (1, TOGETHER):
        name = f"write: through the ingest queue, messages of {batch}"
        yield Row(name, ours.ingested(f"queue-{batch}", batch), best, Goal(1 / 8, at_most=True))
    yield Row(f"write: the views, in runs of {RUN_COMMITS} commits", views)
    yield Row(f"write: append {TOGETHER} and views", twenty + views, best, Goal(1 / 2, at_most=True))


def _reads(ours: Annals, theirs: Castore) -> Iterator[Row]:
    jobs = theirs.jobs()
    read = theirs.read(jobs)
    why = (
        "castore keeps the events of a job beside each other. Here they are where their request put them: the key is "
        "looked up in the views, each place it may be at takes a unit, then the commits are fetched"
    )
    yield Row("read: the events of each job", ours.fed("twenty", jobs), read, why=why)
    why = (
        "a state is stored once for all events, but its exactness costs two looks at the checkpoint and one at the log"
    )
    yield Row("read: the state of each job", ours.states("twenty", jobs), read, why=why)
    yield Row("read: all events in order, following", ours.followed("twenty"), why="castore has no order over keys")
    yield Row(f"read: an idle long poll of {POLL_S:g} s (once)", ours.idle("twenty"))
    yield Row("read: to build the views", ours.projecting)


if __name__ == "__main__":
    main()
