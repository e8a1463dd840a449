"""Health check: can the logs be read?"""

from chalicelib.domain.events.head import Head
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log

MAX_LOGS = 100


def heads(log: Log, organizations: Organizations) -> list[Head]:
    """Current heads of the logs. They contain no names, because the health check needs no token."""
    return [log.head(organization.server) for organization in organizations.all()[:MAX_LOGS]]
