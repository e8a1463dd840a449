"""Snapshots of objects, and the types of jobs."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote

from annals_client.errors import BadRequest
from annals_client.sans_io import Emit, Request, RetryPolicy, Steps, Values, fetch_json
from annals_client.values import Snapshot
from annals_client.wire import format_time, parse_snapshot

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
    type: str | None = None,  # noqa: A002  (the name of the parameter in the API)
    node: str | None = None,
    author: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    q: str | None = None,
    limit: int | None = None,
    at: int | None = None,
) -> Steps[Snapshot]:
    """The current state of objects. Follow after the `event_id` of the result to see later changes.

    `path` names one object, or all objects in `folder/`. Without it, all objects of the collection (`job`, `order`,
    `pushJob` …) are returned. They are read in pages, all as of the same `event_id`. `brief` returns a list with the
    latest change first, at most 1,000 objects unless `limit` is given. The filters from `search` to `q` apply to such
    lists: `result` is `success`, `failure` or `timeout`, `since` and `until` limit the time of the last change, and `q`
    has words. `limit` is the maximum number of objects. `at` returns one object as of that `event_id`.

    With retention, the server may be unable to continue a snapshot in pages, because an old object has changed. The
    snapshot then starts again, up to 5 times in total.
    """
    object_path = quote(path.removeprefix("/"), safe="/,:*")
    route = f"/objects/{quote(collection, safe='')}" + (f"/{object_path}" if object_path else "")
    options: dict[str, object] = {"brief": "yes" if brief else None, "search": search, "state": state, "result": result}
    options |= {"type": type, "node": node, "author": author, "q": q, "at": at}
    options |= {name: format_time(time) for name, time in (("since", since), ("until", until)) if time is not None}
    if at is not None or (brief and limit is None):
        options |= {"limit": limit}
        document = yield from fetch_json(policy, Request("GET", route, _parameters(options)))
        return parse_snapshot(document)
    counts: Mapping[str, int] = {}
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
        counts = page.counts if options.get("cursor") is None else counts
        objects += page.objects
        options["cursor"] = document.get("cursor")
        is_full = limit is not None and len(objects) >= limit
        if options["cursor"] is None or is_full:
            more_follows = page.more_follows or options["cursor"] is not None
            return replace(page, objects=tuple(objects), counts=counts, more_follows=more_follows)


def job_types(
    policy: RetryPolicy, *, search: str | None = None, state: str | None = None, result: str | None = None
) -> Values[Mapping[str, Any]]:
    """Iterate over the types of the jobs, ordered by name, with statistics of the last 30 days.

    `state` is `running` or `idle`, `result` that of the last run: `success`, `failure` or `timeout`.
    """
    cursor: str | None = None
    while True:
        options: dict[str, object] = {"search": search, "state": state, "result": result, "cursor": cursor}
        document = yield from fetch_json(policy, Request("GET", "/job-types", _parameters(options)))
        for job_type in document["jobTypes"]:
            yield Emit(job_type)
        cursor = document["cursor"]
        if cursor is None:
            return


def job_type(policy: RetryPolicy, name: str) -> Steps[Mapping[str, Any]]:
    """A type of jobs: its open runs, its last runs, and statistics of the last 30 days."""
    document = yield from fetch_json(policy, Request("GET", f"/job-types/{quote(name, safe='')}"))
    return cast(Mapping[str, Any], document)


def _parameters(options: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in options.items() if value is not None]
