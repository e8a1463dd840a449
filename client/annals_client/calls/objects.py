"""Snapshots of objects."""

from urllib.parse import quote

from annals_client.sans_io import Request, RetryPolicy, Steps, fetch_json
from annals_client.values import Snapshot
from annals_client.wire import parse_snapshot


def snapshot(
    policy: RetryPolicy,
    collection: str,
    path: str = "",
    *,
    brief: bool = False,
    search: str | None = None,
    state: str | None = None,
    limit: int | None = None,
    at: int | None = None,
) -> Steps[Snapshot]:
    """The current state of objects. Follow after the `event_id` of the result to see later changes.

    `path` names one object, or all objects in `folder/`. Without it, all objects of the collection (`job`, `order`,
    `pushJob` …) are returned. `brief` returns a list with the latest change first; `search`, `state` and `limit` apply
    to such lists. `at` returns one object as of that `event_id`.
    """
    options = {"brief": "yes" if brief else None, "search": search, "state": state, "limit": limit, "at": at}
    parameters = [(name, str(value)) for name, value in options.items() if value is not None]
    object_path = quote(path.removeprefix("/"), safe="/,:*")
    route = f"/objects/{quote(collection, safe='')}" + (f"/{object_path}" if object_path else "")
    document = yield from fetch_json(policy, Request("GET", route, parameters))
    return parse_snapshot(document)
