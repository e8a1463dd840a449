"""`make demo`: fill the local log with a month of generated events, 200,000 by default.

The appender writes them with a simulated clock, so that numbers and times are those of the month. EventIds never
decrease, so a log that has events cannot get earlier times. Such a log is refused unless FORCE=1. ORG names another
organization, which is created if necessary.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.library import check_library
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import AnnalsError, BadInput
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append
from chalicelib.domain.log.outcome import unwrap
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log
from chalicelib.settings import Settings
from infra.server.data_directory import open_data_directory
from infra.tools.demo.load_profile import Month
from infra.tools.demo.month import DemoSpec, generate_requests
from infra.tools.demo.publish_request import PublishRequest
from infra.tools.progress import Progress

EVENTS = 200_000
SEED = 1


class Demo:
    """Writes requests to a log with a simulated clock."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._now_ms = 0
        self._appender = Appender(log, lambda: self._now_ms)
        self._organizations = Organizations(log, self._appender)

    def open(self, organization: str, now_ms: int, force: bool) -> Head:
        """The head of the organization's log. Creates the organization if necessary.

        Raises `BadInput` if the log is not empty, unless `force` is set.
        """
        self._now_ms = now_ms
        server = self._organizations.create(organization)[0].server
        head = self._log.head(server)
        if head.session and not force:
            raise BadInput(
                f"the log of '{organization}' is not empty. ORG=<another name> fills the log of another organization. "
                "FORCE=1 appends to this log, with times after its last event"
            )
        return head

    def write(self, server: int, requests: Sequence[PublishRequest], on_progress: Callable[[int], None]) -> None:
        written = 0
        for number, request in enumerate(requests, start=1):
            self._now_ms = request.at_ms
            unwrap(self._appender.append_group([Append(server, request.texts, f"demo{number:x}")])[0])
            written += len(request.texts)
            on_progress(written)


def fill(data_dir: Path, organization: str, spec: DemoSpec, force: bool = False) -> None:
    """Write a month of events to the log in a data directory."""
    check_library(allow_old=False)
    # Demo data can be generated again, so there is no need to wait for the disk at each commit.
    database = Database(data_dir / "annals.sqlite", durable=False)
    try:
        demo = Demo(SqliteLog(database))
        head = demo.open(organization, Month(spec.end_ms).start_ms, force)
        generation = Progress("Generating", spec.events, "events")
        # Object numbers start above the last session. They are unused, because each needed a commit.
        requests = generate_requests(replace(spec, first=head.session + 1), generation.update)
        generation.finish(f"Generated a month of {spec.events:,} events.")
        writing = Progress("Writing", spec.events, "events")
        demo.write(head.server, requests, writing.update)
        writing.finish(f"Wrote them to the log of '{organization}' in {len(requests):,} commits.")
    finally:
        database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill the local log with a month of events.")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--end", type=_parse_time, help="end of the month, ISO 8601; default: now")
    parser.add_argument("--org", default="local")
    parser.add_argument("--force", action="store_true", help="write even if the log is not empty")
    args = parser.parse_args()
    settings, started_s = Settings.from_environment(), time.monotonic()
    end_ms = time.time_ns() // 1_000_000 if args.end is None else args.end
    try:
        open_data_directory(settings.data_dir, is_private=settings.private_data)
        fill(settings.data_dir, args.org, DemoSpec(args.seed, end_ms, args.events), args.force)
    except AnnalsError as error:
        sys.exit(f"No demo data written: {error}")
    print(
        f"Finished in {time.monotonic() - started_s:.0f} s.\n"
        f"See it: start the server with `make run`, open its address in a browser, and sign in with a token:\n"
        f"  make -s token ORG={args.org}\n"
        "Report: make report"
    )


def _parse_time(text: str) -> int:
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


if __name__ == "__main__":
    main()
