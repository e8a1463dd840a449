"""The inbox: what users were told in the app. A log of its own, so that it is followed like any other."""

import hashlib
import secrets
from contextlib import suppress

from pydantic_core import to_json

from chalicelib.domain.errors import BadInput, KeyReused
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent
from chalicelib.domain.log.append import LONGEST_IDEMPOTENCY_KEY, Append, encoded
from chalicelib.domain.notifications.delivery import AppMessage
from chalicelib.domain.notifications.observer import LONGEST_USER
from chalicelib.domain.organizations.organization import inbox_of
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.log.appender import Appender

MESSAGE = ("inbox", "message")


class Inbox:
    """Writes messages; each delivery once, however often it is tried."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    def put(self, message: AppMessage) -> None:
        """Have the user find the message."""
        data = {
            "observer": message.observer,
            "subject": message.subject,
            "body": message.body,
            "event": message.event._asdict(),
        }
        event = NewEvent(type=MESSAGE, key=_key(message.user), payload=JsonPayload(type="json", data=data))
        key = message.delivery
        if len(key) > LONGEST_IDEMPOTENCY_KEY or not key.isascii():
            key = hashlib.sha256(key.encode()).hexdigest()
        append = Append(inbox_of(message.server), encoded([event]), secrets.token_urlsafe(9), idempotency_key=key)
        # It may have been told in other words: the template was edited between two tries.
        with suppress(KeyReused):
            self._appender.append(append)


def of_user(user: str) -> Selection:
    """The messages of a user."""
    if len(user) > LONGEST_USER:
        raise BadInput(f"a user's name has at most {LONGEST_USER} characters")
    return Selection(types=(MESSAGE,), keys=(_key(user),))


def message_text(event: Event) -> str:
    """A message as its reader gets it."""
    return to_json({"eventId": event.event_id, **event.stored.payload["data"]}).decode()


def _key(user: str) -> str:
    return f"/users/{user}"
