"""The directory of organizations and their logs."""

import secrets
from collections.abc import Iterable, Mapping, Sequence

from chalicelib.domain.errors import ConditionFailed, NoSuchOrganization
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.ref import KEYED
from chalicelib.domain.organizations.organization import (
    DIRECTORY_SERVER,
    Organization,
    check_name,
    creation_condition,
    creation_event,
    directory_key,
    is_name,
    name_from_key,
)
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import Checkpoint, Record, objects_view
from chalicelib.services.log.appender import Appender
from chalicelib.services.ports import Log
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.no_views import NoViews


class Organizations:
    """The directory: the log of server 0. Its entries never change, so those that were read are cached."""

    def __init__(self, log: Log, appender: Appender, reader: LogReader | None = None) -> None:
        self._log = log
        self._appender = appender
        self._reader = reader or LogReader(log, NoViews())
        self._servers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._head = Head(DIRECTORY_SERVER)
        """All entries up to here are cached."""

    def server(self, name: str) -> int:
        """Server number of an organization. Raises `NoSuchOrganization`."""
        if name not in self._servers:
            self._load([name])
        try:
            return self._servers[name]
        except KeyError:
            raise NoSuchOrganization(name) from None

    def name(self, server: int) -> str | None:
        """Name of the organization with this log, or None if there is none."""
        if server not in self._names and server > DIRECTORY_SERVER:
            commit = self._log.commit(DIRECTORY_SERVER, server)
            self._cache([] if commit is None else [commit])
        return self._names.get(server)

    def servers(self, names: Sequence[str]) -> list[int]:
        """Server numbers of the organizations that exist. Raises `NoSuchOrganization` if none of them does."""
        servers = {organization.server for organization in self.existing(names)}
        if not servers:
            raise NoSuchOrganization(names[0])
        return sorted(servers)

    def existing(self, names: Sequence[str]) -> list[Organization]:
        """The organizations among `names` that exist, in order of creation."""
        self._load(names)
        existing = [Organization(name, self._servers[name]) for name in dict.fromkeys(names) if name in self._servers]
        return sorted(existing, key=lambda organization: organization.server)

    def owns_server(self, names: Sequence[str], server: int) -> bool:
        """Whether `server` is the log of one of the organizations."""
        return self.name(server) in names

    def all(self) -> list[Organization]:
        """All organizations in order of creation. The first call of a process reads the whole directory."""
        self._read_on()
        return [Organization(name, server) for name, server in sorted(self._servers.items(), key=lambda item: item[1])]

    def page(self, after: int, limit: int) -> list[Organization]:
        """At most `limit` organizations with server numbers greater than `after`, in order of creation."""
        commits = list(self._log.read(DIRECTORY_SERVER, after, limit))
        self._cache(commits)
        return [Organization(self._names[commit.session], commit.session) for commit in commits]

    def create(self, name: str) -> tuple[Organization, bool]:
        """Return the organization, and whether this call created it."""
        texts = encode_within_limits([creation_event(check_name(name))])
        append = Append(DIRECTORY_SERVER, texts, secrets.token_urlsafe(9), creation_condition(name))
        try:
            commit = self._appender.append(append).commit
        except ConditionFailed:
            return Organization(name, self.server(name)), False
        self._cache([commit])
        return Organization(name, commit.session), True

    def _load(self, names: Sequence[str]) -> None:
        """Cache the organizations among `names` that exist. Those in the views cost one read each, and one together."""
        keys = self._unknown_keys(names)
        if keys and self._head.session:
            self._read_on()
        elif keys:
            checkpoint, records = self._reader.read_views(
                DIRECTORY_SERVER,
                lambda checkpoint: self._read_views(checkpoint, keys),
                is_complete=lambda records: len(records) == len(keys),
            )
            self._cache_records(records)
            # The others do not exist, or are not in the views yet.
            if len(records) < len(keys) and checkpoint.head.session:
                self._cache(self._reader.tail(checkpoint.head))
            elif len(records) < len(keys):
                self._read_on()

    def _unknown_keys(self, names: Sequence[str]) -> list[str]:
        return [directory_key(name) for name in dict.fromkeys(names) if name not in self._servers and is_name(name)]

    def _read_views(self, checkpoint: Checkpoint, keys: Sequence[str]) -> Mapping[str, Record]:
        return self._reader.views.get(checkpoint.view_name(objects_view(KEYED)), keys)

    def _read_on(self) -> None:
        """Cache the entries after those that are cached."""
        for commit in self._reader.tail(self._head):
            self._cache([commit])
            self._head = commit.head

    def _cache_records(self, records: Mapping[str, Record]) -> None:
        for key, record in records.items():
            server = ObjectView.from_record(record).recent.last
            self._servers[name_from_key(key)], self._names[server] = server, name_from_key(key)

    def _cache(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            for event in commit.events:
                name = name_from_key(event.fields.key or "")
                self._servers[name], self._names[commit.session] = commit.session, name
