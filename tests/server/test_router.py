"""Routes: from a path to its pattern."""

import pytest

from infra.server.gateway.router import Found, Routes

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
    ("path", "found"),
    [
        ("/events", Found("/events", {})),
        ("/events/server", Found("/events/server", {})),
        ("/events/job", Found("/events/{vocabulary}", {"vocabulary": "job"})),
        ("/events/a%2Fb", Found("/events/{vocabulary}", {"vocabulary": "a/b"})),
        ("/events/", None),
        ("/objects/order/", Found("/objects/{collection}", {"collection": "order"})),
        ("/objects/order//", Found("/objects/{collection}/{path+}", {"collection": "order", "path": "/"})),
        ("/events//", None),
        ("/observers/x/replay/", None),
        ("/" * 5_000, None),
        ("/events/a/b", None),
        ("/Events", None),
        ("events", None),
        ("", None),
        ("/objects/order", Found("/objects/{collection}", {"collection": "order"})),
        ("/objects/order/a/b%20c", Found("/objects/{collection}/{path+}", {"collection": "order", "path": "a/b c"})),
        ("/objects/order/a/", Found("/objects/{collection}/{path+}", {"collection": "order", "path": "a/"})),
        ("/observers/x/replay", Found("/observers/{name}/replay", {"name": "x"})),
        ("/observers/x/y/replay", None),
        ("/a.b/c", Found("/a.b/{c}", {"c": "c"})),
        ("/axb/c", None),
    ],
)
def test_a_path_finds_its_pattern(path: str, found: Found | None) -> None:
    assert Routes(PATTERNS).find(path) == found
