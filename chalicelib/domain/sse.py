"""Server-sent events as text.

Every event ends with a blank line. Comments and `retry` have none, because some clients take a blank line on its own
for an event without data.
"""

KEEPALIVE = ":keepalive\n"
RETRY_MS = 1_000
RETRY = f"retry: {RETRY_MS}\n"
"""Sets the delay before the client reconnects after the response has ended."""


def format_event(event_id: int | str, data: str, name: str | None = None) -> str:
    """`data` must be a single line. An event without a name is a `message` for EventSource."""
    event = "" if name is None else f"event: {name}\n"
    return f"{event}id: {event_id}\ndata: {data}\n\n"


def format_position(event_id: int | str) -> str:
    """Set the client's `Last-Event-ID` without sending an event."""
    return f"id: {event_id}\n\n"
