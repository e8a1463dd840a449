"""Path queries: which paths a pattern matches."""

import pytest

from chalicelib.domain.objects.path_query import PathQuery


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a", "/a", True),
        ("/a", "/a/", False),
        ("/a", "/a/b", False),
        ("/a/", "/a/b", True),
        ("/a/", "/a/b/c", True),
        ("/a/", "/a/", False),
        ("/a/", "/a", False),
        ("/a/", "/ab", False),
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/a/*", "/a/", False),
        ("/", "/a", True),
        ("/", "/a/b", True),
        ("/", "/", False),
    ],
)
def test_path_query_matches_objects_but_not_the_folder(pattern: str, path: str, matches: bool) -> None:
    assert PathQuery.parse(pattern).matches(path) is matches
