"""Objects as of an earlier head of the log, while views and log continue to change."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.projection import group_by_object
from chalicelib.domain.views.record import Checkpoint, Record
from chalicelib.services.objects.object_range import ObjectRange
from chalicelib.services.objects.snapshots import has_expired_events, object_events
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary


class HistoryExpired(Exception):
    """The object changed after the head, and its earlier state cannot be rebuilt."""

    def __init__(self, ref: ObjectRef) -> None:
        super().__init__(ref)
        self.ref = ref


class PastViews:
    """Rebuilds the views of objects as of `head`. Raises `HistoryExpired`."""

    def __init__(self, reader: LogReader, head: Head, boundary: RetentionBoundary) -> None:
        self._reader = reader
        self._head = head
        self._boundary = boundary

    def view(self, ref: ObjectRef, stored: ObjectView, events: Sequence[Event]) -> ObjectView:
        """The object as of the head. `events` are its events after the checkpoint of the views, up to the head."""
        if stored.last_session <= self._head.session:
            return stored.fold(ref.collection, events)
        server = self._head.server
        if has_expired_events(self._reader, server, ref, self._boundary):
            raise HistoryExpired(ref)
        return ObjectView().fold(ref.collection, object_events(self._reader, server, ref, self._head.last_event_id))

    def views(self, objects: ObjectRange, checkpoint: Checkpoint) -> Iterator[tuple[ObjectRef, ObjectView]]:
        """All objects of the range in order, including those that do not exist as of the head."""
        return self.fold(objects, checkpoint, objects.records(checkpoint, self._reader.views))

    def fold(
        self, objects: ObjectRange, checkpoint: Checkpoint, stored: Iterable[tuple[ObjectRef, Record]]
    ) -> Iterator[tuple[ObjectRef, ObjectView]]:
        """The objects of the range, from its stored records."""
        changes = group_by_object(commits_between(self._reader, checkpoint.head, self._head.session), objects.contains)
        changed: Iterator[tuple[ObjectRef, Record | None]] = ((ref, None) for ref in sorted(changes))
        candidates = heapq.merge(stored, changed, key=lambda candidate: candidate[0])
        for ref, group in groupby(candidates, key=lambda candidate: candidate[0]):
            record = next((record for _, record in group if record is not None), None)
            yield ref, self.view(ref, ObjectView.from_record(record), changes.get(ref, ()))


def commits_between(reader: LogReader, start: Head, end: int) -> Iterator[Commit]:
    """The commits after `start`, up to session `end`."""
    return takewhile(lambda commit: commit.session <= end, reader.tail(start)) if start.session < end else iter(())
