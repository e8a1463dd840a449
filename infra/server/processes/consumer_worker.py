"""The consumer worker: a process that runs the consumers, so that they do not delay requests.

It polls the log for new commits. It needs no notification from the server, and reads are exact however far it lags.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, Organization, inbox_log
from chalicelib.services.consumers.consumer import CachedCommitReader, CommitSource, catch_up, catch_up_together
from chalicelib.services.consumers.for_each import for_each, raise_first
from chalicelib.services.consumers.projector import projector
from chalicelib.wiring import Components
from infra.server.processes.supervisor import run_worker
from infra.server.startup import open_components

POLL_INTERVAL_S = 0.1
IDLE_INTERVAL_S = 5.0
"""Without new commits, interval between runs that apply the retention."""
YIELD_FACTOR = 5.0
"""While other processes write, the worker sleeps this many times as long as it has worked."""
TIMEOUT_CHECK_INTERVAL_S = 2.0
"""Interval between checks for job timeouts."""


@dataclass
class ConsumerWorker:
    """Runs the consumers of all logs when there are new commits."""

    components: Components
    sleep: Callable[[float], None] = time.sleep
    next_idle_run: float = 0.0
    next_timeout_check: float = 0.0
    working_since: float = 0.0
    """When the worker slept last."""
    has_unseen_writes: bool = False
    """Whether a commit may have been written to a log that was already consumed in this run."""

    def run_once(self) -> None:
        """Run the consumers and check for job timeouts, if they are due."""
        now = self.working_since = time.monotonic()
        if self.components.stores.has_external_writes() or self.has_unseen_writes or now > self.next_idle_run:
            self.has_unseen_writes = False
            self._consume()
            self.next_idle_run = time.monotonic() + IDLE_INTERVAL_S
        if now > self.next_timeout_check:
            self._check_timeouts()
            self.next_timeout_check = time.monotonic() + TIMEOUT_CHECK_INTERVAL_S

    def _consume(self) -> None:
        stores = self.components.stores
        catch_up(projector(stores.views, stores.has_receipts_in_views), DIRECTORY_SERVER, stores.log, stores.views)
        for_each(self.components.log.organizations.all(), self._consume_logs, on_error=raise_first)

    def _consume_logs(self, organization: Organization) -> None:
        components, stores, server = self.components, self.components.stores, organization.server
        project = projector(stores.views, stores.has_receipts_in_views)
        expired = components.log.retention.boundary(server).head
        log = CachedCommitReader(stores.log)
        # Observers come first: commits that they have not seen must not be deleted.
        self._match(organization, log)
        consumers = (project, components.jobs.timeouts.consumer)
        catch_up_together(consumers, server, log, stores.views, expired, between_runs=self._yield_to_writers)
        stores.delete_commits(server, expired.session)
        inbox = inbox_log(server)
        expired = components.log.retention.boundary(inbox).head
        catch_up(project, inbox, stores.log, stores.views, expired, between_runs=self._yield_to_writers)
        stores.delete_commits(inbox, expired.session)

    def _match(self, organization: Organization, log: CommitSource) -> None:
        """Match new events with the observers."""
        components, server = self.components, organization.server
        expired = components.log.retention.boundary(server).head
        catch_up(components.notifications.matcher.consumer, server, log, components.stores.progress, expired)

    def _yield_to_writers(self) -> None:
        """Sleep if another process has written meanwhile. Notifications do not wait for that."""
        has_writes = self.components.stores.has_external_writes
        remaining_s = YIELD_FACTOR * (time.monotonic() - self.working_since)
        if has_writes():
            self.has_unseen_writes = True
            self._match_all()
            while remaining_s > 0:
                self.sleep(min(remaining_s, POLL_INTERVAL_S))
                remaining_s -= POLL_INTERVAL_S
                if has_writes():
                    self._match_all()
        self.working_since = time.monotonic()

    def _match_all(self) -> None:
        log = self.components.stores.log
        for_each(self.components.log.organizations.all(), lambda one: self._match(one, log), on_error=raise_first)

    def _check_timeouts(self) -> None:
        for_each(self.components.log.organizations.all(), self._check_timeouts_of, on_error=raise_first)

    def _check_timeouts_of(self, organization: Organization) -> None:
        boundary = self.components.log.retention.boundary(organization.server).head
        self.components.jobs.timeouts.run(organization.server, boundary, self._yield_to_writers)


def main() -> None:
    components = open_components()
    run_worker("consumer-worker", POLL_INTERVAL_S, ConsumerWorker(components).run_once)
    components.close()


if __name__ == "__main__":
    main()
