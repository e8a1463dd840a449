"""`make demo`: fill the local log with a month of events, 200,000 of them.

They go through the appender like all others, only with a clock that goes through the month: numbers and times are what
they would have been. EventIds never go back, so a log with events in it keeps none of the demo's times before its own
last one: such a log is refused unless FORCE=1. ORG names another organization, which is created if need be.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import AnnalsError, BadInput
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append
from chalicelib.services.log.appender import Appender, granted
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log
from chalicelib.settings import Settings
from infra.tools.demo.month import Wanted, requests
from infra.tools.demo.narration import Told
from infra.tools.demo.rhythm import Month
from infra.tools.progress import Progress

EVENTS = 200_000
SEED = 1


class Demo:
    """Writes to a log as if it were then."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._now_ms = 0
        self._appender = Appender(log, lambda: self._now_ms)
        self._organizations = Organizations(log, self._appender)

    def open(self, organization: str, now_ms: int, force: bool) -> Head:
        """Where the organization's log ends, which is created if need be; it must be empty unless forced."""
        self._now_ms = now_ms
        server = self._organizations.create(organization)[0].server
        head = self._log.head(server)
        if head.session and not force:
            raise BadInput(
                f"the log of '{organization}' is not empty. ORG=<another name> fills another organization's log; "
                "FORCE=1 goes on with this one, with times after its last event's"
            )
        return head

    def write(self, server: int, told: Sequence[Told], show: Callable[[int], None]) -> None:
        """All of it, in order."""
        done = 0
        for number, one in enumerate(told, start=1):
            self._now_ms = one.at_ms
            granted(self._appender.append_group([Append(server, one.texts, f"demo{number:x}")])[0])
            done += len(one.texts)
            show(done)


def fill(data_dir: Path, organization: str, wanted: Wanted, force: bool = False) -> None:
    """Write a month to the log in a data directory."""
    # Only what is lost with the power is at stake, and that can be made again: no need to wait for the disk each time.
    database = Database(data_dir / "annals.sqlite", durable=False)
    try:
        demo = Demo(SqliteLog(database))
        head = demo.open(organization, Month(wanted.end_ms).start_ms, force)
        making = Progress("Making up", wanted.events, "events")
        # Nothing has a number that high yet, for each that has one took a commit.
        told = requests(replace(wanted, first=head.session + 1), making.to)
        making.end(f"Made up a month of {wanted.events:,} events.")
        writing = Progress("Writing", wanted.events, "events")
        demo.write(head.server, told, writing.to)
        writing.end(f"The log of '{organization}' has them now, in {len(told):,} commits.")
    finally:
        database.close()


def main() -> None:
    """Fill the log once."""
    parser = argparse.ArgumentParser(description="Fill the local log with a month of events.")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--end", type=_moment, help="when the month ends, ISO-8601; by default now")
    parser.add_argument("--org", default="local")
    parser.add_argument("--force", action="store_true", help="even if the log is not empty")
    args = parser.parse_args()
    settings, began = Settings.from_environment(), time.monotonic()
    end_ms = time.time_ns() // 1_000_000 if args.end is None else args.end
    try:
        fill(settings.data_dir, args.org, Wanted(args.seed, end_ms, args.events), args.force)
    except AnnalsError as refusal:
        sys.exit(f"No demo: {refusal}")
    print(f"It took {time.monotonic() - began:.0f} s. Next: make report")


def _moment(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


if __name__ == "__main__":
    main()
