"""The pump: a process beside the server that runs the consumers, so that they take no time from requests.

It needs no word from the server: it sees in the log what is new. Reads are exact however far it lags.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from chalicelib.domain.organizations.organization import DIRECTORY, Organization, inbox_of
from chalicelib.services.consumers.consumer import LastRun, catch_up, catch_up_together
from chalicelib.services.consumers.projector import projector
from chalicelib.wiring import Annals
from infra.server.processes.supervisor import for_each, serve_until_told
from infra.server.startup import opened

LOOK_S = 0.1
"""How often it looks for new commits."""
REST_S = 5.0
"""How long it does nothing while nothing is written; then it looks for what is past retention."""
RESTS = 5.0
"""So many times as long as it works, it rests while others write."""
CLEAN_S = 2.0
"""How often it looks for what has been silent for too long."""


@dataclass
class Pump:
    """Runs the consumers of all logs whenever something is new."""

    parts: Annals
    sleep: Callable[[float], None] = time.sleep
    rest: float = 0.0
    next_clean: float = 0.0
    began: float = 0.0
    """Since when it works without a rest."""
    has_grown: bool = False
    """Whether something was written after its log may have been looked at."""

    def turn(self) -> None:
        """Look whether there is something to do, and do it."""
        now = self.began = time.monotonic()
        if self.parts.has_grown() or self.has_grown or now > self.rest:
            self.has_grown = False
            self._consume()
            self.rest = time.monotonic() + REST_S
        if now > self.next_clean:
            self._clean()
            self.next_clean = time.monotonic() + CLEAN_S

    def _consume(self) -> None:
        parts = self.parts
        catch_up(projector(parts.views), DIRECTORY, parts.log, parts.views)
        for_each(parts.organizations.all(), self._consume_logs)

    def _consume_logs(self, organization: Organization) -> None:
        """Nothing is forgotten that observers have not seen: they come first."""
        parts, project, server = self.parts, projector(self.parts.views), organization.server
        kept = parts.retention.forgotten(server).before
        log = LastRun(parts.log)
        catch_up(parts.observing.consumer, server, log, parts.progress, kept)
        consumers = (project, parts.cleaning.consumer)
        catch_up_together(consumers, server, log, parts.views, kept, between=self._give_way)
        parts.forget(server, kept.session)
        inbox = inbox_of(server)
        kept = parts.retention.forgotten(inbox).before
        catch_up(project, inbox, parts.log, parts.views, kept, between=self._give_way)
        parts.forget(inbox, kept.session)

    def _give_way(self) -> None:
        """While others write they come first: rest as long as it has worked, or longer."""
        if self.parts.has_grown():
            self.has_grown = True
            self.sleep(RESTS * (time.monotonic() - self.began))
        self.began = time.monotonic()

    def _clean(self) -> None:
        for_each(self.parts.organizations.all(), self._clean_one)

    def _clean_one(self, organization: Organization) -> None:
        kept = self.parts.retention.forgotten(organization.server).before
        self.parts.cleaning.run(organization.server, kept, self._give_way)


def main() -> None:
    """Run the consumers until SIGTERM, or until the server is gone."""
    parts = opened()
    serve_until_told("pump", LOOK_S, Pump(parts).turn)
    parts.close()


if __name__ == "__main__":
    main()
