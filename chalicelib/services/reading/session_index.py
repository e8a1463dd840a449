"""The index of commits by object, key and tag: the sessions with events of each object, according to the views."""

from collections.abc import Iterable, Iterator, Set
from itertools import chain, zip_longest

from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectGroup
from chalicelib.domain.views.object_view import ObjectView, archived_sessions_item, parse_archived_sessions
from chalicelib.domain.views.record import SESSIONS_VIEW, Checkpoint, Record, objects_view
from chalicelib.services.ports import Views


class SessionIndex:
    """Finds the sessions with events of objects, according to the views at a checkpoint."""

    def __init__(self, views: Views, checkpoint: Checkpoint, after: int) -> None:
        self._views = views
        self._checkpoint = checkpoint
        self._after = after
        self._records: dict[ObjectRef, Record] = {}
        self.is_complete = True
        """Whether all records existed. If not, rebuilt views may have replaced them."""

    def sessions(self, alternatives: Set[frozenset[ObjectGroup]]) -> set[int]:
        """The sessions with events of all groups of one of the alternatives."""
        # The sessions of fewer groups include those of more.
        minimal = [groups for groups in alternatives if not any(other < groups for other in alternatives)]
        self._load({ref for groups in minimal for group in groups for ref in self._existing(group)})
        return set().union(*map(self._common_sessions, minimal))

    def _load(self, refs: Set[ObjectRef]) -> None:
        """Read the records of the objects, with one call per collection."""
        paths: dict[str, list[str]] = {}
        for ref in sorted(refs):
            paths.setdefault(ref.collection, []).append(ref.path)
        for collection, items in paths.items():
            records = self._views.get(self._checkpoint.view_name(objects_view(collection)), items)
            self._records.update((ObjectRef(collection, item), record) for item, record in records.items())
        self.is_complete = len(self._records) == len(refs)

    def _common_sessions(self, groups: Iterable[ObjectGroup]) -> set[int]:
        """The sessions with events of all `groups`, as far as the shortest lists of sessions tell.

        Reads the lists of all groups in turns until one of them ends, because their lengths are not known before.
        """
        readers = [zip_longest(*map(self._session_lists, self._existing(group)), fillvalue=()) for group in groups]
        sessions: list[set[int]] = [set() for _ in readers]
        while True:
            turns = [next(reader, None) for reader in readers]
            for found, records in zip(sessions, turns, strict=True):
                found.update(chain.from_iterable(records or ()))
            ended = [found for found, records in zip(sessions, turns, strict=True) if records is None]
            if ended:
                return set.intersection(*ended)

    def _existing(self, group: ObjectGroup) -> list[ObjectRef]:
        return [ref for ref in group if ref.collection in self._checkpoint.collections]

    def _session_lists(self, ref: ObjectRef) -> Iterator[tuple[int, ...]]:
        return session_lists(self._views, self._checkpoint, ref, self._records.get(ref), self._after)


def session_lists(
    views: Views, checkpoint: Checkpoint, ref: ObjectRef, record: Record | None, after: int
) -> Iterator[tuple[int, ...]]:
    """The sessions of the object, list by list, latest first. Stops at a list of sessions up to `after`."""
    view = ObjectView.from_record(record)
    yield view.recent_sessions
    archived_to = view.archived_to
    while archived_to > after:
        item = archived_sessions_item(ref, archived_to)
        archive = views.get(checkpoint.view_name(SESSIONS_VIEW), [item])[item]
        archived_to, sessions = parse_archived_sessions(archive)
        yield sessions
