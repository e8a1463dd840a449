"""The objects that match a path query, and their stored records in order."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chalicelib.domain import vocabularies
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.views.record import MAX_CHARACTER, Checkpoint, Record, objects_view
from chalicelib.services.ports import Views

FIRST_REF = ObjectRef("", "")
"""Sorts before the references of all objects."""


class TooManyRecords(Exception):
    """More records would have to be read than the caller allows."""


@dataclass(frozen=True, slots=True)
class ObjectRange:
    """The objects of some collections that match a path query and come after an object."""

    collections: tuple[str, ...]
    """In alphabetical order."""
    paths: PathQuery
    after: ObjectRef = FIRST_REF

    def contains(self, ref: ObjectRef) -> bool:
        return ref > self.after and ref.collection in self.collections and vocabularies.matches(self.paths, ref)

    def records(
        self, checkpoint: Checkpoint, views: Views, max_records: int | None = None
    ) -> Iterator[tuple[ObjectRef, Record]]:
        """The stored records, in order. Raises `TooManyRecords` if more than `max_records` have to be read."""
        count = 0
        for collection in self.collections:
            if collection < self.after.collection or collection not in checkpoint.collections:
                continue
            for record in self._read(collection, checkpoint, views):
                count += 1
                if max_records is not None and count > max_records:
                    raise TooManyRecords
                ref = ObjectRef(collection, record.item)
                if self.contains(ref):
                    yield ref, record

    def _read(self, collection: str, checkpoint: Checkpoint, views: Views) -> Iterator[Record]:
        """The records of single objects, and all records in the folders, ordered by path."""
        view = checkpoint.view_name(objects_view(collection))
        after = self.after.path if collection == self.after.collection else ""
        unique = {p.text for p in self.paths.patterns if vocabularies.is_unique(ObjectRef(collection, p.text))}
        prefixes = disjoint_prefixes(collection, [p for p in self.paths.patterns if p.text not in unique])
        paths = sorted(path for path in unique if path > after and not path.startswith(prefixes))
        found = views.get(view, paths) if paths else {}

        def read_folders() -> Iterator[Record]:
            for prefix in prefixes:
                if (end := prefix + MAX_CHARACTER) > after:
                    yield from views.range(view, max(prefix, after), end)

        return heapq.merge((found[path] for path in paths if path in found), read_folders(), key=_item)


def disjoint_prefixes(collection: str, patterns: Sequence[PathPattern]) -> tuple[str, ...]:
    """The prefixes of the paths of all matching objects, in order, without those that another one covers."""
    prefixes: list[str] = []
    for prefix in sorted(p for pattern in patterns for p in vocabularies.path_prefixes(collection, pattern)):
        if not prefixes or not prefix.startswith(prefixes[-1]):
            prefixes.append(prefix)
    return tuple(prefixes)


def _item(record: Record) -> str:
    return record.item
