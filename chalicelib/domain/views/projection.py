"""Projections: how commits change the views. Pure."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType, joined
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.views.block import Block, block_item
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import BLOCKS, LATEST, Checkpoint, Record, objects_view

LATEST_RECORDS = 64

Update = Callable[[Record | None], list[Record]]
"""From the stored record to the new one, with what has to be stored before it; nothing if it is up to date."""


def updates(checkpoint: Checkpoint, commits: Sequence[Commit]) -> dict[tuple[str, str], Update]:
    """What `commits` change, by view and item."""
    objects: dict[ObjectRef, list[Event]] = {}
    latest: dict[EventType, Event] = {}
    blocks: dict[str, list[Commit]] = {}
    for commit in commits:
        blocks.setdefault(block_item(commit), []).append(commit)
        for event in commit.events:
            latest[event.stored.type] = event
            for ref in vocabularies.objects_of(event.stored):
                objects.setdefault(ref, []).append(event)
    found: dict[tuple[str, str], Update] = {}
    for ref, events in objects.items():
        found[checkpoint.view(objects_view(ref.collection)), ref.path] = partial(_object, checkpoint, ref, events)
    for item, some_types in grouped(latest).items():
        found[checkpoint.view(LATEST), item] = partial(_latest, checkpoint, item, some_types)
    for item, some in blocks.items():
        found[checkpoint.view(BLOCKS), item] = partial(_block, checkpoint, item, some)
    return found


def grouped(latest: Mapping[EventType, Event]) -> dict[str, dict[EventType, Event]]:
    """The last events by the record that keeps their positions; many types share one, for a record's price is fixed."""
    found: dict[str, dict[EventType, Event]] = {}
    for event_type, event in latest.items():
        found.setdefault(latest_item(event_type), {})[event_type] = event
    return found


def latest_item(event_type: EventType) -> str:
    """The record that keeps the position of the last event of a type."""
    return f"{zlib.crc32(joined(event_type).encode()) % LATEST_RECORDS:02d}"


def latest_positions(record: Record) -> Mapping[EventType, tuple[int, int]]:
    """Session and instance of the last event of each type that the record keeps."""
    return _positions(record.data)


@lru_cache(maxsize=4 * LATEST_RECORDS)
def _positions(data: str) -> Mapping[EventType, tuple[int, int]]:
    """Remembered, for queries look at many records and few of them change."""
    return {tuple(place[2:]): (place[0], place[1]) for place in from_json(data)}


def _object(checkpoint: Checkpoint, ref: ObjectRef, events: Sequence[Event], stored: Record | None) -> list[Record]:
    before = ObjectView.of(stored)
    after = before.folded(ref.collection, events)
    return after.records(checkpoint, ref) if after.to > before.to else []


def _latest(
    checkpoint: Checkpoint, item: str, latest: Mapping[EventType, Event], stored: Record | None
) -> list[Record]:
    positions = {} if stored is None else latest_positions(stored)
    to = 0 if stored is None else stored.to
    newer = {kind: (e.id.session, e.id.instance) for kind, e in latest.items() if e.id.session > to}
    if not newer:
        return []
    data = to_json([(*position, *kind) for kind, position in sorted({**positions, **newer}.items())]).decode()
    return [Record(checkpoint.view(LATEST), item, max(session for session, _ in newer.values()), data)]


def _block(checkpoint: Checkpoint, item: str, commits: Sequence[Commit], stored: Record | None) -> list[Record]:
    before = Block.before(commits[0]) if stored is None else Block.of(stored)
    after = before.folded(commits)
    return [after.record(checkpoint, item)] if after.to > before.to else []
