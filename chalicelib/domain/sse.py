"""Server-sent events as text. Every event ends with a blank line; comments and `retry` need none.

A blank line of its own would be an event without data for some clients, so there is never one.
"""

KEEPALIVE = ":keepalive\n"
RETRY_MS = 1_000
RETRY = f"retry: {RETRY_MS}\n"
"""How soon to come back after an answer that has to end."""


def frame(event_id: int | str, data: str, name: str | None = None) -> str:
    """One event; `data` is one line. Without a name it is what EventSource calls a message."""
    event = "" if name is None else f"event: {name}\n"
    return f"{event}id: {event_id}\ndata: {data}\n\n"


def position(event_id: int | str) -> str:
    """No event, but from where to go on: a client that comes back says so in `Last-Event-ID`."""
    return f"id: {event_id}\n\n"
