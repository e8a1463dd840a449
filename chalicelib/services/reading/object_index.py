"""Find commits by object: the sessions with events of objects, keys and tags, according to the views."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest

from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectGroup, Selection
from chalicelib.domain.views.object_view import ObjectView, archived_sessions_item, parse_archived_sessions
from chalicelib.domain.views.record import SESSIONS_VIEW, Checkpoint, objects_view
from chalicelib.services.ports import Views


@dataclass(frozen=True, slots=True)
class ObjectIndex:
    """The objects of the views as of a checkpoint. Records may be newer than it."""

    views: Views
    checkpoint: Checkpoint

    def sessions_of(self, ref: ObjectRef) -> list[int]:
        """All sessions with events of the object."""
        records = list(self._session_records(ref, self._load([ref])[ref], 0))
        return [session for sessions in reversed(records) for session in sessions]

    def candidate_sessions(self, selections: Iterable[Selection], after: int) -> set[int]:
        """The sessions after `after` that may contain an event of one of `selections`. Each must name objects."""
        groups = {frozenset(selection.object_groups) for selection in selections}
        # Sessions with events of some groups include those with events of more groups.
        groups = {few for few in groups if not any(fewer < few for fewer in groups)}
        objects = self._load({ref for alternative in groups for group in alternative for ref in group})
        sessions = (self._common_sessions(alternative, objects, after) for alternative in groups)
        return {session for session in chain.from_iterable(sessions) if session > after}

    def _common_sessions(
        self, groups: Iterable[ObjectGroup], objects: Mapping[ObjectRef, ObjectView], after: int
    ) -> set[int]:
        """The sessions with events of all `groups`, as far as the shortest lists of sessions tell.

        Reads the lists of all groups in turns until one of them ends, because their lengths are not known before.
        """
        readers = [
            zip_longest(*(self._session_records(ref, objects[ref], after) for ref in group), fillvalue=())
            for group in groups
        ]
        sessions: list[set[int]] = [set() for _ in readers]
        while True:
            turns = [next(reader, None) for reader in readers]
            for found, records in zip(sessions, turns, strict=True):
                found.update(chain.from_iterable(records or ()))
            ended = [found for found, records in zip(sessions, turns, strict=True) if records is None]
            if ended:
                return set.intersection(*ended)

    def _session_records(self, ref: ObjectRef, view: ObjectView, after: int) -> Iterator[tuple[int, ...]]:
        """The sessions of the object, record by record, latest first. Stops at a record of sessions up to `after`."""
        yield view.recent_sessions
        archived_to = view.archived_to
        while archived_to > after:
            item = archived_sessions_item(ref, archived_to)
            record = self.views.get(self.checkpoint.view_name(SESSIONS_VIEW), [item])[item]
            archived_to, sessions = parse_archived_sessions(record)
            yield sessions

    def _load(self, refs: Collection[ObjectRef]) -> dict[ObjectRef, ObjectView]:
        """The objects, with one call for each collection."""
        objects: dict[ObjectRef, ObjectView] = {}
        for collection in {ref.collection for ref in refs}:
            paths = [ref.path for ref in refs if ref.collection == collection]
            records = self.views.get(self.checkpoint.view_name(objects_view(collection)), paths)
            objects |= {ObjectRef(collection, path): ObjectView.from_record(records.get(path)) for path in paths}
        return objects
