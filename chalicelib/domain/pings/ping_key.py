"""Ping keys: secrets in URLs that allow pings of one organization and nothing else.

The text of a key is `<organization>.<secret>`, so that its organization is known without a search. Only its digest is
stored, as an event in the organization's configuration log. The secret has 192 random bits, so an unsalted hash is
enough.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.domain import timestamps
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.json_schema import pattern_of
from chalicelib.domain.organizations import organization

SECRET_BYTES = 24
MAX_KEYS = 100
"""Per organization, because a ping is compared with each of them."""
SEPARATOR = "."
"""Not part of any organization's name, and safe in the path of a URL."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
NAME_PATTERN = pattern_of(_NAME)
KEY_PATTERN = pattern_of(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\.[A-Za-z0-9_-]{32}")


@dataclass(frozen=True, slots=True)
class PingKey:
    """A key without its secret."""

    name: str
    digest: str
    created_at_us: int

    @property
    def json(self) -> dict[str, Any]:
        return {"name": self.name, "createdAt": timestamps.iso(self.created_at_us)}


@dataclass(frozen=True, slots=True)
class PingKeys:
    """The keys of an organization by name: a fold of its configuration log."""

    by_name: Mapping[str, PingKey]

    def fold(self, event: Event) -> "PingKeys":
        """The keys after `event`."""
        fields = event.fields
        name = (fields.key or "").removeprefix("/pingkey/")
        match fields.type:
            case ("pingkey", "put"):
                key = PingKey(name, fields.payload["data"]["sha256"], event.at_us)
                return PingKeys({**self.by_name, name: key})
            case ("pingkey", "deleted"):
                return PingKeys({other: key for other, key in self.by_name.items() if other != name})
            case _:
                return self

    def find(self, text: str) -> PingKey | None:
        """The key with this text. The time of the search does not depend on which key matches, or on how much."""
        digest, found = key_digest(text), None
        for key in self.by_name.values():
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


def key_text(organization_name: str, secret: str) -> str:
    return f"{organization_name}{SEPARATOR}{secret}"


def organization_of(text: str) -> str | None:
    """The organization's name in the text of a key. None if the text is not that of a key."""
    name, separator, secret = text.partition(SEPARATOR)
    return name if separator and secret and organization.is_name(name) else None


def key_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def check_name(name: str) -> str:
    """Return `name`. Raises `BadInput` if it is not valid."""
    if _NAME.fullmatch(name) is None:
        raise BadInput(
            "a ping key's name has 1 to 100 letters, digits, '.', '-' and '_', and begins with a letter or digit"
        )
    return name


def event_key(name: str) -> str:
    """The key of the events about a ping key."""
    return f"/pingkey/{name}"


def put_event(name: str, digest: str) -> NewEvent:
    """The event that stores a new key."""
    payload = JsonPayload(type="json", data={"sha256": digest})
    return NewEvent(type=("pingkey", "put"), key=event_key(name), payload=payload)


def deletion_event(name: str) -> NewEvent:
    return NewEvent(type=("pingkey", "deleted"), key=event_key(name))
