"""Projections: how commits change the views."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial

from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType, join_subtypes
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.views.block import (
    Block,
    BlockId,
    CommitSubtypes,
    subtypes_by_block,
    time_item,
    time_record,
)
from chalicelib.domain.views.record import BLOCKS_VIEW, LATEST_VIEW, TIMES_VIEW, Checkpoint, Record

LATEST_RECORD_COUNT = 64

Update = Callable[[Record | None], list[Record]]
"""Stored record -> records to store, in this order. Empty if the stored record is up to date."""


def updates(checkpoint: Checkpoint, commits: Sequence[Commit]) -> dict[tuple[str, str], Update]:
    """The updates of the indexes of the log that `commits` cause, by view and item."""
    latest: dict[EventType, Event] = {}
    first_sessions: dict[str, int] = {}
    for commit in commits:
        first_sessions.setdefault(time_item(commit), commit.session)
        for event in commit.events:
            latest[event.fields.type] = event
    result: dict[tuple[str, str], Update] = {}
    for item, latest_of_item in group_by_record(latest).items():
        result[checkpoint.view_name(LATEST_VIEW), item] = partial(_update_latest, checkpoint, item, latest_of_item)
    for block_id, subtypes in subtypes_by_block(commits).items():
        result[checkpoint.view_name(BLOCKS_VIEW), block_id.item] = partial(
            _update_block, checkpoint, block_id, subtypes
        )
    for item, session in first_sessions.items():
        result[checkpoint.view_name(TIMES_VIEW), item] = partial(_update_time, checkpoint, item, session)
    return result


def group_by_object(
    commits: Iterable[Commit], is_selected: Callable[[ObjectRef], bool] = lambda _: True
) -> dict[ObjectRef, list[Event]]:
    """The events of each selected object that the commits affect."""
    events_by_object: dict[ObjectRef, list[Event]] = {}
    for commit in commits:
        for event in commit.events:
            for ref in vocabularies.affected_objects(event.fields):
                if is_selected(ref):
                    events_by_object.setdefault(ref, []).append(event)
    return events_by_object


def group_by_record(latest: Mapping[EventType, Event]) -> dict[str, dict[EventType, Event]]:
    """The latest events by item. Many types share a record, because each record has a fixed cost."""
    groups: dict[str, dict[EventType, Event]] = {}
    for event_type, event in latest.items():
        groups.setdefault(latest_item(event_type), {})[event_type] = event
    return groups


def latest_item(event_type: EventType) -> str:
    """The item that contains the position of the latest event of a type."""
    return f"{zlib.crc32(join_subtypes(event_type).encode()) % LATEST_RECORD_COUNT:02d}"


def latest_positions(record: Record) -> Mapping[EventType, tuple[int, int]]:
    """Session and instance of the latest event of each type in the record."""
    return _parse_positions(record.data)


# Cached, because queries read many of these records and few of them change.
@lru_cache(maxsize=4 * LATEST_RECORD_COUNT)
def _parse_positions(data: str) -> Mapping[EventType, tuple[int, int]]:
    return {tuple(entry[2:]): (entry[0], entry[1]) for entry in from_json(data)}


def _update_latest(
    checkpoint: Checkpoint, item: str, latest: Mapping[EventType, Event], stored: Record | None
) -> list[Record]:
    positions = {} if stored is None else latest_positions(stored)
    version = 0 if stored is None else stored.version
    newer = {
        event_type: (event.id.session, event.id.instance)
        for event_type, event in latest.items()
        if event.id.session > version
    }
    if not newer:
        return []
    entries = [(*position, *event_type) for event_type, position in sorted({**positions, **newer}.items())]
    last_session = max(session for session, _ in newer.values())
    return [Record(checkpoint.view_name(LATEST_VIEW), item, last_session, to_json(entries).decode())]


def _update_block(
    checkpoint: Checkpoint, block_id: BlockId, commits: Sequence[CommitSubtypes], stored: Record | None
) -> list[Record]:
    before = Block.from_record(stored)
    after = before.fold(block_id.level, commits)
    return [after.to_record(checkpoint, block_id)] if after.last_session > before.last_session else []


def _update_time(checkpoint: Checkpoint, item: str, first_session: int, stored: Record | None) -> list[Record]:
    return [time_record(checkpoint, item, first_session)] if stored is None else []
