"""Callers: who asks, for which organization, and whether they may."""

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

LAST_S = 253_402_300_799
"""The end of the calendar; issuers may say that a token never ends."""


def context(claims: Claims) -> dict[str, str]:
    """The claims in the form that API Gateway hands from the authorizer to the function: text only."""
    return {
        "user": claims.user,
        "organizations": json.dumps(claims.organizations),
        "groups": json.dumps(claims.groups),
        "expires": str(claims.expires_s),
    }


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever made a request, as their token says."""

    user: str
    organizations: tuple[str, ...]
    groups: frozenset[str]
    chosen: str | None = None
    """The organization named in the header `X-Organization`."""
    expires_s: int = 0
    """When their token ends."""

    @classmethod
    def of(cls, request: Request) -> Self:
        """The caller whom the authorizer let in."""
        given: Mapping[str, str] = request.context.get("authorizer") or {}
        if "user" not in given:
            raise Forbidden("this route needs a token")
        chosen, expires = request.headers.get("x-organization"), given.get("expires", "0")
        return cls._known(given["user"], given["organizations"], given["groups"], chosen, expires)

    @classmethod
    @lru_cache(maxsize=1024)
    def _known(cls, user: str, organizations: str, groups: str, chosen: str | None, expires: str) -> Self:
        """Remembered, for few come once only."""
        return cls(user, tuple(json.loads(organizations)), frozenset(json.loads(groups)), chosen, int(expires))

    def publisher(self, names: Groups) -> Self:
        """The caller, if they may publish."""
        return self._member(names.publishers | names.admins)

    def reader(self, names: Groups) -> Self:
        """The caller, if they may read."""
        return self._member(names.readers | names.admins)

    def admin(self, names: Groups) -> Self:
        """The caller, if they may administer."""
        return self._member(names.admins)

    def is_admin(self, names: Groups) -> bool:
        """Tell whether the caller may administer."""
        return not self.groups.isdisjoint(names.admins)

    def organization(self, in_path: str | None = None) -> str:
        """The organization meant: the one in the path, else the header's, else the token's first."""
        named = in_path or self.chosen
        if named is None:
            if not self.organizations:
                raise Forbidden(f"'{self.user}' is not associated with any organization")
            return self.organizations[0]
        if named not in self.organizations:
            raise Forbidden(f"'{self.user}' is not associated with organization '{named}'")
        return named

    def meant(self) -> tuple[str, ...]:
        """The organizations that a query spans: the one in the header, else all of the token."""
        return (self.organization(),) if self.chosen is not None or not self.organizations else self.organizations

    def json(self, names: Groups) -> dict[str, Any]:
        """Who they are, as they are told themselves."""
        return {
            "user": self.user,
            "organizations": self.organizations,
            "groups": sorted(self.groups),
            "may": {
                "read": not self.groups.isdisjoint(names.readers | names.admins),
                "publish": not self.groups.isdisjoint(names.publishers | names.admins),
                "administer": self.is_admin(names),
            },
            "expires": timestamps.iso(min(self.expires_s, LAST_S) * 1_000_000),
        }

    def _member(self, allowed: frozenset[str]) -> Self:
        if self.groups.isdisjoint(allowed):
            raise Forbidden(f"User or client '{self.user}' does not have access to that action on this server.")
        return self
