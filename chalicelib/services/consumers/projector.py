"""Project: the consumer that builds the views."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from chalicelib.domain import vocabularies
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.ref import KEYED
from chalicelib.domain.views.projection import updates
from chalicelib.domain.views.record import BLOCKS, LATEST, PROJECT, SESSIONS, Change, Checkpoint, Record, objects_view
from chalicelib.services.consumers.consumer import Consumer, checkpoint_of, run
from chalicelib.services.ports import Log, Views

REBUILD = "rebuild"
"""The consumer that builds them anew."""


def projector(views: Views) -> Consumer:
    """The consumer that keeps the views up to date."""
    return Consumer(PROJECT, lambda checkpoint, commits: _project(checkpoint, commits, views))


def rebuild(
    server: int, log: Log, views: Views, progress: Callable[[int, int], None], kept: Head | None = None
) -> None:
    """Build all views of a server anew beside the old ones, change over at once, then forget the old ones.

    Two at the same time do no harm: both go on with what was begun last.
    """
    builder = Consumer(REBUILD, projector(views).handle)
    _begin(builder.name, kept or Head(server), views)
    while run(builder, server, log, views, kept=kept):
        progress(checkpoint_of(builder.name, server, views).head.session, log.head(server).session)
    _change_over(builder.name, server, views)
    # All of them, for a rebuild that crashed and a projector that was late may have left something.
    for generation in range(1, checkpoint_of(PROJECT, server, views).generation):
        _forget(Checkpoint(Head(server), generation), views)


def start_over(server: int, views: Views) -> None:
    """Let the views of a server be built anew from nothing; until they are, all is read from the log."""
    current = checkpoint_of(PROJECT, server, views)
    newest = max(current.generation, checkpoint_of(REBUILD, server, views).generation)
    views.put([Checkpoint(Head(server), newest + 1).change(PROJECT, current.was)])


def _begin(builder: str, start: Head, views: Views) -> None:
    """Take a generation that nobody has written to: an earlier rebuild may still run.

    It begins at what is kept: of a log that retention has emptied, nothing else remembers where it ended.
    """
    while True:
        last = checkpoint_of(builder, start.server, views)
        newest = max(last.generation, checkpoint_of(PROJECT, start.server, views).generation)
        if not views.put([Checkpoint(start, newest + 1).change(builder, last.was)]):
            return


def _project(checkpoint: Checkpoint, commits: Sequence[Commit], views: Views) -> None:
    waiting = updates(checkpoint, commits)
    while waiting:
        stored = _stored(waiting, views)
        before: list[Change] = []
        changes: list[Change] = []
        for place, update in waiting.items():
            was = stored.get(place)
            records = update(was)
            before += (Change(record, None) for record in records[:-1])
            changes += (Change(record, None if was is None else was.to) for record in records[-1:])
        # Refused means written before: such a record's name says all that it holds.
        views.put(before)
        refused = views.put(changes)
        waiting = {place: waiting[place] for place in (_place(change.record) for change in refused)}


def _stored(places: Iterable[tuple[str, str]], views: Views) -> dict[tuple[str, str], Record]:
    items: dict[str, list[str]] = defaultdict(list)
    for view, item in places:
        items[view].append(item)
    return {_place(record): record for view, some in items.items() for record in views.get(view, some).values()}


def _change_over(builder: str, server: int, views: Views) -> None:
    """Let the new views be the ones; repeated if the projector of the old ones moves its checkpoint meanwhile."""
    while True:
        built, current = checkpoint_of(builder, server, views), checkpoint_of(PROJECT, server, views)
        if current.generation >= built.generation or not views.put([built.change(PROJECT, current.was)]):
            return


def _forget(checkpoint: Checkpoint, views: Views) -> None:
    collections = (KEYED, *vocabularies.collections())
    for kind in (*map(objects_view, collections), SESSIONS, LATEST, BLOCKS):
        while views.drop(checkpoint.view(kind)):
            pass


def _place(record: Record) -> tuple[str, str]:
    return record.view, record.item
