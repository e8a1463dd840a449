"""Reporting: a finished report is itself an event, `report/ready/<name>`, so that observers can tell people of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.organizations.organization import Organization
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.log.publisher import Publish

Facts = Callable[[Organization], Mapping[str, Any] | None]
"""What is to be said of the report of an organization; None if it has none."""


@dataclass(frozen=True, slots=True)
class Reporting:
    """Tells every organization that its report is ready."""

    publish: Publish
    organizations: Organizations

    def ready(self, name: str, facts_of: Facts, run: str | None = None) -> list[Organization]:
        """Append the event to the log of each organization that has a report, once for the same `run`; whose."""
        told = []
        for organization in self.organizations.all():
            facts = facts_of(organization)
            if facts is not None:
                key = None if run is None else f"report-{run}"
                self.publish(organization.server, [report_ready(name, facts)], idempotency_key=key).result()
                told.append(organization)
        return told


def report_link(url: str, organization: Organization) -> str:
    """Where the report of an organization is: each has its own, by its number."""
    return url.replace("{server}", str(organization.server))


def report_ready(name: str, facts: Mapping[str, Any]) -> NewEvent:
    """The event that says where the report is, and what it is about."""
    payload = JsonPayload(type="json", data={"name": name, **facts})
    return NewEvent(type=("report", "ready", name), key=f"/report/{name}", payload=payload)
