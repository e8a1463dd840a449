"""Snapshots of objects."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from annals_client.errors import BadRequest
from annals_client.sans_io import Request, RetryPolicy, Steps, fetch_json
from annals_client.values import Snapshot
from annals_client.wire import parse_snapshot

MAX_PAGE = 5000
"""Maximum number of objects per response."""
MAX_STARTS = 5
"""How often a snapshot in pages is started, if the server cannot continue it."""


def snapshot(
    policy: RetryPolicy,
    collection: str,
    path: str = "",
    *,
    brief: bool = False,
    search: str | None = None,
    state: str | None = None,
    result: str | None = None,
    limit: int | None = None,
    at: int | None = None,
) -> Steps[Snapshot]:
    """The current state of objects. Follow after the `event_id` of the result to see later changes.

    `path` names one object, or all objects in `folder/`. Without it, all objects of the collection (`job`, `order`,
    `pushJob` …) are returned. They are read in pages, all as of the same `event_id`. `brief` returns a list with the
    latest change first; `search`, `state` and `result` (`success` or `failure`) apply to such lists. `limit` is the
    maximum number of objects. `at` returns one object as of that `event_id`.

    With retention, the server may be unable to continue a snapshot in pages, because an old object has changed. The
    snapshot then starts again, up to 5 times in total.
    """
    object_path = quote(path.removeprefix("/"), safe="/,:*")
    route = f"/objects/{quote(collection, safe='')}" + (f"/{object_path}" if object_path else "")
    if brief or at is not None:
        filters = {"search": search, "state": state, "result": result}
        options = {"brief": "yes" if brief else None, **filters, "limit": limit, "at": at}
        document = yield from fetch_json(policy, Request("GET", route, _parameters(options)))
        return parse_snapshot(document)
    options = {"search": search, "state": state, "result": result}
    objects: list[Mapping[str, Any]] = []
    starts = 1
    while True:
        options |= {"limit": MAX_PAGE if limit is None else min(limit - len(objects), MAX_PAGE)}
        try:
            document = yield from fetch_json(policy, Request("GET", route, _parameters(options)))
        except BadRequest as refusal:
            if options.get("cursor") is None:
                raise
            if starts == MAX_STARTS:
                detail = f"the snapshot was started {starts} times and never completed: {refusal.detail}"
                raise BadRequest(refusal.status, detail) from refusal
            starts += 1
            options["cursor"] = None
            objects.clear()
            continue
        page = parse_snapshot(document)
        objects += page.objects
        options["cursor"] = document.get("cursor")
        is_full = limit is not None and len(objects) >= limit
        if options["cursor"] is None or is_full:
            return replace(page, objects=tuple(objects), more_follows=options["cursor"] is not None)


def _parameters(options: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in options.items() if value is not None]
