"""Retiring: the events of an organization that has left are deleted, and what was made of them.

The organization stays in the directory, and the last commit of each log stays: it holds the number from which
publishing would go on. If everything is to go, that commit is one that says so, and no word of the organization's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chalicelib.adapters.dynamodb.batches import MOST_WRITES, Pause, delete_all
from chalicelib.adapters.dynamodb.items import SESSION, N, commit_key
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.organizations.organization import configuration_of, is_configuration
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.scan import session_at
from chalicelib.wiring import Annals, request_id
from infra.deploy.data.commit_items import outlines
from infra.tools.rebuilding import rebuild_after

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls

RETIRED: Final = ("organization", "retired")
"""The type of the event that stands for all that was deleted before it."""
LAST: Final = 2**53
"""Later than any session."""
OF_OBSERVER: Final = ("delivery", "parked")
"""The views of an observer's deliveries."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a log holds that is to go."""

    server: int
    commits: int
    events: int


@dataclass(frozen=True, slots=True)
class Retiring:
    """Deletes what is older than `before_us`, and the last commit never; None: all. Safe to stop and to repeat."""

    parts: Annals
    client: Calls
    log_table: str
    before_us: int | None = None
    pause: Pause = time.sleep

    def holding(self, server: int) -> Holding:
        """How much of a log is to go, as it is now."""
        _refuse_configuration(server)
        end = self._end(server) if self.before_us is not None or self._is_closed(server) else LAST
        commits = events = 0
        for item in outlines(self.client, self.log_table, server):
            if int(item[SESSION]["N"]) > end:
                break
            commits, events = commits + 1, events + int(item[N]["N"])
        return Holding(server, commits, events)

    def end_observers(self, server: int) -> list[str]:
        """End all observers of an organization; their names. What they have not been told yet, they never are."""
        names = sorted(self.parts.observers.of(server).observers)
        for name in names:
            self.parts.observers.delete(server, name)
        catch_up(self.parts.observing.consumer, server, self.parts.log, self.parts.progress, self._kept(server))
        return names

    def delete(self, server: int, progress: Callable[[int], None]) -> int:
        """Delete a log's commits, the oldest first, so that what is left has no gap; how many."""
        _refuse_configuration(server)
        if self.before_us is None:
            self._close(server)
        first, end = self.parts.log.start(server).session + 1, self._end(server)
        for start in range(first, end + 1, MOST_WRITES):
            last = min(start + MOST_WRITES - 1, end)
            keys = [commit_key(server, session) for session in range(start, last + 1)]
            delete_all(self.client, self.log_table, keys, self.pause)
            progress(last - first + 1)
        return max(end - first + 1, 0)

    def forget_views(self, server: int) -> None:
        """Build the views of a log anew from what is left, so that they know nothing else."""
        rebuild_after(self._kept(server), self.parts, lambda _: None)

    def forget_deliveries(self, server: int) -> None:
        """Forget what became of the deliveries of every observer that the organization ever had."""
        for name in self._observers_ever(server):
            for kind in OF_OBSERVER:
                while self.parts.views.drop(f"{server}/{kind}/{name}"):
                    pass

    def _close(self, server: int) -> None:
        """Have the log end with an event that says that it is retired, unless nothing was ever written to it."""
        if self.parts.log.head(server).session and not self._is_closed(server):
            self.parts.appender.append(Append(server, encoded([NewEvent(type=RETIRED)]), request_id()))

    def _is_closed(self, server: int) -> bool:
        last = next(self.parts.log.read_back(server, LAST, 1), None)
        return last is not None and last.events[-1].stored.type == RETIRED

    def _end(self, server: int) -> int:
        """The last session that is to go."""
        head = self.parts.log.head(server)
        if self.before_us is None:
            return head.session - 1
        return min(head.session - 1, session_at(self.parts.log, head, self.before_us - 1).session)

    def _kept(self, server: int) -> Head:
        """Before what is kept of a log; looked up each time, for it is we who change it."""
        return Retention(self.parts.log, self.parts.clock, self.parts.settings.retention_s).forgotten(server).before

    def _observers_ever(self, server: int) -> Iterator[str]:
        seen: dict[str, None] = {}
        for commit in self.parts.log.read(configuration_of(server), 0):
            seen |= dict.fromkeys(event.stored.key for event in commit.events if event.stored.key)
        return (key.removeprefix("/observer/") for key in seen)


def _refuse_configuration(server: int) -> None:
    """Refuse the directory, and the logs that say how observers are configured: they are kept for ever."""
    if is_configuration(server):
        raise BadInput(f"the log of server {server} says how things are configured, and is kept for ever")
