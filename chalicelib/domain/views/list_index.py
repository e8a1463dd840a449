"""The list index: the objects of a collection in the order of their last change.

Each run of the projector appends an entry for each object that it changed, and marks the object's former entry as
replaced. Entries are numbered by ordinals. A leaf has 128 entries. Nodes summarize leaves and other nodes, so that
readers skip those without a selected object. The root counts the objects by state and by result.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple, Self

from pydantic_core import from_json, to_json

from chalicelib.domain.objects.list_filter import Facets, ListFilter
from chalicelib.domain.objects.summary import ObjectSummary, Result
from chalicelib.domain.views.record import Record

LEAF_BITS = 7
"""A leaf has 2**7 entries."""
NODE_BITS = 6
"""A node has at most 2**6 children."""
ROOT_ITEM = "root"
MAX_STATES_PER_SUMMARY = 12
"""A summary names the most frequent states. The others are counted together."""
MAX_COUNTED_STATES = 200
"""The root counts this many different states. Publishers choose them, so there may be more: they count as one."""
MAX_COUNTED_TYPES = 8
MAX_COUNTED_TYPE_LENGTH = 40
"""The root counts few types, with short names. It is written in each run, and only orders need these numbers."""
OTHERS = "…"
"""Counts the objects of all other states, or types."""

_TERM_BITS = 128


class Entry(NamedTuple):
    """An object after its last change in a run of the projector."""

    path: str
    session: int
    """The object's last change."""
    replaced: int
    """The session of the first change after the run, 0 if there is none."""
    state: str
    result: Result | None
    type: str | None
    node: str | None
    author: str | None

    @classmethod
    def from_summary(cls, session: int, summary: ObjectSummary) -> "Entry":
        facets = (summary.state, summary.result, summary.type, summary.node, summary.author)
        return cls(summary.path, session, 0, *facets)

    def is_current_at(self, session: int) -> bool:
        """Whether this is the object's last change up to `session`, which must be the end of a run."""
        return self.session <= session and not 0 < self.replaced <= session


Leaf = tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a leaf or a node contains."""

    first_session: int
    last_session: int
    last_replaced: int
    """The latest session in which an entry was replaced. The numbers of objects were higher before it."""
    other_states: int
    """Number of current objects in states that `states` does not name."""
    states: Mapping[str, int]
    """Number of current objects by state."""
    results: Mapping[str, int]
    """Number of current objects by result."""
    terms: int
    """A bit for each type, node and author of an entry. Several of them may share a bit."""

    @classmethod
    def of_entries(cls, entries: Sequence[Entry]) -> Self:
        current = [entry for entry in entries if not entry.replaced]
        terms = 0
        for facets in {(entry.type, entry.node, entry.author) for entry in entries}:
            terms |= _term_bits(*facets)
        states, other_states = _name_most_frequent(Counter(entry.state for entry in current))
        return cls(
            entries[0].session,
            entries[-1].session,
            max(entry.replaced for entry in entries),
            other_states,
            states,
            Counter(entry.result for entry in current if entry.result is not None),
            terms,
        )

    @classmethod
    def of_children(cls, children: Sequence["Summary"]) -> Self:
        states, results, terms = Counter[str](), Counter[str](), 0
        for child in children:
            states.update(child.states)
            results.update(child.results)
            terms |= child.terms
        named_states, other_states = _name_most_frequent(states)
        return cls(
            children[0].first_session,
            children[-1].last_session,
            max(child.last_replaced for child in children),
            other_states + sum(child.other_states for child in children),
            named_states,
            results,
            terms,
        )

    def may_contain(self, list_filter: ListFilter, session: int) -> bool:
        """False only if the filter selects none of the objects, as they were at the end of the run at `session`."""
        end = session if list_filter.to_session is None else min(session, list_filter.to_session)
        terms = _term_bits(list_filter.type, list_filter.node, list_filter.author)
        if self.first_session > end or self.last_session <= list_filter.after_session or terms & ~self.terms:
            return False
        if self.last_replaced > session:
            return True  # The numbers do not include objects that have changed since.
        has_result = list_filter.result is None or list_filter.result in self.results
        has_state = bool(self.states) if list_filter.state is None else list_filter.state in self.states
        return has_result and (has_state or bool(self.other_states))


Node = tuple[Summary, ...]


@dataclass(frozen=True, slots=True)
class Root:
    """The number of entries, and the number of objects by state, by result and by type."""

    size: int = 0
    states: Mapping[str, int] | None = None
    """Names stay when their number is 0, so that a state is always counted under the same name."""
    results: Mapping[str, int] | None = None
    types: Mapping[str, int] | None = None
    """None: the root was written by a version that did not count types."""
    greatest_number: int = 0
    """The greatest number that is the path of an object, including objects without a state."""
    version: int = 0

    @classmethod
    def from_record(cls, record: Record | None) -> Self:
        if record is None:
            return cls()
        data = from_json(record.data)
        return cls(data["n"], data["s"], data["r"], data.get("t"), data.get("m", 0), record.version)

    def to_record(self, view: str) -> Record:
        data: dict[str, Any] = {"n": self.size, "s": self.states or {}, "r": self.results or {}}
        if self.types is not None:
            data["t"] = self.types
        if self.greatest_number:
            data["m"] = self.greatest_number
        return Record(view, ROOT_ITEM, self.version, to_json(data).decode())

    def recount(self, added: Iterable[Facets], removed: Iterable[Facets]) -> Self:
        """The root with other numbers of objects."""
        states, results = dict(self.states or {}), dict(self.results or {})
        is_new = self.states is None
        types = {} if is_new else None if self.types is None else dict(self.types)
        for sign, objects in ((1, added), (-1, removed)):
            for facets in objects:
                is_named = facets.state in states or len(states) < MAX_COUNTED_STATES
                name = facets.state if is_named else OTHERS
                states[name] = states.get(name, 0) + sign
                if facets.result is not None:
                    results[facets.result] = results.get(facets.result, 0) + sign
                if types is not None and facets.type is not None:
                    name = _counted_type(facets.type, types)
                    types[name] = types.get(name, 0) + sign
        return replace(self, states=states, results=results, types=types)

    @property
    def object_count(self) -> int:
        return sum((self.states or {}).values())

    @property
    def height(self) -> int:
        """The level of the highest node. Leaves have level 0."""
        last, level = max(self.size - 1, 0) >> LEAF_BITS, 1
        while last >> (NODE_BITS * level):
            level += 1
        return level


def item_name(level: int, index: int) -> str:
    """The item of a node, or of a leaf, which has level 0."""
    return f"{level}.{index:011d}"


def encode_leaf(leaf: Leaf) -> str:
    return to_json(leaf).decode()


def decode_leaf(record: Record) -> Leaf:
    return tuple(map(Entry._make, from_json(record.data)))


def select_entries(record: Record, list_filter: ListFilter, session: int) -> list[tuple[int, Entry]]:
    """The selected entries of a leaf that are current at `session`, the end of a run, each with its place.

    Searches for rare objects read many leaves. So a leaf is only parsed if its text contains the facets and a
    prefix, and entries are only created from selected rows.
    """
    facets = (list_filter.state, list_filter.result, list_filter.type, list_filter.node, list_filter.author)
    if not all(text in record.data for text in _adjacent_facets(facets)):
        return []
    prefixes = list_filter.path_prefixes
    if prefixes and not any(text in record.data for text in _json_prefixes(prefixes)):
        return []
    rows: list[tuple[int, list[Any]]] = list(enumerate(from_json(record.data)))
    if prefixes:
        rows = [(place, row) for place, row in rows if row[0].startswith(prefixes)]
    for name in ("state", "result", "type", "node", "author"):
        value, column = getattr(list_filter, name), Entry._fields.index(name)
        if value is not None:
            rows = [(place, row) for place, row in rows if row[column] == value]
    entries = [(place, Entry._make(row)) for place, row in rows]
    return [
        (place, entry)
        for place, entry in entries
        if entry.is_current_at(session) and list_filter.selects_facets(entry.session, entry)
    ]


def encode_node(node: Node) -> str:
    members = (
        (s.first_session, s.last_session, s.last_replaced, s.other_states, s.states, s.results, f"{s.terms:x}")
        for s in node
    )
    return to_json(list(members)).decode()


def decode_node(record: Record) -> Node:
    return tuple(
        Summary(first, last, replaced, others, states, results, int(terms, 16))
        for first, last, replaced, others, states, results, terms in from_json(record.data)
    )


def first_ordinal(level: int, index: int) -> int:
    """The first ordinal of the entries below a node, or in a leaf."""
    return index << (LEAF_BITS + NODE_BITS * level)


def leaf_position(ordinal: int) -> tuple[int, int]:
    """The leaf of an entry, and the place of the entry in the leaf."""
    return divmod(ordinal, 1 << LEAF_BITS)


def parent(index: int) -> int:
    """The index of the node above a node or leaf."""
    return index >> NODE_BITS


def children(level: int, index: int, size: int) -> range:
    """The indexes of all nodes or leaves directly below a node, in a list of `size` entries."""
    last = (size - 1) >> (LEAF_BITS + NODE_BITS * (level - 1))
    return range(index << NODE_BITS, min((index + 1) << NODE_BITS, last + 1))


def replace_entries(leaf: Leaf, first: int, replaced: Mapping[int, int], added: Iterable[Entry]) -> Leaf:
    """The leaf, whose first ordinal is `first`, after a run. `replaced` has sessions by ordinal."""
    entries = (
        entry._replace(replaced=replaced[ordinal]) if ordinal in replaced else entry
        for ordinal, entry in enumerate(leaf, start=first)
    )
    return (*entries, *added)


@lru_cache(maxsize=256)
def _adjacent_facets(facets: tuple[str | None, ...]) -> tuple[str, ...]:
    """The JSON of each run of facets that follow one another in a row. None separates runs."""
    groups = groupby(facets, key=lambda value: value is not None)
    return tuple(to_json(list(group)).decode()[1:-1] for is_given, group in groups if is_given)


@lru_cache(maxsize=256)
def _json_prefixes(prefixes: tuple[str, ...]) -> tuple[str, ...]:
    """How the JSON of a text begins that has one of the prefixes."""
    return tuple(to_json(prefix).decode()[:-1] for prefix in prefixes)


def _counted_type(name: str, types: Mapping[str, int]) -> str:
    has_room = len(types) < MAX_COUNTED_TYPES and len(name) <= MAX_COUNTED_TYPE_LENGTH
    return name if name in types or has_room else OTHERS


def _name_most_frequent(counts: Mapping[str, int]) -> tuple[Mapping[str, int], int]:
    """The numbers of the most frequent states, and the number of objects in other states."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return dict(sorted(ordered[:MAX_STATES_PER_SUMMARY])), sum(n for _, n in ordered[MAX_STATES_PER_SUMMARY:])


@lru_cache(maxsize=4096)
def _term_bits(object_type: str | None, node: str | None, author: str | None) -> int:
    bits = 0
    for kind, name in (("t", object_type), ("n", node), ("a", author)):
        if name is not None:
            bits |= 1 << zlib.crc32(f"{kind}{name}".encode()) % _TERM_BITS
    return bits
