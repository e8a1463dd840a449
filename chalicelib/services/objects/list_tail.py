"""The part of a list that is not in the list index: the objects that changed after a checkpoint."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.objects.list_filter import Facets
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.views.list_index import ROOT_ITEM, Entry, Root, decode_leaf, item_name, leaf_position
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.projection import group_by_object
from chalicelib.domain.views.record import Checkpoint, list_view, objects_view
from chalicelib.services.objects.object_range import ObjectRange
from chalicelib.services.objects.past_views import PastViews, commits_between
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary

_EVERYTHING = PathQuery.parse("/")


@dataclass(frozen=True, slots=True)
class ListTail:
    """The objects of a collection that changed in a range of commits. Methods raise `HistoryExpired`."""

    reader: LogReader
    boundary: RetentionBoundary
    list_view: str
    heads: Sequence[Head]
    """The start of the range, then the head of each commit."""
    events: Mapping[ObjectRef, Sequence[Event]]
    stored: Mapping[ObjectRef, ObjectView]

    @classmethod
    def read(
        cls,
        collection: str,
        start: Head,
        end: int,
        checkpoint: Checkpoint,
        reader: LogReader,
        boundary: RetentionBoundary,
    ) -> Self:
        """Read the commits after `start`, up to session `end`, and the records of the objects they affect."""
        commits = list(commits_between(reader, start, end))
        events = group_by_object(commits, ObjectRange((collection,), _EVERYTHING).contains)
        records = reader.views.get(checkpoint.view_name(objects_view(collection)), [ref.path for ref in events])
        stored = {ObjectRef(collection, path): ObjectView.from_record(record) for path, record in records.items()}
        heads = [start, *(commit.head for commit in commits)]
        return cls(reader, boundary, checkpoint.view_name(list_view(collection)), heads, events, stored)

    def contains(self, ref: ObjectRef) -> bool:
        return ref in self.events

    def objects_at(self, session: int) -> Iterator[tuple[ObjectView, ObjectSummary]]:
        """The changed objects as of a session of the range."""
        return self._objects_at(session, self.events)

    def recount(self, root: Root, current: Iterable[Facets]) -> Root:
        """The root, which was read before the tail, with `current` as the changed objects."""
        return root.recount(current, self._counted_in(root))

    def _counted_in(self, root: Root) -> Iterable[Facets]:
        """The changed objects as the root counts them: as of its version."""
        session = max(self.heads[0].session, root.version)
        newer = {ref: view for ref, view in self.stored.items() if view.last_session > session}
        if not newer or self._load_root().version != root.version:
            return (summary for _, summary in self.objects_at(session))
        # A run of the projector has stored these objects and not yet the root. Their earlier events may have expired,
        # but the list index has the entries that the run replaces.
        older = self._objects_at(session, [ref for ref in self.events if ref not in newer])
        ordinals = [view.former_ordinal for view in newer.values() if view.former_ordinal is not None]
        return chain((summary for _, summary in older), self._entries(ordinals))

    def _objects_at(self, session: int, refs: Iterable[ObjectRef]) -> Iterator[tuple[ObjectView, ObjectSummary]]:
        head = self.heads[min(session - self.heads[0].session, len(self.heads) - 1)]
        past = PastViews(self.reader, head, self.boundary)
        for ref in refs:
            known = [event for event in self.events[ref] if event.id.session <= session]
            view = past.view(ref, self.stored.get(ref, ObjectView()), known)
            if view.state is not None:
                yield view, vocabularies.summarize(ref, view.state)

    def _load_root(self) -> Root:
        return Root.from_record(self.reader.views.get(self.list_view, [ROOT_ITEM]).get(ROOT_ITEM))

    def _entries(self, ordinals: Iterable[int]) -> Iterator[Entry]:
        places = [leaf_position(ordinal) for ordinal in ordinals]
        items = {index: item_name(0, index) for index, _ in places}
        records = self.reader.views.get(self.list_view, list(items.values()))
        leaves = {index: decode_leaf(records[item]) for index, item in items.items()}
        return (leaves[index][place] for index, place in places)
