"""Responses of the routes of ping keys."""

from typing_extensions import TypedDict

from chalicelib.http.openapi.response_types.scalars import Time


class PingKey(TypedDict):
    """A ping key without its text, which is not stored."""

    name: str
    createdAt: Time


class NewPingKey(PingKey):
    """A new ping key. `key` is its text, which is not stored: keep it."""

    key: str


class PingKeys(TypedDict):
    """The ping keys of an organization, by name."""

    pingKeys: list[PingKey]
