"""Entries of the list index that a filter selects."""

from hypothesis import given
from hypothesis import strategies as st

from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.summary import Result
from chalicelib.domain.views.list_index import Entry, Root, encode_leaf, select_entries
from chalicelib.domain.views.record import Record

TEXTS = st.sampled_from(["a", "b", '"', "\\", "],[", 'a","b', "ä", "\u2028", ""])
OPTIONAL_TEXTS = st.none() | TEXTS
RESULTS: st.SearchStrategy[Result | None] = st.sampled_from(["success", "failure", None])
FACETS = (TEXTS, RESULTS, OPTIONAL_TEXTS, OPTIONAL_TEXTS, OPTIONAL_TEXTS)
ENTRIES = st.builds(Entry, TEXTS, st.integers(1, 9), st.just(0), *FACETS)
FILTERS = st.builds(ListFilter, OPTIONAL_TEXTS, RESULTS, OPTIONAL_TEXTS, OPTIONAL_TEXTS, OPTIONAL_TEXTS)


@given(st.lists(ENTRIES, max_size=8).map(tuple), FILTERS)
def test_select_entries_selects_equal_facets(leaf: tuple[Entry, ...], list_filter: ListFilter) -> None:
    record = Record("view", "0.0", 9, encode_leaf(leaf))
    expected = [(place, entry) for place, entry in enumerate(leaf) if list_filter.selects_facets(1, entry)]
    assert select_entries(record, list_filter, 9) == expected


def entry(object_type: str) -> Entry:
    return Entry("/1", 1, 0, "created", None, object_type, None, None)


def test_root_counts_few_types_by_name() -> None:
    names = [str(number) for number in range(8)]
    root = Root().recount(map(entry, [*names, "8", "9", "x" * 41, "0"]), map(entry, ["9", "1"]))
    assert root.types == {**dict.fromkeys(names, 1), "0": 2, "1": 0, "…": 2}


def test_root_without_counted_types_stays_without() -> None:
    """An earlier version wrote it. Counts that begin later would be wrong."""
    stored = Record("view", "root", 1, '{"n":1,"s":{"created":1},"r":{}}')
    root = Root.from_record(stored).recount([entry("a")], [])
    assert (root.types, root.states, '"t"' in root.to_record("view").data) == (None, {"created": 2}, False)
