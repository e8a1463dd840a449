"""The index of commits by object, key and tag: the sessions with events of each object, according to the views."""

import heapq
from collections.abc import Iterable, Iterator, Set
from itertools import chain, groupby, zip_longest

from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectGroup
from chalicelib.domain.views.excerpt import Excerpt
from chalicelib.domain.views.object_view import ObjectView, Sessions, archive_item
from chalicelib.domain.views.record import SESSIONS_VIEW, Checkpoint, Record, objects_view
from chalicelib.services.ports import Views

FoundSession = tuple[int, Excerpt | None]
"""A session with events of the objects. None: the commit has to be read."""


class SessionIndex:
    """Finds the sessions with events of objects after session `after`, according to the views at a checkpoint."""

    def __init__(self, views: Views, checkpoint: Checkpoint, after: int, refs: Iterable[ObjectRef]) -> None:
        self._views = views
        self._checkpoint = checkpoint
        self._after = after
        self._records: dict[ObjectRef, Record] = {}
        self.is_complete = True
        """Whether all records existed. If not, rebuilt views may have replaced them."""
        self._load(refs)

    def _load(self, refs: Iterable[ObjectRef]) -> None:
        """Read the records of the objects, with one call per collection."""
        paths: dict[str, list[str]] = {}
        existing = sorted({ref for ref in refs if ref.collection in self._checkpoint.collections})
        for ref in existing:
            paths.setdefault(ref.collection, []).append(ref.path)
        for collection, items in paths.items():
            records = self._views.get(self._checkpoint.view_name(objects_view(collection)), items)
            self._records.update((ObjectRef(collection, item), record) for item, record in records.items())
        self.is_complete = len(self._records) == len(existing)

    def common_sessions(self, alternatives: Set[frozenset[ObjectGroup]]) -> set[int]:
        """The sessions with events of all groups of one of the alternatives."""
        # The sessions of fewer groups include those of more.
        minimal = [groups for groups in alternatives if not any(other < groups for other in alternatives)]
        return set().union(*map(self._common_sessions, minimal))

    def sessions(self, group: ObjectGroup, last: int, backwards: bool) -> Iterator[FoundSession]:
        """The sessions of a group up to `last`, in order.

        Archive records are read as the caller iterates.
        """
        found = [self._sessions_of(ref, backwards) for ref in group if ref in self._records]
        merged = heapq.merge(*found, key=_session, reverse=backwards)
        for session, same in groupby(merged, key=_session):
            if self._after < session <= last:
                excerpts = [excerpt for _, excerpt in same]
                yield session, _merge(excerpts)

    def _sessions_of(self, ref: ObjectRef, backwards: bool) -> Iterator[FoundSession]:
        record = self._records.get(ref)
        return found_sessions(self._views, self._checkpoint, ref, record, self._after, backwards)

    def _common_sessions(self, groups: Iterable[ObjectGroup]) -> set[int]:
        """The sessions with events of all `groups`, as far as the shortest lists of sessions tell.

        Reads the lists of all groups in turns until one of them ends, because their lengths are not known before.
        """
        readers = [zip_longest(*map(self._session_numbers, self._existing(group)), fillvalue=()) for group in groups]
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

    def _session_numbers(self, ref: ObjectRef) -> Iterator[tuple[int, ...]]:
        recent = ObjectView.from_record(self._records.get(ref)).recent
        lists = session_lists(self._views, self._checkpoint, ref, recent, self._after, backwards=True)
        return (part.numbers for part in lists)


def found_sessions(
    views: Views, checkpoint: Checkpoint, ref: ObjectRef, record: Record | None, after: int, backwards: bool
) -> Iterator[FoundSession]:
    """The sessions of the object and their excerpts, without those in records that end before `after`."""
    view = ObjectView.from_record(record)
    for part in session_lists(views, checkpoint, ref, view.recent, after, backwards):
        for session in reversed(part.numbers) if backwards else part.numbers:
            yield session, view.excerpts.get(session)


def session_lists(
    views: Views, checkpoint: Checkpoint, ref: ObjectRef, recent: Sessions, after: int, backwards: bool
) -> Iterator[Sessions]:
    """The recent sessions of the object, and those of its archive records that end after session `after`.

    Raises `KeyError` if an archive record is missing.
    """
    if backwards:
        yield recent
    if recent.after > after:
        yield from _archives(views, checkpoint, ref, (after, recent.after), backwards)
    if not backwards:
        yield recent


def _archives(
    views: Views, checkpoint: Checkpoint, ref: ObjectRef, bounds: tuple[int, int], backwards: bool
) -> Iterator[Sessions]:
    """The archive records that end after the first of `bounds`, up to the one that ends with the second."""
    after, last = bounds
    view, end = checkpoint.view_name(SESSIONS_VIEW), archive_item(ref, last)
    # Items of the same length belong to this object, longer ones to objects whose paths are longer.
    records = views.range(view, archive_item(ref, after + 1), f"{end}\0", backwards)
    parts = (Sessions.from_record(record) for record in records if len(record.item) == len(end))
    previous: Sessions | None = None
    for part in parts:
        if not _is_next(previous, part, bounds, backwards):
            raise KeyError(end)
        yield part
        previous = part
    if previous is None or (previous.after > after if backwards else previous.last != last):
        raise KeyError(end)


def _is_next(previous: Sessions | None, part: Sessions, bounds: tuple[int, int], backwards: bool) -> bool:
    """Whether no record is missing between `previous`, or the bounds, and `part`."""
    after, last = bounds
    if backwards:
        return part.last == (last if previous is None else previous.after)
    return part.after <= after if previous is None else part.after == previous.last


def _session(found: FoundSession) -> int:
    return found[0]


def _merge(excerpts: list[Excerpt | None]) -> Excerpt | None:
    """The events of several objects in one commit. None if some of them are not copied."""
    merged, *others = excerpts
    for other in others:
        merged = None if merged is None or other is None else merged.merge(other)
    return merged
