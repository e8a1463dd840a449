"""Responses of the routes that help to configure observers: presets, previews, test messages."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from chalicelib.http.openapi.response_types.events import Event


class PresetConfiguration(TypedDict):
    """The part of an observer's configuration that says which events it observes."""

    scope: Literal["global", "private"]
    types: list[str]
    filter: NotRequired[str]


class ObserverPreset(TypedDict):
    """A configuration for a common wish, without a channel."""

    name: str
    title: str
    description: str
    configuration: PresetConfiguration


class ObserverPresets(TypedDict):
    """All presets."""

    presets: list[ObserverPreset]


class MailPreview(TypedDict):
    """The mail that would be sent."""

    subject: str
    text: str
    html: str
    to: list[str]


class SlackPreview(TypedDict):
    """The message that would be posted to Slack."""

    json: dict[str, Any]


class EventPreview(TypedDict):
    """The CloudEvent that would be posted to a webhook, or the detail of the event for an event bus."""

    json: dict[str, Any]


class ApprisePreview(TypedDict):
    """The message that would be sent with Apprise."""

    subject: str
    body: str


class AppPreview(TypedDict):
    """The message that would be added to the inboxes of users."""

    subject: str
    body: str
    users: list[str]


class Preview(TypedDict):
    """The message that an observer would send. `why` is the reason if it would not send it."""

    event: Event
    wouldTell: bool
    why: str | None
    message: MailPreview | SlackPreview | EventPreview | AppPreview | ApprisePreview


class Tested(TypedDict):
    """The channel accepted the message."""

    sent: Literal[True]
