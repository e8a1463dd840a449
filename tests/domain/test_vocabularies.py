"""Rules that hold for the collections of all vocabularies, and for unknown ones."""

import pytest

from chalicelib.domain import vocabularies
from chalicelib.domain.objects.ref import ObjectRef


@pytest.mark.parametrize(
    ("collection", "path", "unique"),
    [("job", "/1", True), ("order", "/chain,1", True), ("unknown", "/a", True), ("task", "/a:1", False)],
)
def test_is_unique_only_if_no_other_object_can_match(collection: str, path: str, unique: bool) -> None:
    """A query for unique objects reads their sessions only, others search the whole log."""
    assert vocabularies.is_unique(ObjectRef(collection, path)) == unique


@pytest.mark.parametrize("collection", ["job", "order", "unknown"])
@pytest.mark.parametrize("path", ["/", "/a/", "/a/*"])
def test_is_unique_folder_is_never_unique(collection: str, path: str) -> None:
    assert not vocabularies.is_unique(ObjectRef(collection, path))


@pytest.mark.parametrize(
    ("key", "refs"),
    [
        ("Job:/a", [("fileBased", "/a:Job")]),
        ("/a:7", [(collection, "/a:7") for collection in ("order", "schedulerJob", "jobChain", "task")]),
    ],
)
def test_key_with_colon_is_a_file_only_after_its_kind(key: str, refs: list[tuple[str, str]]) -> None:
    found = vocabularies.SCHEDULER_VOCABULARY.objects_with_key(key)
    assert sorted((ref.collection, ref.path) for ref in found) == sorted(refs)
