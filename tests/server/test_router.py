"""The router: from a path to its route."""

import pytest

from infra.server.gateway.router import Route, Router

PATTERNS = [
    "/events",
    "/events/{vocabulary}",
    "/events/server",
    "/objects/{collection}/{path+}",
    "/objects/{collection}",
    "/observers/{name}/replay",
    "/a.b/{c}",
]


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/events", Route("/events", {})),
        ("/events/server", Route("/events/server", {})),
        ("/events/job", Route("/events/{vocabulary}", {"vocabulary": "job"})),
        ("/events/a%2Fb", Route("/events/{vocabulary}", {"vocabulary": "a/b"})),
        ("/events/", None),
        ("/objects/order/", Route("/objects/{collection}", {"collection": "order"})),
        ("/objects/order//", Route("/objects/{collection}/{path+}", {"collection": "order", "path": "/"})),
        ("/events//", None),
        ("/observers/x/replay/", None),
        ("/" * 5_000, None),
        ("/events/a/b", None),
        ("/Events", None),
        ("events", None),
        ("", None),
        ("/objects/order", Route("/objects/{collection}", {"collection": "order"})),
        ("/objects/order/a/b%20c", Route("/objects/{collection}/{path+}", {"collection": "order", "path": "a/b c"})),
        ("/objects/order/a/", Route("/objects/{collection}/{path+}", {"collection": "order", "path": "a/"})),
        ("/observers/x/replay", Route("/observers/{name}/replay", {"name": "x"})),
        ("/observers/x/y/replay", None),
        ("/a.b/c", Route("/a.b/{c}", {"c": "c"})),
        ("/axb/c", None),
    ],
)
def test_find_returns_the_matching_route(path: str, route: Route | None) -> None:
    assert Router(PATTERNS).find(path) == route
