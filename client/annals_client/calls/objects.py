"""Snapshots of what events are about."""

from urllib.parse import quote

from annals_client.sans_io import Manners, Request, Steps, told
from annals_client.values import Snapshot
from annals_client.wire import snapshot_of


def snapshot(
    manners: Manners,
    collection: str,
    path: str = "",
    *,
    brief: bool = False,
    search: str | None = None,
    state: str | None = None,
    limit: int | None = None,
    at: int | None = None,
) -> Steps[Snapshot]:
    """Objects exactly as they are at the answer's `event_id`; follow after it to see what changes.

    `path` is that of one object, or `folder/` for all below it; without it, all of the collection (`job`, `order`,
    `pushJob` …). `brief` lists them, the latest change first; `search`, `state` and `limit` are for such lists. `at`
    asks for one object as it was right after that `event_id`.
    """
    named = {"brief": "yes" if brief else None, "search": search, "state": state, "limit": limit, "at": at}
    parameters = [(name, str(value)) for name, value in named.items() if value is not None]
    place = quote(path.removeprefix("/"), safe="/,:*")
    route = f"/objects/{quote(collection, safe='')}" + (f"/{place}" if place else "")
    said = yield from told(manners, Request("GET", route, parameters))
    return snapshot_of(said)
