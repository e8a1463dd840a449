"""The inbox of a user: messages, and which of them are read."""

from typing import cast
from urllib.parse import quote

from annals_client.sans_io import Request, RetryPolicy, Steps, fetch_json
from annals_client.values import InboxMessage, InboxStatus


def newest(policy: RetryPolicy, user: str, limit: int = 50) -> Steps[tuple[InboxMessage, ...]]:
    """The newest messages, the newest first."""
    query = [("limit", str(-limit))]
    document = yield from fetch_json(policy, Request("GET", _path(user), query))
    return tuple(document.get("eventSnapshots", ()))


def unread(policy: RetryPolicy, user: str) -> Steps[InboxStatus]:
    """The number of unread messages, and the position up to which messages are read."""
    document = yield from fetch_json(policy, Request("GET", _path(user, "/unread")))
    return cast(InboxStatus, document)


def mark_read(policy: RetryPolicy, user: str, event_id: int) -> Steps[InboxStatus]:
    """Mark the messages up to one as read, given its `eventId`. A mark never moves back."""
    document = yield from fetch_json(policy, Request("POST", _path(user, "/read"), body={"eventId": event_id}))
    return cast(InboxStatus, document)


def _path(user: str, suffix: str = "") -> str:
    return f"/users/{quote(user, safe='')}/inbox{suffix}"
