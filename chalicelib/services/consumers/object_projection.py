"""Projects a run of commits into objects and their lists.

The records are written in this order: objects, leaves, nodes, root. Each record is a function of the commits and of
records written before it, so a run that is repeated, from any point, writes the same records. Readers see an unfinished
run: they ignore entries after their checkpoint, and treat entries replaced after it as current.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.ref import KEYED, TAGGED, ObjectRef, number_in_path
from chalicelib.domain.views.excerpt import Excerpt, make_excerpt
from chalicelib.domain.views.list_changes import (
    ListChange,
    Run,
    RunOutdated,
    fold_objects,
    list_changes,
    place_objects,
)
from chalicelib.domain.views.list_index import (
    ROOT_ITEM,
    Leaf,
    Node,
    Root,
    Summary,
    children,
    decode_leaf,
    decode_node,
    encode_leaf,
    encode_node,
    first_ordinal,
    item_name,
    leaf_position,
    parent,
    replace_entries,
)
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.projection import group_by_object
from chalicelib.domain.views.record import Checkpoint, ConditionalWrite, Record, list_view, objects_view
from chalicelib.services.ports import Views

Update = Callable[[int, Record | None], str]
"""(index, stored record) -> new content of a leaf or node."""


class ObjectProjection:
    """A run of the projector. `run` raises `RunOutdated` if another projector has started a later run."""

    def __init__(self, checkpoint: Checkpoint, commits: Sequence[Commit], views: Views, with_copies: bool) -> None:
        self._checkpoint = checkpoint
        self._commits = {commit.session: commit for commit in commits} if with_copies else {}
        self._run = Run(checkpoint.head.session, commits[-1].session)
        self._events = group_by_object(commits)
        self._views = views
        self.collections = frozenset(ref.collection for ref in self._events)

    def run(self) -> None:
        roots = {collection: self._load_root(collection) for collection in sorted(self.collections - {KEYED, TAGGED})}
        changes = fold_objects(self._run, self._events, self._load_objects(self._events))
        lists = list_changes(self._run, changes, roots)
        versions = {ref: change.before.last_session for ref, change in changes.items() if change.before.last_session}
        self._put_objects(place_objects(changes, lists), versions)
        for collection, change in lists.items():
            self._put_list(collection, change)

    def _load_root(self, collection: str) -> Root:
        view = self._checkpoint.view_name(list_view(collection))
        return Root.from_record(self._views.get(view, [ROOT_ITEM]).get(ROOT_ITEM))

    def _load_objects(self, refs: Mapping[ObjectRef, object]) -> dict[ObjectRef, ObjectView]:
        paths: dict[str, list[str]] = defaultdict(list)
        for ref in refs:
            paths[ref.collection].append(ref.path)
        return {
            ObjectRef(collection, path): ObjectView.from_record(record)
            for collection in paths
            for path, record in self._views.get(
                self._checkpoint.view_name(objects_view(collection)), paths[collection]
            ).items()
        }

    def _put_objects(self, objects: Mapping[ObjectRef, ObjectView], stored: Mapping[ObjectRef, int]) -> None:
        archives: list[ConditionalWrite] = []
        writes: dict[ObjectRef, ConditionalWrite] = {}
        for ref, view in objects.items():
            *archive, record = view.add_excerpts(self._excerpts(ref, view)).to_records(self._checkpoint, ref)
            archives += (ConditionalWrite(each, None) for each in archive)
            writes[ref] = ConditionalWrite(record, stored.get(ref))
        # Archives are written first, because the updated record refers to them.
        # A refused archive record is already stored with the same content, which its key determines.
        self._views.put(archives)
        refused = {(write.record.view, write.record.item) for write in self._views.put(list(writes.values()))}
        # Another projector has stored the refused objects in this run, or in a later one.
        others = [ref for ref, write in writes.items() if (write.record.view, write.record.item) in refused]
        for view in self._load_objects(dict.fromkeys(others)).values():
            self._run.includes(view.last_session)

    def _excerpts(self, ref: ObjectRef, view: ObjectView) -> Iterator[Excerpt]:
        """Copies of the events that the run adds to the object."""
        for session, events in groupby(self._events[ref], key=lambda event: event.id.session):
            if session in self._commits and session in view.recent.numbers:
                excerpt = make_excerpt(ref, self._commits[session], list(events))
                yield from () if excerpt is None else (excerpt,)

    def _put_list(self, collection: str, change: ListChange) -> None:
        """Write the leaves, the nodes above them level by level, and the root."""
        view = self._checkpoint.view_name(list_view(collection))
        size = change.root.size + len(change.added)
        greatest = max((change.root.greatest_number, *map(number_in_path, change.paths)))
        root = replace(change.root, size=size, greatest_number=greatest, version=self._run.end)
        has_new_number = greatest > change.root.greatest_number
        if not change.added and not change.replaced and not has_new_number:
            return
        leaves = self._put_leaves(view, change, size)
        summaries = {index: Summary.of_entries(leaf) for index, leaf in leaves.items()}
        for level in range(1, root.height + 1):
            summaries = self._put_nodes(view, level, summaries, root)
        positions = map(leaf_position, change.replaced)
        removed = [leaves[index][place] for index, place in positions]
        expected_version = change.root.version or None
        self._views.put([ConditionalWrite(root.recount(change.added, removed).to_record(view), expected_version)])

    def _put_leaves(self, view: str, change: ListChange, size: int) -> dict[int, Leaf]:
        first_new = change.root.size
        indexes = {leaf_position(ordinal)[0] for ordinal in (*change.replaced, *range(first_new, size))}

        def update(index: int, record: Record | None) -> str:
            first, end = first_ordinal(0, index), first_ordinal(0, index + 1)
            leaf = () if record is None else decode_leaf(record)
            added = change.added[max(first - first_new, 0) : max(end - first_new, 0)]
            return encode_leaf(replace_entries(leaf, first, change.replaced, added))

        records = self._put_level(view, 0, indexes, update)
        leaves = {index: decode_leaf(record) for index, record in records.items()}
        for index, leaf in leaves.items():
            if len(leaf) != min(first_ordinal(0, index + 1), size) - first_ordinal(0, index):
                raise RunOutdated  # The views were rebuilt, and these ones are being deleted.
        return leaves

    def _put_nodes(self, view: str, level: int, changed: Mapping[int, Summary], root: Root) -> dict[int, Summary]:
        """Write the parents of the changed nodes or leaves, and return their summaries."""

        def update(index: int, record: Record | None) -> str:
            below = children(level, index, root.size)
            stored: Node = () if record is None else decode_node(record)
            known = {**dict(zip(below, stored, strict=False)), **changed}
            known |= self._summarize(view, level - 1, [child for child in below if child not in known])
            if not known.keys() >= set(below):
                raise RunOutdated  # as in `_put_leaves`
            return encode_node(tuple(known[child] for child in below))

        records = self._put_level(view, level, set(map(parent, changed)), update)
        return {index: Summary.of_children(decode_node(record)) for index, record in records.items()}

    def _summarize(self, view: str, level: int, indexes: Sequence[int]) -> dict[int, Summary]:
        """Summaries of nodes that this run does not change. A node needs them when the tree grows a level."""
        items = {item_name(level, index): index for index in indexes}
        records = self._views.get(view, list(items))
        return {items[item]: Summary.of_children(decode_node(record)) for item, record in records.items()}

    def _put_level(self, view: str, level: int, indexes: set[int], update: Update) -> dict[int, Record]:
        """Update leaves or nodes, and return all of them as they are after the run."""
        pending, result = {item_name(level, index): index for index in sorted(indexes)}, dict[int, Record]()
        while pending:
            stored = self._views.get(view, list(pending))
            writes: list[ConditionalWrite] = []
            for item, index in pending.items():
                record = stored.get(item)
                if record is None or not self._run.includes(record.version):
                    version = None if record is None else record.version
                    record = Record(view, item, self._run.end, update(index, record))
                    writes.append(ConditionalWrite(record, version))
                result[index] = record
            # Another projector has written the refused records.
            pending = {write.record.item: pending[write.record.item] for write in self._views.put(writes)}
        return result
