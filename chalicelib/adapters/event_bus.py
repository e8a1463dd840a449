"""Puts events on buses of Amazon EventBridge."""

from collections.abc import Callable, Sequence
from functools import cached_property

from chalicelib.adapters.aws.protocol import ServiceClient, ServiceError
from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable
from chalicelib.domain.notifications.delivery import BusEvent

SOURCE = "annals"

_PERMANENT_ERRORS = {
    "InvalidArgument",
    "InvalidParameterValue",
    "MalformedDetail",
    "ResourceNotFoundException",
    "ValidationError",
    "ValidationException",
}
"""Error codes about the event or its bus. All others are about the account or temporary: retry."""
_RATE_LIMIT_ERRORS = {"LimitExceededException", "Throttling", "ThrottlingException", "TooManyRequestsException"}


def find_bus(bus: str, allowed: Sequence[str]) -> str:
    """The ARN of the allowed bus with this name or ARN. Raises `ValueError` if it is not allowed."""
    found = [arn for arn in allowed if bus in (arn, arn.partition(":event-bus/")[2])]
    if len(found) != 1:
        reason = "is the name of several allowed event buses; use the ARN" if found else "is not an allowed event bus"
        raise ValueError(f"config.bus: '{shorten_reason(bus)}' {reason} (EVENT_BUSES, the parameter EventBuses)")
    return found[0]


class EventBus:
    """Puts each event with one call. Threads may share it.

    EventBridge may receive an event twice, if its response is lost. The detail has the same id then.
    """

    def __init__(self, connect: Callable[[], ServiceClient], allowed: Sequence[str]) -> None:
        """`connect` is called at the first use. `allowed` are the ARNs of buses."""
        self._connect = connect
        self._allowed = allowed

    def put(self, event: BusEvent) -> None:
        """Raises `NotDelivered`, `RateLimited`, or `Undeliverable` if EventBridge rejects the event itself."""
        try:
            bus = find_bus(event.bus, self._allowed)
        except ValueError as error:
            raise Undeliverable(str(error)) from error
        entry = {
            "Source": SOURCE,
            "DetailType": event.detail_type,
            "Detail": event.json,
            "EventBusName": bus,
            "Time": event.at_us // 1_000_000,
        }
        try:
            result = self._client.call("PutEvents", {"Entries": [entry]})
        except ServiceError as error:
            raise _delivery_error(error.code, str(error)) from error
        for failed in result.get("Entries", ()):
            if code := failed.get("ErrorCode"):
                raise _delivery_error(code, f"{code}: {failed.get('ErrorMessage', '')}")

    @cached_property
    def _client(self) -> ServiceClient:
        return self._connect()


def _delivery_error(code: str, text: str) -> NotDelivered:
    reason = f"EventBridge rejected the event: {shorten_reason(text)}"
    if code in _PERMANENT_ERRORS:
        return Undeliverable(reason)
    return RateLimited(reason) if code in _RATE_LIMIT_ERRORS else NotDelivered(reason)
