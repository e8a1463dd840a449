"""The context of an authenticated request.

Each route calls one of these functions first. They raise `Forbidden` for callers without the required group or
organization, and `NoSuchOrganization` if the organization has not been created.
"""

from dataclasses import dataclass

from chalice.app import Request

from chalicelib.http.auth.authorizer import current_request
from chalicelib.http.auth.caller import Caller
from chalicelib.wiring import Components, get_components


@dataclass(slots=True)
class Context:
    """An authenticated request."""

    request: Request
    caller: Caller
    components: Components


@dataclass(slots=True)
class LogContext(Context):
    """An authenticated request for the log of one organization."""

    organization: str
    server: int
    """The number of the log."""


def member() -> Context:
    """Any caller with a valid token."""
    request = current_request()
    return Context(request, Caller.from_request(request), get_components())


def admin() -> Context:
    context = member()
    context.caller.require_admin(context.components.settings.groups)
    return context


def multi_log_reader() -> Context:
    """A reader whose query may span all organizations in the token."""
    context = member()
    context.caller.require_reader(context.components.settings.groups)
    return context


def reader(org: str | None = None) -> LogContext:
    """A reader of the organization `org`, or of the selected one."""
    context = member()
    organization = context.caller.organization(org)
    context.caller.require_reader(context.components.settings.groups)
    return _log_context(context, organization)


def publisher() -> LogContext:
    context = member()
    context.caller.require_publisher(context.components.settings.groups)
    return _log_context(context, context.caller.organization())


def organization_admin() -> LogContext:
    """An administrator who changes the selected organization."""
    context = member()
    organization = context.caller.organization()
    context.caller.require_admin(context.components.settings.groups)
    return _log_context(context, organization)


def user_or_admin(user: str) -> LogContext:
    """The user with this name, or an administrator."""
    context = member()
    organization = context.caller.organization()
    if context.caller.user != user:
        context.caller.require_admin(context.components.settings.groups)
    return _log_context(context, organization)


def _log_context(context: Context, organization: str) -> LogContext:
    server = context.components.log.organizations.server(organization)
    return LogContext(context.request, context.caller, context.components, organization, server)
