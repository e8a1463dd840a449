"""Events about deliveries that failed: `notification/failed/<channel>/<observer>` in the organization's log.

The event is written before the delivery is parked. If the process ends in between, the delivery is attempted again, and
the event is written once, because it has an idempotency key. So no parked delivery lacks its event.
"""

import hashlib
import logging
import re
from collections.abc import Callable
from typing import Any

from chalicelib.domain.errors import KeyReused, Refused
from chalicelib.domain.events.event import JsonPayload, NewEvent
from chalicelib.domain.log.append import MAX_IDEMPOTENCY_KEY_LENGTH
from chalicelib.domain.notifications.delivery import Delivery, Tries
from chalicelib.domain.notifications.observer import NOTIFICATION_FAILED, Observer, observer_key
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.notifications.attempt import UNKNOWN_CHANNEL
from chalicelib.services.notifications.registry import ObserverRegistry
from chalicelib.services.ports import Log

MAX_ERROR_CHARS = 300

_log = logging.getLogger("annals")

ReportFailure = Callable[[Delivery, int, Tries, str], None]
"""Reports that a delivery is about to be parked: its retry, its tries, and the last error.

The retry is a number that differs each time that a user retries the delivery.
"""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_HIDDEN = "…"


def ignore_failure(delivery: Delivery, retry: int, tries: Tries, error: str) -> None:
    """A `ReportFailure` that reports nothing."""
    del delivery, retry, tries, error


class FailureEvents:
    """Writes the events. Threads may share it."""

    def __init__(self, observers: ObserverRegistry, log: Log, publisher: Publisher) -> None:
        self._observers = observers
        self._log = log
        self._publisher = publisher

    def report(self, delivery: Delivery, retry: int, tries: Tries, error: str) -> None:
        """Write the event, unless the delivery is about such an event. A repeat writes nothing."""
        if self._is_about_failure(delivery):
            return
        observer = self._observers.load(delivery.server).observers.get(delivery.observer)
        event = _failed_event(delivery, observer, tries, error)
        try:
            self._publisher.publish(delivery.server, [event], idempotency_key=_idempotency_key(delivery, retry))
        except KeyReused:
            pass  # An earlier try, before the process ended, wrote the event with another error.
        except Refused as refusal:
            # It would be refused again. The delivery must be parked nevertheless.
            _log.error("the event about delivery %s, which failed, was refused: %s", delivery.id, refusal)

    def _is_about_failure(self, delivery: Delivery) -> bool:
        commit = self._log.commit(delivery.server, delivery.event.session)
        if commit is None:
            # The event has expired. Its key shows whether it can be such an event.
            return delivery.key.startswith(observer_key(""))
        return commit.events[delivery.event.instance - 1].fields.type[:2] == NOTIFICATION_FAILED


def _failed_event(delivery: Delivery, observer: Observer | None, tries: Tries, error: str) -> NewEvent:
    channel = UNKNOWN_CHANNEL if observer is None else observer.configuration.channel
    data: dict[str, Any] = {
        "observer": delivery.observer,
        "channel": channel,
        "event": delivery.event._asdict(),
        "error": _public_error(delivery, observer, error),
        "tries": tries.count,
    }
    if _has_public_address(delivery, observer):
        data["address"] = delivery.address
    return NewEvent(
        type=(*NOTIFICATION_FAILED, channel, delivery.observer),
        key=observer_key(delivery.observer),
        payload=JsonPayload(type="json", data=data),
    )


def _has_public_address(delivery: Delivery, observer: Observer | None) -> bool:
    """Whether all readers may see the address: it is that of a mail or a user, and the observer is not private."""
    if observer is None or observer.is_private or not delivery.address:
        return False
    return observer.configuration.channel in ("mail", "app") and "://" not in delivery.address


def _public_error(delivery: Delivery, observer: Observer | None, error: str) -> str:
    """The error without URLs and secrets, because all readers see the event."""
    text = _URL.sub(_HIDDEN, error.encode(errors="replace").decode())
    secrets = [str(observer.configuration.config.get("secret") or "")] if observer is not None else []
    if not _has_public_address(delivery, observer):
        secrets.append(delivery.address)
    for secret in filter(None, secrets):
        text = text.replace(secret, _HIDDEN)
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 1]}…"


def _idempotency_key(delivery: Delivery, retry: int) -> str:
    key = f"failed/{delivery.id}/{retry}"
    if len(key) > MAX_IDEMPOTENCY_KEY_LENGTH or not key.isascii():
        return hashlib.sha256(key.encode()).hexdigest()
    return key
