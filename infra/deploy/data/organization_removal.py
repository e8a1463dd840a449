"""Deletes the events of an organization that has left, and the views of them.

The organization stays in the directory, and the last commit of each log stays, because it holds the last session
number. If all events are deleted, an `organization/retired` event is appended first, so that the remaining commit
has no content of the organization.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chalicelib.adapters.dynamodb.batches import MAX_BATCH_WRITES, Sleep, delete_items
from chalicelib.adapters.dynamodb.items import SESSION, N, commit_key
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.organizations.organization import configuration_log, is_configuration_log
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import delete_replaced_views
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.scan import find_position
from chalicelib.wiring import Components, new_request_id
from infra.deploy.data.commit_items import query_commit_headers
from infra.tools.view_rebuild import rebuild_after

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient

RETIRED_TYPE: Final = ("organization", "retired")
"""Type of the event that replaces all deleted events."""
MAX_SESSION: Final = 2**53
"""Higher than any session."""
DELIVERY_VIEWS: Final = ("delivery", "parked")
"""Views with the deliveries of one observer."""


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """The commits of a log that are to be deleted."""

    server: int
    commits: int
    events: int


@dataclass(frozen=True, slots=True)
class OrganizationRemoval:
    """Deletes events before `before_us`, or all of them if it is None, but never a log's last commit.

    Every step can be stopped and repeated.
    """

    components: Components
    client: ServiceClient
    log_table: str
    before_us: int | None = None
    pause: Sleep = time.sleep

    def plan(self, server: int) -> DeletionPlan:
        """Count the commits and events to delete."""
        _refuse_configuration_log(server)
        end = (
            self._last_session_to_delete(server)
            if self.before_us is not None or self._is_retired(server)
            else MAX_SESSION
        )
        commits = events = 0
        for item in query_commit_headers(self.client, self.log_table, server):
            if int(item[SESSION]["N"]) > end:
                break
            commits, events = commits + 1, events + int(item[N]["N"])
        return DeletionPlan(server, commits, events)

    def delete_observers(self, server: int) -> list[str]:
        """Delete all observers of an organization, so that no further deliveries are made. Returns their names."""
        names = sorted(self.components.notifications.observers.load(server).observers)
        for name in names:
            self.components.notifications.observers.delete(server, name)
        stores = self.components.stores
        consumer = self.components.notifications.matcher.consumer
        catch_up(consumer, server, stores.log, stores.progress, self._expired_head(server))
        return names

    def delete_expectations(self, server: int) -> list[str]:
        """Delete all expectations of an organization, so that no further alarms are written. Returns their names."""
        registry = self.components.expectations.registry
        names = sorted(registry.load(server))
        for name in names:
            registry.delete(server, name)
        return names

    def delete(self, server: int, progress: Callable[[int], None]) -> int:
        """Delete a log's commits, oldest first so that the rest has no gap. Returns their number."""
        _refuse_configuration_log(server)
        if self.before_us is None:
            self._append_retired_event(server)
        first, end = self.components.stores.log.start(server).session + 1, self._last_session_to_delete(server)
        for start in range(first, end + 1, MAX_BATCH_WRITES):
            last = min(start + MAX_BATCH_WRITES - 1, end)
            keys = [commit_key(server, session) for session in range(start, last + 1)]
            delete_items(self.client, self.log_table, keys, self.pause)
            progress(last - first + 1)
        return max(end - first + 1, 0)

    def rebuild_views(self, server: int) -> None:
        """Rebuild the views of a log from the commits that are left, and delete the old ones."""
        if rebuild_after(self._expired_head(server), self.components, lambda _: None):
            delete_replaced_views(server, self.components.stores.views)

    def delete_delivery_records(self, server: int) -> None:
        """Delete the delivery records of every observer that the organization ever had."""
        for name in self._all_observer_names(server):
            for kind in DELIVERY_VIEWS:
                while self.components.stores.views.drop(f"{server}/{kind}/{name}"):
                    pass

    def _append_retired_event(self, server: int) -> None:
        """Append the event that marks the log as retired, unless the log is empty or has it."""
        if self.components.stores.log.head(server).session and not self._is_retired(server):
            self.components.log.appender.append(
                Append(server, encode_within_limits([NewEvent(type=RETIRED_TYPE)]), new_request_id())
            )

    def _is_retired(self, server: int) -> bool:
        last = next(self.components.stores.log.read_backwards(server, MAX_SESSION, 1), None)
        return last is not None and last.events[-1].fields.type == RETIRED_TYPE

    def _last_session_to_delete(self, server: int) -> int:
        head = self.components.stores.log.head(server)
        if self.before_us is None:
            return head.session - 1
        return min(head.session - 1, find_position(self.components.stores.log, head, self.before_us - 1).session)

    def _expired_head(self, server: int) -> Head:
        """The head before the first kept commit. Not cached, because `delete` changes it."""
        stored_s = self.components.settings.stored_s
        retention = Retention(self.components.stores.log, self.components.clock, stored_s)
        return retention.boundary(server).head

    def _all_observer_names(self, server: int) -> Iterator[str]:
        keys: dict[str, None] = {}
        for commit in self.components.stores.log.read(configuration_log(server), 0):
            keys |= dict.fromkeys(event.fields.key for event in commit.events if event.fields.key)
        return (key.removeprefix("/observer/") for key in keys)


def _refuse_configuration_log(server: int) -> None:
    """Raise `BadInput` for the directory and for observer configurations, which are kept forever."""
    if is_configuration_log(server):
        raise BadInput(f"the log of server {server} holds configuration, which is kept forever")
