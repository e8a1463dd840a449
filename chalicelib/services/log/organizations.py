"""The directory of organizations and their logs."""

import secrets
from collections.abc import Sequence

from chalicelib.domain.errors import ConditionFailed, NoSuchOrganization
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import verify_contiguous
from chalicelib.domain.organizations.organization import (
    DIRECTORY_SERVER,
    Organization,
    check_name,
    creation_condition,
    creation_event,
    name_from_key,
)
from chalicelib.services.log.appender import Appender
from chalicelib.services.ports import Log


class Organizations:
    """The directory, read from the log of server 0 and cached. Its entries never change."""

    def __init__(self, log: Log, appender: Appender) -> None:
        self._log = log
        self._appender = appender
        self._servers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._head = Head(DIRECTORY_SERVER)

    def server(self, name: str) -> int:
        """Server number of an organization. Raises `NoSuchOrganization`."""
        if name not in self._servers:
            self._refresh()
        try:
            return self._servers[name]
        except KeyError:
            raise NoSuchOrganization(name) from None

    def name(self, server: int) -> str | None:
        """Name of the organization with this log, or None if there is none."""
        if server not in self._names:
            self._refresh()
        return self._names.get(server)

    def servers(self, names: Sequence[str]) -> list[int]:
        """Server numbers of the organizations that exist. Raises `NoSuchOrganization` if none of them does."""
        servers = self._cached_servers(names)
        if len(servers) < len(names):
            self._refresh()
            servers = self._cached_servers(names)
        if not servers:
            raise NoSuchOrganization(names[0])
        return sorted(set(servers))

    def owns_server(self, names: Sequence[str], server: int) -> bool:
        """Whether `server` is the log of one of the organizations."""
        self._refresh()
        return server in self._cached_servers(names)

    def all(self) -> list[Organization]:
        """All organizations in order of creation."""
        self._refresh()
        return [Organization(name, server) for name, server in sorted(self._servers.items(), key=lambda item: item[1])]

    def create(self, name: str) -> tuple[Organization, bool]:
        """Return the organization, and whether this call created it."""
        texts = encode_within_limits([creation_event(check_name(name))])
        append = Append(DIRECTORY_SERVER, texts, secrets.token_urlsafe(9), creation_condition(name))
        try:
            self._appender.append(append)
        except ConditionFailed:
            return Organization(name, self.server(name)), False
        return Organization(name, self.server(name)), True

    def _cached_servers(self, names: Sequence[str]) -> list[int]:
        return [self._servers[name] for name in names if name in self._servers]

    def _refresh(self) -> None:
        head = self._head
        for commit in verify_contiguous(head, self._log.read(DIRECTORY_SERVER, head.session)):
            for event in commit.events:
                name = name_from_key(event.fields.key or "")
                self._servers[name], self._names[commit.session] = commit.session, name
            self._head = commit.head
