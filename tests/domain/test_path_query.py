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


@pytest.mark.parametrize(
    ("paths", "everything"), [(["/"], True), (["/a", "/"], True), (["/a/"], False), (["/a", "/b"], False)]
)
def test_path_query_matches_everything_if_one_path_does(paths: list[str], everything: bool) -> None:
    assert PathQuery.parse(*paths).matches_everything == everything
