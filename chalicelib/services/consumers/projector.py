"""The projector: the consumer that builds the views."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import DamagedRecord
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.log.key_time import latest_key_ms, latest_unknown_key_ms
from chalicelib.domain.objects.ref import KEYED, TAGGED
from chalicelib.domain.views.list_changes import RunOutdated
from chalicelib.domain.views.projection import updates
from chalicelib.domain.views.receipt import RECEIPTS_VIEW, expires_s, receipt_updates
from chalicelib.domain.views.record import (
    BLOCKS_VIEW,
    LATEST_VIEW,
    PROJECTOR,
    RUNS_VIEW,
    SESSIONS_VIEW,
    TIMES_VIEW,
    Checkpoint,
    ConditionalWrite,
    Record,
    list_view,
    objects_view,
)
from chalicelib.services.clock import wall_clock
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import ClaimingConsumer, run_once
from chalicelib.services.consumers.healing import REBUILD, reset_views
from chalicelib.services.consumers.object_projection import ObjectProjection
from chalicelib.services.consumers.run_claims import Claim, ClaimingViews, load_claim
from chalicelib.services.ports import Clock, Log, Views

REPLACED_VIEWS_TTL_S = 300
"""Views that were replaced by rebuilt ones are kept this long.

Readers remember the checkpoint of the old views for a shorter time, see `tail_cache.py`, and a projector that is late
would write incomplete records in place of deleted ones.
"""
MAX_DROPPED_RECORDS = 5_000
"""How many records of replaced views a run of the projector deletes."""

RecordKey = tuple[str, str]
"""View and item."""


EnterDeadlines = Callable[[int, Sequence[Commit]], None]
"""Enters the deadlines that follow from commits of a log in the due index."""


def enter_nothing(server: int, commits: Sequence[Commit]) -> None:
    """An `EnterDeadlines` for views without a due index."""
    del server, commits


def projector(
    views: Views,
    with_copies: bool = True,
    enter_deadlines: EnterDeadlines = enter_nothing,
    clock: Clock = wall_clock,
) -> ClaimingConsumer:
    """The consumer that keeps the views and the due index up to date, and deletes views that were replaced.

    With `with_copies` the views contain idempotency keys and small events, so that readers need not fetch commits.
    """

    def handle(checkpoint: Checkpoint, commits: Sequence[Commit], claim: Claim) -> list[Checkpoint]:
        projected = _project(checkpoint, commits, views, with_copies, claim)
        projected = replace(projected, begun_at_ms=checkpoint.begun_at_ms or clock())
        enter_deadlines(checkpoint.head.server, commits)
        is_due = checkpoint.switched_at_ms > 0 and clock() - checkpoint.switched_at_ms >= REPLACED_VIEWS_TTL_S * 1000
        if is_due and _delete_replaced_views(checkpoint, views, MAX_DROPPED_RECORDS):
            return [replace(projected, switched_at_ms=0)]
        return [projected]

    return ClaimingConsumer(PROJECTOR, handle, lambda server: reset_views(server, views))


def rebuild(
    server: int,
    log: Log,
    views: Views,
    progress: Callable[[int, int], None],
    retention_head: Head | None = None,
    with_copies: bool = True,
    enter_deadlines: EnterDeadlines = enter_nothing,
    clock: Clock = wall_clock,
) -> None:
    """Rebuild all views of a server next to the old ones, then switch over atomically.

    The projector, or the next rebuild, deletes the old ones later. Concurrent rebuilds are safe: both continue the one
    that was started last.
    """
    start = retention_head or Head(server)
    # The projector continues where the rebuild ends, so the rebuild enters the deadlines of its commits too.
    build = projector(views, with_copies, enter_deadlines).handle
    builder = ClaimingConsumer(REBUILD, build, lambda _: _start_generation(REBUILD, start, views))
    if clock() - load_checkpoint(PROJECTOR, server, views).switched_at_ms >= REPLACED_VIEWS_TTL_S * 1000:
        delete_replaced_views(server, views)
    _start_generation(builder.name, start, views)
    while run_once(builder, server, log, views, retention_head=retention_head):
        progress(load_checkpoint(builder.name, server, views).head.session, log.head(server).session)
    _switch_over(builder.name, server, views, clock())


def delete_replaced_views(server: int, views: Views) -> None:
    """Delete all views but the current ones at once, even if readers still use them."""
    _delete_replaced_views(load_checkpoint(PROJECTOR, server, views), views)


def _start_generation(builder: str, start: Head, views: Views) -> None:
    """Claim a generation without any records, because an earlier rebuild may still be running.

    `start` is the retention head. If retention has deleted the whole log, only the checkpoint remembers where it ended.
    """
    while True:
        last = load_checkpoint(builder, start.server, views)
        newest = max(last.generation, load_checkpoint(PROJECTOR, start.server, views).generation)
        if not views.put([Checkpoint(start, newest + 1).to_write(builder, last.record_version)]):
            return


def _project(
    checkpoint: Checkpoint, commits: Sequence[Commit], views: Views, with_copies: bool, claim: Claim
) -> Checkpoint:
    """Update the indexes of the log, then the objects and their lists. Returns the new checkpoint.

    Records of the indexes may be ahead of the run. Objects and lists may not, so the run is claimed before they change.
    """
    pending = updates(checkpoint, commits)
    if with_copies:
        pending |= receipt_updates(checkpoint, commits)
    while pending:
        stored = _load(pending, views)
        writes: list[ConditionalWrite] = []
        for key, update in pending.items():
            record = stored.get(key)
            version = None if record is None else record.version
            writes += (ConditionalWrite(new, version, expires_s(new)) for new in update(record))
        # Records that another projector has changed meanwhile are updated again.
        pending = {key: pending[key] for key in (_key(write.record) for write in views.put(writes))}
    claiming_views = ClaimingViews(views, claim)
    objects = ObjectProjection(checkpoint, commits, claiming_views, with_copies)
    try:
        objects.run()
        claiming_views.claim()  # also if there was nothing to write
    except RunOutdated as outdated:
        claiming_views.claim()  # Raises `RunTaken` if another projector has claimed a run meanwhile.
        # Another projector has completed the run, so the store refuses the checkpoint.
        if not _is_outdated(checkpoint, commits[-1].session, views):
            # Records of a list are missing, so the views start over.
            raise DamagedRecord(checkpoint.view_name(RUNS_VIEW), "", commits[-1].session) from outdated
    head = _count_events(checkpoint.head, commits)
    collections = checkpoint.collections | objects.collections
    return replace(checkpoint.at(head), collections=collections, latest_key_ms=_latest_key_ms(checkpoint, commits))


def _latest_key_ms(checkpoint: Checkpoint, commits: Sequence[Commit]) -> int:
    """The bound of the keys up to the last of `commits`."""
    latest_ms = max(checkpoint.latest_key_ms, *map(latest_key_ms, commits))
    if checkpoint.begun_at_ms and commits[0].session == checkpoint.head.session + 1:
        return latest_ms
    # Retention has deleted the commits before, so their keys are not known.
    return max(latest_ms, latest_unknown_key_ms(commits[0].previous_event_id))


def _is_outdated(checkpoint: Checkpoint, end: int, views: Views) -> bool:
    """Whether a later run has started, or the views were rebuilt."""
    current = load_checkpoint(PROJECTOR, checkpoint.head.server, views)
    return load_claim(checkpoint, views).end != end or current.generation > checkpoint.generation


def _count_events(before: Head, commits: Sequence[Commit]) -> Head:
    """The head after the commits, with its position. Commits of version 0.1.0 on DynamoDB do not know theirs."""
    head = commits[-1].head
    if head.position is not None or before.position is None or commits[0].session != before.session + 1:
        return head
    return head._replace(known_position=before.position + sum(commit.event_count for commit in commits))


def _load(keys: Iterable[RecordKey], views: Views) -> dict[RecordKey, Record]:
    items_by_view: dict[str, list[str]] = defaultdict(list)
    for view, item in keys:
        items_by_view[view].append(item)
    return {_key(record): record for view, items in items_by_view.items() for record in views.get(view, items).values()}


def _switch_over(builder: str, server: int, views: Views, now_ms: int) -> None:
    """Make the rebuilt views current. Retries if the projector moves its checkpoint at the same time."""
    while True:
        built, current = load_checkpoint(builder, server, views), load_checkpoint(PROJECTOR, server, views)
        switched = replace(built, switched_at_ms=now_ms).to_write(PROJECTOR, current.record_version)
        if current.generation >= built.generation or not views.put([switched]):
            return


def _delete_replaced_views(current: Checkpoint, views: Views, max_records: int | None = None) -> bool:
    """Delete the records of all earlier generations, about `max_records`. Returns whether none are left.

    All of them, because a crashed rebuild or a late projector may have left records in any.
    """
    deleted = 0
    collections = (KEYED, TAGGED, *vocabularies.collections())
    lists = map(list_view, vocabularies.collections())
    others = (SESSIONS_VIEW, LATEST_VIEW, BLOCKS_VIEW, TIMES_VIEW, RECEIPTS_VIEW, RUNS_VIEW)
    kinds = (*map(objects_view, collections), *lists, *others)
    for generation in range(1, current.generation):
        checkpoint = Checkpoint(Head(current.head.server), generation)
        for kind in kinds:
            while dropped := views.drop(checkpoint.view_name(kind)):
                deleted += dropped
                if max_records is not None and deleted >= max_records:
                    return False
    return True


def _key(record: Record) -> RecordKey:
    return record.view, record.item
