"""The part of a list that is not in the list index: the objects that changed after a checkpoint."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.projection import group_by_object
from chalicelib.domain.views.record import Checkpoint, objects_view
from chalicelib.services.objects.past_views import ObjectRange, PastViews, commits_between
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary

_EVERYTHING = PathQuery.parse("/")


@dataclass(frozen=True, slots=True)
class ListTail:
    """The objects of a collection that changed in a range of commits. Methods raise `HistoryExpired`."""

    reader: LogReader
    boundary: RetentionBoundary
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
        return cls(reader, boundary, [start, *(commit.head for commit in commits)], events, stored)

    def contains(self, ref: ObjectRef) -> bool:
        return ref in self.events

    def objects_at(self, session: int) -> Iterator[tuple[ObjectView, ObjectSummary]]:
        """The changed objects as of a session of the range."""
        head = self.heads[min(session - self.heads[0].session, len(self.heads) - 1)]
        past = PastViews(self.reader, head, self.boundary)
        for ref, events in self.events.items():
            known = [event for event in events if event.id.session <= session]
            view = past.view(ref, self.stored.get(ref, ObjectView()), known)
            if view.state is not None:
                yield view, vocabularies.summarize(ref, view.state)
