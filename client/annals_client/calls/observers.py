"""Observers: configure them, see what failed, try again, tell again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote

from annals_client.errors import NotFound
from annals_client.sans_io import Give, Manners, Request, Steps, Values, told
from annals_client.values import Failure, Observer, Replayed
from annals_client.wire import replayed_of, several, time_text

PAGE = 1000
"""The most failures that one answer has."""


def observers(manners: Manners) -> Steps[tuple[Observer, ...]]:
    """The observers that you may see: admins all, others their own."""
    said = yield from told(manners, Request("GET", "/observers"))
    return tuple(said["observers"])


def get(manners: Manners, name: str) -> Steps[Observer]:
    """One observer, with what becomes of its deliveries."""
    said = yield from told(manners, Request("GET", _path(name)))
    return cast(Observer, said)


def put(manners: Manners, name: str, configuration: Mapping[str, Any]) -> Steps[Observer]:
    """Configure an observer, a new one or one that there is."""
    said = yield from told(manners, Request("PUT", _path(name), body=dict(configuration)))
    return cast(Observer, said)


def delete(manners: Manners, name: str) -> Steps[None]:
    """End an observer."""
    try:
        yield from told(manners, Request("DELETE", _path(name)))
    except NotFound as gone:
        # Asked twice it may have been us, the first time.
        if gone.tries == 1:
            raise


def failures(manners: Manners, name: str, *, page: int = PAGE) -> Values[Failure]:
    """Deliveries that nobody tries any more, and why; all of them."""
    last: str | None = None
    while True:
        position = [] if last is None else [("after", last)]
        request = Request("GET", _path(name, "/failures"), [("limit", str(page)), *position])
        said = yield from told(manners, request)
        found: list[Failure] = said["failures"]
        for failure in found:
            yield Give(failure)
        if len(found) < page:
            return
        last = found[-1]["id"]


def retry(manners: Manners, name: str, ids: Sequence[str] | None = None) -> Steps[int]:
    """Try failed deliveries again, those named or all; how many."""
    body = {} if ids is None else {"ids": several(ids)}
    said = yield from told(manners, Request("POST", _path(name, "/retry"), body=body))
    retried: int = said["retried"]
    return retried


def replay(
    manners: Manners,
    name: str,
    *,
    after: int | None = None,
    since: datetime | None = None,
    until: int | None = None,
) -> Values[Replayed]:
    """Tell an observer again what came after a position, or since a time; gives how far it has come, part by part.

    The parts share a name, made here, so a part whose answer is lost can be asked for again and doubles nothing. It
    goes on only as long as you iterate.
    """
    body: dict[str, Any] = {"replay": manners.new_key()}
    body |= {"since": time_text(since)} if since is not None else {"after": after or 0}
    body |= {} if until is None else {"until": until}
    deliveries = 0
    while True:
        said = yield from told(manners, Request("POST", _path(name, "/replay"), body=body))
        part = replayed_of(said, deliveries)
        yield Give(part)
        if part.is_done:
            return
        deliveries = part.deliveries
        body = {"replay": part.replay, "after": part.event_id, "until": part.until}


def _path(name: str, below: str = "") -> str:
    return f"/observers/{quote(name, safe='')}{below}"
