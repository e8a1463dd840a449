"""The caller of a request: user, organizations and groups."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from chalice.app import Request

from chalicelib.domain import timestamps
from chalicelib.domain.errors import Forbidden
from chalicelib.domain.organizations.groups import Groups
from chalicelib.http.auth.tokens import Claims

MAX_AUDIT_NAME_LENGTH = 200
MAX_EXPIRY_S = 253_402_300_799
"""The last second of the year 9999. Issuers may create tokens that never expire."""


def authorizer_context(claims: Claims) -> dict[str, str]:
    """The claims as text, because API Gateway passes only text from the authorizer to the function."""
    return {
        "user": claims.user,
        "organizations": json.dumps(claims.organizations),
        "groups": json.dumps(claims.groups),
        "expires": str(claims.expires_s),
    }


@dataclass(frozen=True, slots=True)
class Caller:
    """The user who made a request, as described by their token."""

    user: str
    organizations: tuple[str, ...]
    groups: frozenset[str]
    requested_organization: str | None = None
    """The organization in the header `X-Organization`."""
    expires_s: int = 0
    """When the token expires. It is accepted for `LEEWAY_S` longer."""

    @classmethod
    def from_request(cls, request: Request) -> Self:
        context: Mapping[str, str] = request.context.get("authorizer") or {}
        if "user" not in context:
            raise Forbidden("this route requires a token")
        requested, expires = request.headers.get("x-organization"), context.get("expires", "0")
        return cls._from_context(context["user"], context["organizations"], context["groups"], requested, expires)

    @classmethod
    @lru_cache(maxsize=1024)
    def _from_context(cls, user: str, organizations: str, groups: str, requested: str | None, expires: str) -> Self:
        """Cached, because most callers send many requests."""
        return cls(user, tuple(json.loads(organizations)), frozenset(json.loads(groups)), requested, int(expires))

    @property
    def audit_name(self) -> str:
        """The user's name as it is stored with commits: one line of limited length."""
        user = self.user
        return user if user.isprintable() and len(user) <= MAX_AUDIT_NAME_LENGTH else _one_line(user)

    def require_publisher(self, group_names: Groups) -> None:
        self._require_any("publish", group_names.publishers | group_names.admins)

    def require_reader(self, group_names: Groups) -> None:
        self._require_any("read", group_names.readers | group_names.admins)

    def require_admin(self, group_names: Groups) -> None:
        self._require_any("administer", group_names.admins)

    def is_admin(self, group_names: Groups) -> bool:
        return not self.groups.isdisjoint(group_names.admins)

    def organization(self, in_path: str | None = None) -> str:
        """The organization in the path, or else the one in the header, or else the first one in the token."""
        name = in_path or self.requested_organization
        if name is None:
            if not self.organizations:
                raise Forbidden(f"'{self.user}' is not associated with any organization")
            return self.organizations[0]
        if name not in self.organizations:
            raise Forbidden(f"'{self.user}' is not associated with organization '{name}'")
        return name

    def selected_organizations(self) -> tuple[str, ...]:
        """The organizations that a query spans: the one in the header, or else all in the token."""
        if self.requested_organization is None and self.organizations:
            return self.organizations
        return (self.organization(),)

    def json(self, group_names: Groups) -> dict[str, Any]:
        """The response of `GET /me`."""
        return {
            "user": self.user,
            "organizations": self.organizations,
            "groups": sorted(self.groups),
            "may": {
                "read": not self.groups.isdisjoint(group_names.readers | group_names.admins),
                "publish": not self.groups.isdisjoint(group_names.publishers | group_names.admins),
                "administer": self.is_admin(group_names),
            },
            "expires": timestamps.iso(min(self.expires_s, MAX_EXPIRY_S) * 1_000_000),
        }

    def _require_any(self, action: str, allowed: frozenset[str]) -> None:
        if self.groups.isdisjoint(allowed):
            raise Forbidden(
                f"User or client '{self.user}' does not have access to that action on this server.",
                f"To {action}, the token needs one of the groups {', '.join(sorted(allowed))}.",
            )


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:MAX_AUDIT_NAME_LENGTH])
