"""The registry of ping keys. Their digests are stored as events in an organization's configuration log."""

import secrets

from chalicelib.domain.errors import AlreadyExists, BadInput, ConditionFailed, NoSuchOrganization, NotFound
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, AppendCondition, encode_within_limits
from chalicelib.domain.log.commit import verify_contiguous
from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.domain.pings.ping_key import (
    MAX_KEYS,
    SECRET_BYTES,
    PingKey,
    PingKeys,
    check_name,
    deletion_event,
    event_key,
    key_digest,
    key_text,
    organization_of,
    put_event,
)
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log

UNKNOWN_KEY = "there is no such ping key; an admin creates one with PUT /ping-keys/{name}"
"""The same for all reasons, so that a caller does not learn which part of a key is right."""


class PingKeyRegistry:
    """Creates, lists, deletes and verifies the ping keys of all organizations. Threads may share it."""

    def __init__(self, log: Log, appender: Appender, organizations: Organizations) -> None:
        self._log = log
        self._appender = appender
        self._organizations = organizations
        # Head and keys form one value, because threads share the cache: the keys must belong to their head.
        self._cache: dict[int, tuple[Head, PingKeys]] = {}

    def load(self, server: int) -> PingKeys:
        """The current keys of an organization. Reads only the events that are not in the cache."""
        return self._load(server)[1]

    def create(self, organization: str, server: int, name: str, by: str) -> tuple[PingKey, str]:
        """Create a key. Returns it with its text, which is not stored. Raises `AlreadyExists`."""
        head, keys = self._load(server)
        if check_name(name) in keys.by_name:
            raise AlreadyExists(
                f"the ping key '{name}' exists, and its text is not stored; delete it first to create another one"
            )
        if len(keys.by_name) >= MAX_KEYS:
            raise BadInput(f"an organization may have at most {MAX_KEYS} ping keys; delete one first")
        text = key_text(organization, secrets.token_urlsafe(SECRET_BYTES))
        self._write(server, put_event(name, key_digest(text)), name, head, by)
        return self.load(server).by_name[name], text

    def delete(self, server: int, name: str, by: str) -> None:
        """Raises `NotFound` for an unknown name."""
        head, keys = self._load(server)
        if name not in keys.by_name:
            raise NotFound(f"there is no ping key '{name[:100]}'")
        self._write(server, deletion_event(name), name, head, by)

    def verify(self, text: str) -> tuple[int, PingKey]:
        """The log of the organization and the key with this text. Raises `NotFound`."""
        organization = organization_of(text)
        if organization is None:
            raise NotFound(UNKNOWN_KEY)
        try:
            server = self._organizations.server(organization)
        except NoSuchOrganization:
            raise NotFound(UNKNOWN_KEY) from None
        key = self.load(server).find(text)
        if key is None:
            raise NotFound(UNKNOWN_KEY)
        return server, key

    def _load(self, server: int) -> tuple[Head, PingKeys]:
        log = configuration_log(server)
        head, keys = self._cache.get(log, (Head(log), PingKeys({})))
        for commit in verify_contiguous(head, self._log.read(log, head.session)):
            for event in commit.events:
                keys = keys.fold(event)
            head = commit.head
            self._cache[log] = head, keys
        return head, keys

    def _write(self, server: int, event: NewEvent, name: str, head: Head, by: str) -> None:
        """Write a change of the key. Raises `AlreadyExists` if another writer has changed it since `head`."""
        unchanged = AppendCondition(fail_if_events_match=Selection(keys=(event_key(name),)), after=head.last_event_id)
        texts, request_id = encode_within_limits([event]), secrets.token_urlsafe(9)
        try:
            self._appender.append(Append(configuration_log(server), texts, request_id, unchanged, by=by))
        except ConditionFailed as failure:
            raise AlreadyExists(
                f"another request has changed the ping key '{name}'; list the keys, then retry"
            ) from failure
