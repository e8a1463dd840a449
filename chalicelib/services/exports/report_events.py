"""Publish a `report/ready/<name>` event for each finished report, so that observers can notify people."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.organizations.organization import Organization
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.log.publisher import Publisher

PayloadFor = Callable[[Organization], Mapping[str, Any] | None]
"""Returns the payload of the event for an organization, or None if it has no report."""


@dataclass(frozen=True, slots=True)
class ReportPublisher:
    """Publishes `report/ready` events to the logs of organizations."""

    publisher: Publisher
    organizations: Organizations

    def publish_ready(self, name: str, payload_for: PayloadFor, run: str | None = None) -> list[Organization]:
        """Publish the event to each organization with a report, once per `run`, and return these organizations."""
        notified = []
        for organization in self.organizations.all():
            payload = payload_for(organization)
            if payload is not None:
                key = None if run is None else f"report-{run}"
                self.publisher.publish(organization.server, [report_ready_event(name, payload)], idempotency_key=key)
                notified.append(organization)
        return notified


def report_link(url: str, organization: Organization) -> str:
    """The URL of an organization's report. `url` has the placeholder `{server}`."""
    return url.replace("{server}", str(organization.server))


def report_ready_event(name: str, facts: Mapping[str, Any]) -> NewEvent:
    payload = JsonPayload(type="json", data={"name": name, **facts})
    return NewEvent(type=("report", "ready", name), key=f"/report/{name}", payload=payload)
