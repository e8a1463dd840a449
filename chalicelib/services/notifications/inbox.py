"""The inbox: messages to users in the app. It is a log, so that clients can follow it like any other feed."""

import hashlib
import secrets
from contextlib import suppress

from pydantic_core import to_json

from chalicelib.domain.errors import BadInput, KeyReused
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.log.append import MAX_IDEMPOTENCY_KEY_LENGTH, Append, encode_within_limits
from chalicelib.domain.notifications.delivery import AppMessage
from chalicelib.domain.notifications.observer import MAX_USER_LENGTH
from chalicelib.domain.organizations.organization import inbox_log
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.log.appender import Appender

MESSAGE_TYPE = ("inbox", "message")


class Inbox:
    """Writes messages. Each delivery is written once, no matter how often it is attempted."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    def put(self, message: AppMessage) -> None:
        data = {
            "observer": message.observer,
            "subject": message.subject,
            "body": message.body,
            "event": message.event._asdict(),
        }
        event = NewEvent(type=MESSAGE_TYPE, key=_user_key(message.user), payload=JsonPayload(type="json", data=data))
        key = message.delivery
        if len(key) > MAX_IDEMPOTENCY_KEY_LENGTH or not key.isascii():
            key = hashlib.sha256(key.encode()).hexdigest()
        events = encode_within_limits([event])
        append = Append(inbox_log(message.server), events, secrets.token_urlsafe(9), idempotency_key=key)
        # An earlier attempt wrote the message with another text, because the template was edited in between.
        with suppress(KeyReused):
            self._appender.append(append)


def user_messages(user: str) -> Selection:
    """Selects the messages of a user."""
    if len(user) > MAX_USER_LENGTH:
        raise BadInput(f"a user name may have at most {MAX_USER_LENGTH} characters")
    return Selection(types=(MESSAGE_TYPE,), keys=(_user_key(user),))


def message_json(event: Event) -> str:
    """A message as clients receive it."""
    return to_json({"eventId": event.event_id, **event.fields.payload["data"]}).decode()


def _user_key(user: str) -> str:
    return f"/users/{user}"
