"""Reporting: a finished report is itself an event, `report/ready/<name>`, so that observers can tell people of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.domain.events import JsonPayload, NewEvent
from chalicelib.domain.organizations import Organization
from chalicelib.services.organizations import Organizations
from chalicelib.services.publish import Publish


@dataclass(frozen=True, slots=True)
class Reporting:
    """Tells every organization that a report is ready."""

    publish: Publish
    organizations: Organizations

    def ready(self, name: str, facts: Mapping[str, Any], run: str | None = None) -> list[Organization]:
        """Append the event to each log, once for the same `run`; to whose."""
        found = self.organizations.all()
        event = report_ready(name, facts)
        for organization in found:
            key = None if run is None else f"report-{run}"
            self.publish(organization.server, [event], idempotency_key=key).result()
        return found


def report_ready(name: str, facts: Mapping[str, Any]) -> NewEvent:
    """The event that says where the report is, and what it is about."""
    payload = JsonPayload(type="json", data={"name": name, **facts})
    return NewEvent(type=("report", "ready", name), key=f"/report/{name}", payload=payload)
