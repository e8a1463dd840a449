"""How a run of the projector changes the objects of a log and the lists of their collections.

Projectors agree on the end of each run before they start it. A projector that repeats a run, after a crash or at the
same time as another one, therefore computes the same records. Records that the run has already written have a version
within the run. An object's record contains its ordinal before the run, so that its former entry is still found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.views.list_index import Entry, Root
from chalicelib.domain.views.object_view import ObjectView


class RunOutdated(Exception):
    """Another projector has completed the run and started the next one."""


@dataclass(frozen=True, slots=True)
class Run:
    """The sessions after `start`, up to `end`."""

    start: int
    end: int

    def includes(self, version: int) -> bool:
        """Whether the run has already written a record of this version. Raises `RunOutdated` for later versions."""
        if version > self.end:
            raise RunOutdated
        return version > self.start


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object before and after a run."""

    before: ObjectView
    after: ObjectView
    former_ordinal: int | None
    """The ordinal of the object before the run. None: it was not listed."""
    first_session: int
    """The object's first change in the run."""


@dataclass(frozen=True, slots=True)
class ListChange:
    """How a run changes the list of a collection."""

    root: Root
    """The root before the run."""
    added: tuple[Entry, ...]
    """The new entries. Their ordinals start at the size of the list."""
    replaced: Mapping[int, int]
    """By ordinal: the session of the object's first change in the run."""
    paths: tuple[str, ...]
    """All objects that have changed, including those that are not listed."""


def fold_objects(
    run: Run, events_by_object: Mapping[ObjectRef, Sequence[Event]], stored: Mapping[ObjectRef, ObjectView]
) -> dict[ObjectRef, ObjectChange]:
    """The changes of all objects. Raises `RunOutdated`."""
    changes: dict[ObjectRef, ObjectChange] = {}
    for ref, events in events_by_object.items():
        before = stored.get(ref, ObjectView())
        is_written = run.includes(before.last_session)
        changes[ref] = ObjectChange(
            before,
            before.fold(ref.collection, events),
            before.former_ordinal if is_written else before.ordinal,
            events[0].id.session,
        )
    return changes


def list_changes(
    run: Run, changes: Mapping[ObjectRef, ObjectChange], roots: Mapping[str, Root]
) -> dict[str, ListChange]:
    """The changes of the lists, by collection, without those that are already complete. Raises `RunOutdated`."""
    by_collection: dict[str, dict[str, ObjectChange]] = {}
    for ref, change in changes.items():
        if ref.collection in roots:
            by_collection.setdefault(ref.collection, {})[ref.path] = change
    result: dict[str, ListChange] = {}
    for collection, objects in by_collection.items():
        root = roots[collection]
        if root.version == run.end:
            continue
        if run.includes(root.version):
            raise RunOutdated  # A run that started later has written the root.
        result[collection] = ListChange(
            root,
            _sorted_entries(collection, objects),
            {
                change.former_ordinal: change.first_session
                for change in objects.values()
                if change.former_ordinal is not None
            },
            tuple(objects),
        )
    return result


def place_objects(
    changes: Mapping[ObjectRef, ObjectChange], lists: Mapping[str, ListChange]
) -> dict[ObjectRef, ObjectView]:
    """The changed objects to store, with their ordinals. Objects that are already stored are left out."""
    ordinals = {
        ObjectRef(collection, entry.path): ordinal
        for collection, change in lists.items()
        for ordinal, entry in enumerate(change.added, start=change.root.size)
    }
    return {
        ref: replace(change.after, ordinal=ordinals.get(ref), former_ordinal=change.former_ordinal)
        for ref, change in changes.items()
        if change.after.last_session > change.before.last_session
    }


def list_order(session: int, summary: ObjectSummary) -> tuple[int, str]:
    """Ascending order of entries. Entries with equal keys are ordered by path, descending."""
    return session, summary.updated_at or ""


def _sorted_entries(collection: str, objects: Mapping[str, ObjectChange]) -> tuple[Entry, ...]:
    listed: list[tuple[tuple[int, str], Entry]] = []
    for path in sorted(objects, reverse=True):
        after = objects[path].after
        if after.state is not None:
            summary = vocabularies.summarize(ObjectRef(collection, path), after.state)
            key = list_order(after.last_session, summary)
            listed.append((key, Entry.from_summary(after.last_session, summary)))
    # The sort is stable: objects with equal keys stay ordered by path.
    return tuple(entry for _, entry in sorted(listed, key=lambda item: item[0]))
