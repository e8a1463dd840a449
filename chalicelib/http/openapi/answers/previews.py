"""Answers of the routes that try observers."""

from typing import Any, Literal

from typing_extensions import TypedDict

from chalicelib.http.openapi.answers.events import Event


class MailPreview(TypedDict):
    """What mail would say."""

    subject: str
    text: str
    html: str
    to: list[str]


class SlackPreview(TypedDict):
    """What would be posted to Slack."""

    json: dict[str, Any]


class AppPreview(TypedDict):
    """What would be in the inboxes of users."""

    subject: str
    body: str
    users: list[str]


class Preview(TypedDict):
    """What an observer would say about an event; `why` it would not, if so."""

    event: Event
    wouldTell: bool
    why: str | None
    message: MailPreview | SlackPreview | AppPreview


class Tested(TypedDict):
    """The channel has taken the message."""

    sent: Literal[True]
