"""Organizations: who has which log."""

import secrets
from collections.abc import Sequence

from chalicelib.domain.errors import BadInput, ConditionFailed, NoSuchOrganization
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.log.commit import chained
from chalicelib.domain.organizations.organization import (
    DIRECTORY,
    Organization,
    created,
    name_checked,
    name_of,
    not_yet_created,
)
from chalicelib.services.log.appender import Appender
from chalicelib.services.ports import Log


class Organizations:
    """The directory, read from the log of server 0; what is known is remembered, for nothing there ever changes."""

    def __init__(self, log: Log, appender: Appender) -> None:
        self._log = log
        self._appender = appender
        self._servers: dict[str, int] = {}
        self._read_to = Head(DIRECTORY)

    def server(self, name: str) -> int:
        """The server number of the organization."""
        if name not in self._servers:
            self._refresh()
        try:
            return self._servers[name]
        except KeyError:
            raise NoSuchOrganization(name) from None

    def servers(self, names: Sequence[str]) -> list[int]:
        """The servers of those of the organizations that exist; there must be one."""
        known = [self._servers[name] for name in names if name in self._servers]
        if len(known) < len(names):
            self._refresh()
            known = [self._servers[name] for name in names if name in self._servers]
        if not known:
            raise NoSuchOrganization(names[0])
        return sorted(set(known))

    def server_among(self, names: Sequence[str], default: str, server: int | None) -> int:
        """`server` itself if it belongs to one of the organizations `names`; that of `default` if none is asked for."""
        if server is None:
            return self.server(default)
        self._refresh()
        allowed = [self._servers[name] for name in names if name in self._servers]
        if server not in allowed:
            raise BadInput(f"server {server} is none of yours, which are {allowed}")
        return server

    def refuse_foreign(self, event_id: Id | None, servers: Sequence[int]) -> None:
        """Refuse the id of an event in the log of somebody else; one of no log at all is merely not found."""
        if event_id is not None and event_id.server not in servers and event_id.server in self._servers.values():
            raise BadInput(f"lastEventId {event_id} is of server {event_id.server}, which is none of yours: {servers}")

    def all(self) -> list[Organization]:
        """Every organization, in the order of creation."""
        self._refresh()
        return [Organization(name, server) for name, server in sorted(self._servers.items(), key=lambda item: item[1])]

    def create(self, name: str) -> tuple[Organization, bool]:
        """The organization, and whether this call created it."""
        texts = encoded([created(name_checked(name))])
        append = Append(DIRECTORY, texts, secrets.token_urlsafe(9), not_yet_created(name))
        try:
            self._appender.append(append)
        except ConditionFailed:
            return Organization(name, self.server(name)), False
        return Organization(name, self.server(name)), True

    def _refresh(self) -> None:
        read_to = self._read_to
        for commit in chained(read_to, self._log.read(DIRECTORY, read_to.session)):
            for event in commit.events:
                self._servers[name_of(event.stored.key or "")] = commit.session
            self._read_to = commit.head
