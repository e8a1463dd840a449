"""Silences and acknowledgements: while they last, events cause no notifications."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from annals_client.errors import NotFound
from annals_client.sans_io import Request, RetryPolicy, Steps, fetch_json
from annals_client.values import Mute
from annals_client.wire import format_time

MAX_PAGE = 1000
"""Maximum number of silences or acknowledgements per response."""


def silence(
    policy: RetryPolicy,
    type: str | None = None,  # noqa: A002  (the name of the field)
    *,
    pattern: str | Sequence[str] | None = None,
    until: datetime,
    comment: str = "",
) -> Steps[Mute]:
    """Mute the events of a job type, or of a pattern of event types, for all observers until a time."""
    what: dict[str, Any] = {"type": type} if pattern is None else {"pattern": pattern}
    body = {**what, "until": format_time(until), "comment": comment}
    document = yield from fetch_json(policy, Request("POST", "/silences", body=body))
    return cast(Mute, document)


def silences(policy: RetryPolicy) -> Steps[tuple[Mute, ...]]:
    """The silences in effect, the newest first."""
    return (yield from _list(policy, "silences"))


def end_silence(policy: RetryPolicy, id: int) -> Steps[None]:  # noqa: A002  (the name of the field)
    """End a silence before its time."""
    try:
        yield from fetch_json(policy, Request("DELETE", f"/silences/{id}"))
    except NotFound as error:
        # After a retry, the first attempt may have ended it.
        if error.tries == 1:
            raise


def acknowledge(
    policy: RetryPolicy,
    type: str,  # noqa: A002  (the name of the field)
    *,
    until: datetime | None = None,
    comment: str = "",
) -> Steps[Mute]:
    """Mute the failures of a job type until it recovers, or until a time."""
    end = {} if until is None else {"until": format_time(until)}
    body = {"type": type, **end, "comment": comment}
    document = yield from fetch_json(policy, Request("POST", "/acknowledgements", body=body))
    return cast(Mute, document)


def acknowledgements(policy: RetryPolicy) -> Steps[tuple[Mute, ...]]:
    """The acknowledgements in effect, the newest first."""
    return (yield from _list(policy, "acknowledgements"))


def _list(policy: RetryPolicy, name: str) -> Steps[tuple[Mute, ...]]:
    found: list[Mute] = []
    more = True
    while more:
        position = [("before", str(found[-1]["id"]))] if found else []
        document = yield from fetch_json(policy, Request("GET", f"/{name}", [("limit", str(MAX_PAGE)), *position]))
        found += document[name]
        more = document["moreFollows"]
    return tuple(found)
