"""Health: is the log there, and how far is it."""

from chalicelib.domain.events.head import Head
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log

MOST_LOGS = 100


def heads(log: Log, organizations: Organizations) -> list[Head]:
    """Where the logs stand, read from the store just now; no names, for anybody may ask."""
    return [log.head(organization.server) for organization in organizations.all()[:MOST_LOGS]]
