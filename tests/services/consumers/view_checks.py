"""Checks of views, and runs of the projector with crashes or other code at a chosen write."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.ref import KEYED, TAGGED, ObjectRef, State
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.block import BLOCK_BITS, time_item, time_item_range
from chalicelib.domain.views.list_index import ROOT_ITEM, Entry, Root, Summary, decode_leaf, decode_node
from chalicelib.domain.views.object_view import (
    ObjectView,
    Sessions,
    archive_item,
)
from chalicelib.domain.views.projection import latest_positions
from chalicelib.domain.views.record import (
    BLOCKS_VIEW,
    LATEST_VIEW,
    MAX_CHARACTER,
    PROJECTOR,
    RUNS_VIEW,
    SESSIONS_VIEW,
    TIMES_VIEW,
    Checkpoint,
    ConditionalWrite,
    Record,
    checkpoints_view,
    list_view,
    objects_view,
)
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import catch_up, run_once
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.block_search import BlockSearch
from tests.services.consumers.sample_events import (
    events_of,
    fill,
    sample_commits,
)

KINDS = (
    *(objects_view(name) for name in (KEYED, TAGGED, *vocabularies.collections())),
    *(list_view(name) for name in vocabularies.collections()),
    SESSIONS_VIEW,
    LATEST_VIEW,
    BLOCKS_VIEW,
    TIMES_VIEW,
    RUNS_VIEW,
)


class Crash(Exception):
    """A simulated crash."""


class InterceptedViews:
    """Views that call `before` before each single change and drop."""

    def __init__(
        self, views: Views, before: Callable[[ConditionalWrite | None], object], backwards: bool = False
    ) -> None:
        self._views = views
        self._before = before
        self._order = -1 if backwards else 1

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self._views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self._views.range(view, start, end, backwards)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        refused = []
        for change in changes[:: self._order]:
            self._before(change)
            refused += self._views.put([change])
        return refused

    def delete(self, view: str, items: Sequence[str]) -> None:
        self._before(None)
        self._views.delete(view, items)

    def drop(self, view: str) -> int:
        self._before(None)
        return self._views.drop(view)


def assert_exact(log: Log, views: Views, server: int) -> None:
    """Compare all views with the whole log."""
    commits = list(log.read(server, 0))
    checkpoint = load_checkpoint(PROJECTOR, server, views)
    assert checkpoint.head == log.head(server)
    assert objects(views, checkpoint) == expected_objects(events_of(commits))
    assert latest(views, checkpoint) == {
        event.fields.type: (event.id.session, event.id.instance) for event in events_of(commits)
    }
    listed = {
        ObjectRef(name, entry.path): entry.session
        for name in vocabularies.collections()
        for entry in current_entries(views, server, name)
    }
    assert listed == {
        ref: sessions[-1]
        for ref, (state, sessions) in expected_objects(events_of(commits)).items()
        if state is not None and ref.collection not in (KEYED, TAGGED)
    }
    assert_blocks(commits, views, checkpoint)
    assert_times(commits, list(views.range(checkpoint.view_name(TIMES_VIEW), "", MAX_CHARACTER)))


def assert_blocks(commits: Sequence[Commit], views: Views, checkpoint: Checkpoint) -> None:
    """Each type is found in all commits that contain it, and in few others."""
    if not commits:
        return
    sessions_by_type: dict[EventType, set[int]] = {}
    for event in events_of(commits):
        sessions_by_type.setdefault(event.fields.type, set()).add(event.id.session)
    view = checkpoint.view_name(BLOCKS_VIEW)
    for event_type, sessions in sessions_by_type.items():
        search = BlockSearch(views, view, Selection(types=(event_type,)), commits[0].session - 1, commits[-1].session)
        root = views.get(view, [search.root.item])[search.root.item]
        found = {session for first, last in search.ranges(root) for session in range(first, last + 1)}
        assert sessions <= found <= {commit.session for commit in commits}
    search = BlockSearch(views, view, Selection(types=(("no", "such", "type"),)), 0, commits[-1].session)
    assert list(search.ranges(views.get(view, [search.root.item])[search.root.item])) == []


def assert_times(commits: Sequence[Commit], records: Sequence[Record]) -> None:
    """Each record of the index by time names the first of few commits of a minute."""
    first_sessions: dict[str, int] = {}
    for commit in commits:
        first_sessions.setdefault(time_item(commit), commit.session)
        first, end = time_item_range(commit.at_us)
        assert first <= time_item(commit) < end
    assert [(record.item, record.version) for record in records] == sorted(first_sessions.items())
    assert len(commits) <= len(records) * 2**BLOCK_BITS


def expected_objects(events: Sequence[Event]) -> dict[ObjectRef, tuple[State | None, list[int]]]:
    """The state and the sessions of every object, folded event by event."""
    expected: dict[ObjectRef, tuple[State | None, list[int]]] = {}
    for event in events:
        for ref in vocabularies.affected_objects(event.fields):
            state, sessions = expected.get(ref, (None, []))
            state = from_json(to_json(vocabularies.fold(ref.collection, state, event)))
            expected[ref] = state, sorted({*sessions, event.id.session})
    return expected


def objects(views: Views, checkpoint: Checkpoint) -> dict[ObjectRef, tuple[State | None, list[int]]]:
    """The state and the sessions of every object according to the views."""
    return {
        ref: (ObjectView.from_record(record).state, [n for link in chain(views, checkpoint, ref) for n in link])
        for collection in (KEYED, TAGGED, *vocabularies.collections())
        for record in views.range(checkpoint.view_name(objects_view(collection)), "", MAX_CHARACTER)
        for ref in [ObjectRef(collection, record.item)]
    }


def chain(views: Views, checkpoint: Checkpoint, ref: ObjectRef) -> list[tuple[int, ...]]:
    """The sessions of an object, record by record, oldest first."""
    return [part.numbers for part in session_parts(views, checkpoint, ref)]


def session_parts(views: Views, checkpoint: Checkpoint, ref: ObjectRef) -> list[Sessions]:
    """The sessions of an object with copies of its events, record by record, oldest first."""
    view = ObjectView.from_record(views.get(checkpoint.view_name(objects_view(ref.collection)), [ref.path])[ref.path])
    parts = [view.recent]
    while parts[0].after:
        item = archive_item(ref, parts[0].after)
        parts.insert(0, Sessions.from_record(views.get(checkpoint.view_name(SESSIONS_VIEW), [item])[item]))
    return parts


def latest(views: Views, checkpoint: Checkpoint) -> dict[EventType, tuple[int, int]]:
    """Position of the last event of each type according to the view."""
    records = views.range(checkpoint.view_name(LATEST_VIEW), "", MAX_CHARACTER)
    return {kind: position for record in records for kind, position in latest_positions(record).items()}


def all_records(views: Views, server: int) -> dict[str, list[tuple[str, int, str]]]:
    """All records of a server's current generation, and the projector's checkpoint.

    The ordinals of objects, and which of their sessions are in archive records, depend on the lengths of the runs.
    Instead of the records of the list index, its current entries are returned, and instead of archive records all
    sessions of each object, which do not.
    """
    checkpoint = load_checkpoint(PROJECTOR, server, views)
    (checkpoint_record,) = views.get(checkpoints_view(server), [PROJECTOR]).values()
    kinds = [kind for kind in KINDS if kind not in (RUNS_VIEW, SESSIONS_VIEW) and not kind.startswith(list_view(""))]
    records_by_kind = {kind: list(views.range(checkpoint.view_name(kind), "", MAX_CHARACTER)) for kind in kinds}
    return {
        "checkpoint": [(checkpoint_record.item, checkpoint.head.session, _without_time(checkpoint_record.data))],
        **{
            kind: [(record.item, record.version, _content(views, checkpoint, kind, record)) for record in records]
            for kind, records in records_by_kind.items()
        },
        **{
            list_view(name): [(entry.path, entry.session, str(entry)) for entry in current_entries(views, server, name)]
            for name in vocabularies.collections()
        },
    }


def _without_time(data: str) -> str:
    """A checkpoint without the times when its views began and replaced others."""
    members = from_json(data)
    for name in ("s", "b"):
        members.pop(name, None)
    return to_json(members).decode()


def _content(views: Views, checkpoint: Checkpoint, kind: str, record: Record) -> str:
    """The content of a record. Of an object: its state and its sessions. The runs decide which events are copied."""
    prefix, _, collection = kind.partition(":")
    if objects_view(collection) != kind or prefix == kind:
        return without_ordinals(record)
    parts, view = session_parts(views, checkpoint, ObjectRef(collection, record.item)), ObjectView.from_record(record)
    return str((view.state, [session for part in parts for session in part.numbers]))


def without_ordinals(record: Record) -> str:
    """The content of a record, without the places of the object in the list index."""
    data = from_json(record.data)
    if isinstance(data, dict):
        data.pop("o", None)
    return to_json(data).decode()


def current_entries(views: Views, server: int, collection: str) -> list[Entry]:
    """The current entries of a list. The nodes and the root above them are checked."""
    view = load_checkpoint(PROJECTOR, server, views).view_name(list_view(collection))
    records = {record.item: record for record in views.range(view, "", MAX_CHARACTER)}
    if not records:
        return []
    root = Root.from_record(records.pop(ROOT_ITEM))
    leaves = [decode_leaf(record) for item, record in records.items() if item.startswith("0.")]
    entries = [entry for leaf in leaves for entry in leaf]
    assert len(entries) == root.size
    summaries = [Summary.of_entries(leaf) for leaf in leaves]
    for level in range(1, root.height + 1):
        nodes = [decode_node(record) for item, record in records.items() if item.startswith(f"{level}.")]
        assert [summary for node in nodes for summary in node] == summaries
        summaries = [Summary.of_children(node) for node in nodes]
    assert len(summaries) == 1
    current = [entry for entry in entries if not entry.replaced]
    for counts, names in ((root.states, [e.state for e in current]), (root.results, [e.result for e in current])):
        assert {name: n for name, n in (counts or {}).items() if n} == Counter(name for name in names if name)
    assert [entry.session for entry in entries] == sorted(entry.session for entry in entries)
    return current


def generations(views: Views, server: int) -> list[int]:
    """The generations that have any records."""
    return [
        generation
        for generation in range(10)
        if any(
            list(views.range(Checkpoint(Head(server), generation).view_name(kind), "", MAX_CHARACTER)) for kind in KINDS
        )
    ]


def project_undisturbed(log: Log, views: Views, server: int) -> dict[str, list[tuple[str, int, str]]]:
    """Project a log without interference and return all records."""
    fill(log, server, sample_commits(8))
    catch_up(projector(views), server, log, views)
    return all_records(views, server)


def run_all(log: Log, views: Views, server: int, limit: int) -> None:
    """Project to the end of the log, `limit` commits at a time."""
    while run_once(projector(views), server, log, views, limit):
        pass


def count_writes(log: Log, views: Views, server: int, limit: int) -> int:
    """Number of changes that an undisturbed projector writes."""
    fill(log, server, sample_commits(8))
    return len(record_writes(log, views, server, limit))


def record_writes(log: Log, views: Views, server: int, limit: int) -> list[ConditionalWrite]:
    """The changes that an undisturbed projector writes. All of them are in the views that the tests compare."""
    changes: list[ConditionalWrite | None] = []
    run_all(log, InterceptedViews(views, changes.append), server, limit)
    written = [change for change in changes if change is not None]
    names = {checkpoints_view(server), *(Checkpoint(Head(server)).view_name(kind) for kind in KINDS)}
    assert {change.record.view for change in written} <= names
    return written


def at_write(number: int, then: Callable[[], object]) -> Callable[[ConditionalWrite | None], None]:
    """Call `then` just before write `number`, counted from 0."""
    numbers = count()

    def before(_: ConditionalWrite | None) -> None:
        if next(numbers) == number:
            then()

    return before


def crash() -> None:
    raise Crash


def other_run(log: Log, views: Views, server: int, limit: int) -> Callable[[], int]:
    """A run of another projector."""
    other = projector(views)
    return lambda: run_once(other, server, log, views, limit)


def rebuild_of(log: Log, views: Views, server: int) -> Callable[[], None]:
    return lambda: rebuild(server, log, views, lambda *_: None)


def count_rebuild_writes(log: Log, views: Views, server: int) -> int:
    """Number of writes and drops of an undisturbed rebuild."""
    fill(log, server, sample_commits(8))
    run_once(projector(views), server, log, views, limit=6)
    steps: list[ConditionalWrite | None] = []
    rebuild(server, log, InterceptedViews(views, steps.append), lambda *_: None)
    return len(steps)
