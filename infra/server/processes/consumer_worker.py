"""The consumer worker: a process that runs the consumers, so that they do not delay requests.

It polls the log for new commits and visits the logs that have grown. It needs no notification from the server, and
reads are exact however far it lags.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from chalicelib.domain.events.head import Head
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, is_configuration_log
from chalicelib.services.consumers.consumer import CachedCommitReader, CommitSource, catch_up
from chalicelib.services.consumers.for_each import for_each, raise_first
from chalicelib.wiring import Components
from infra.server.processes.grown_logs import GrownLogs
from infra.server.processes.supervisor import run_worker
from infra.server.startup import open_components

POLL_INTERVAL_S = 0.1
IDLE_INTERVAL_S = 5.0
"""Interval between visits of logs that have not grown, which apply the retention."""
IDLE_CYCLE_S = 600.0
"""Time within which every log is visited."""
MIN_IDLE_LOGS = 16
"""Minimum number of logs per idle visit. With fewer logs, each is visited every `IDLE_INTERVAL_S`."""
YIELD_FACTOR = 5.0
"""While other processes write, the worker sleeps this many times as long as it has worked."""
DUE_INTERVAL_S = 2.0
"""Interval between reads of the due index."""
MAX_DUE_RUN_S = 1.0
"""Time-driven work that takes longer continues after the consumers have run."""


@dataclass
class ConsumerWorker:
    """Runs the consumers of the logs that have new commits, and the work whose time has come."""

    components: Components
    sleep: Callable[[float], None] = time.sleep
    next_idle_run: float = 0.0
    next_due_run: float = 0.0
    working_since: float = 0.0
    """When the worker slept last."""
    has_unseen_writes: bool = True
    """Whether a log may have grown since it was consumed."""
    matched: dict[int, int] = field(default_factory=dict)
    """By log, the last session that was matched with the observers."""
    consumed: dict[int, int] = field(default_factory=dict)
    """By log, the last session that all consumers have handled."""
    last_idle_log: int | None = None

    def __post_init__(self) -> None:
        self.grown_logs = GrownLogs(self.components.stores.last_sessions)

    def run_once(self) -> None:
        """Run the consumers and the work that is due."""
        self.working_since = time.monotonic()
        self.has_unseen_writes |= self.components.stores.has_external_writes()
        # The failure of one part, such as a damaged log, must not stop the others.
        for_each((self._consume_grown_logs, self._visit_idle_logs, self._run_due_work), _call, on_error=raise_first)

    def _visit_idle_logs(self) -> None:
        if self.working_since > self.next_idle_run:
            self.next_idle_run = time.monotonic() + IDLE_INTERVAL_S
            for_each(self._idle_logs(), self._consume, on_error=raise_first)

    def _run_due_work(self) -> None:
        now = time.monotonic()
        if now > self.next_due_run:
            self.next_due_run = now + DUE_INTERVAL_S
            end = now + MAX_DUE_RUN_S
            for index in self.components.consumers.due_indexes:
                if index.run(lambda: time.monotonic() < end, on_error=raise_first):
                    self.next_due_run = 0.0

    def _consume_grown_logs(self) -> None:
        if not (self.has_unseen_writes and self.grown_logs.scan()):
            return
        self.has_unseen_writes = False
        try:
            for_each(self.grown_logs.since(self.consumed), self._consume, on_error=raise_first)
        except Exception:  # Any error: the logs are visited again in the next run.
            self.has_unseen_writes = True
            raise

    def _consume(self, server: int) -> None:
        """Run all consumers of a log."""
        last_session = self.grown_logs.last_sessions[server]
        if is_configuration_log(server):
            self._project(server, self.components.stores.log, None)
        else:
            log = CachedCommitReader(self.components.stores.log)
            expired = self._expired(server)
            # Observers come first: commits that they have not seen must not be deleted.
            if server > DIRECTORY_SERVER:
                self._match(server, log)
            self._project(server, log, expired)
            self.components.stores.delete_commits(server, expired.session)
        self.consumed[server] = last_session

    def _project(self, server: int, log: CommitSource, expired: Head | None) -> None:
        project, views = self.components.consumers.projector, self.components.stores.views
        catch_up(project, server, log, views, expired, between_runs=self._yield_to_writers)

    def _match(self, server: int, log: CommitSource) -> None:
        """Match new events with the observers."""
        last_session = self.grown_logs.last_sessions[server]
        match, progress = self.components.notifications.matcher.consumer, self.components.stores.progress
        catch_up(match, server, log, progress, self._expired(server))
        self.matched[server] = last_session

    def _expired(self, server: int) -> Head:
        return self.components.log.retention.boundary(server).head

    def _yield_to_writers(self) -> None:
        """Sleep if another process has written meanwhile. Notifications do not wait for that."""
        has_writes = self.components.stores.has_external_writes
        remaining_s = YIELD_FACTOR * (time.monotonic() - self.working_since)
        if has_writes():
            self.has_unseen_writes = True
            self._match_grown_logs()
            while remaining_s > 0:
                self.sleep(min(remaining_s, POLL_INTERVAL_S))
                remaining_s -= POLL_INTERVAL_S
                if has_writes():
                    self._match_grown_logs()
        self.working_since = time.monotonic()

    def _match_grown_logs(self) -> None:
        if self.grown_logs.scan():
            grown = [server for server in self.grown_logs.since(self.matched) if server > DIRECTORY_SERVER]
            for_each(grown, partial(self._match, log=self.components.stores.log), on_error=raise_first)

    def _idle_logs(self) -> list[int]:
        """The next of all logs in turn. They may have expired commits."""
        servers = sorted(self.grown_logs.last_sessions)
        count = max(MIN_IDLE_LOGS, round(len(servers) * IDLE_INTERVAL_S / IDLE_CYCLE_S))
        last = self.last_idle_log
        following = [server for server in servers if last is None or server > last]
        visited = (following or servers)[:count]
        self.last_idle_log = visited[-1] if visited else None
        return visited


def _call(part: Callable[[], None]) -> None:
    part()


def main() -> None:
    components = open_components()
    run_worker("consumer-worker", POLL_INTERVAL_S, ConsumerWorker(components).run_once)
    components.close()


if __name__ == "__main__":
    main()
