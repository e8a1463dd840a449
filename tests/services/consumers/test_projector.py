"""The projector: its views say what the log says, whoever else runs, wherever it stops."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.body import body_of
from chalicelib.domain.events.event import Event, NewEvent, encode
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.ref import KEYED, ObjectRef, State
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.block import BLOCK_BITS, Block, block_item, block_items_of
from chalicelib.domain.views.object_view import SESSIONS_AT_HAND, ObjectView, moved, moved_item
from chalicelib.domain.views.projection import latest_positions
from chalicelib.domain.views.record import (
    BLOCKS,
    END,
    LATEST,
    PROJECT,
    SESSIONS,
    Change,
    Checkpoint,
    Record,
    checkpoints,
    objects_view,
)
from chalicelib.services.consumers.consumer import Consumer, catch_up, checkpoint_of, run
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.ports import Log, Views
from tests.services.worlds import NOW

EXAMPLES = {"sqlite": 40, "moto": 2}
PLACES = {"sqlite": 1, "moto": 60}
"""A crash or another's run at every write; moto is slow, there at one or two of them."""
RUNS = {"sqlite": [(6, 4), (4, 6), (3, 20)], "moto": [(6, 4)]}
"""How many commits two projectors take at most."""
MINUTE = 60_000_000
KINDS = (*(objects_view(name) for name in (KEYED, *vocabularies.collections())), SESSIONS, LATEST, BLOCKS)

Text = tuple[EventType, str | None, Any]
"""An event to write: its type, its key, the data of its payload."""

ORDER, CHAIN, JOB, TASK, FILE = "OrderEvent", "JobChainEvent", "JobEvent", "TaskEvent", "FileBasedEvent"
EVENTS: Sequence[Text] = [
    (("a", "b"), "/1", None),
    (("a", "c", "d"), "/1", 7),
    (("a", "c", "d"), "/ß/日本", None),
    (("a",), None, None),
    ((), None, None),
    (("unknown", "scheduler"), "/chain,1", {}),
    (("scheduler", ORDER, "OrderAdded"), "/chain,1", {"nodeId": "100"}),
    (("scheduler", ORDER, "OrderStarted"), "/chain,1", {}),
    (("scheduler", ORDER, "OrderStepStarted"), "/chain,1", {"nodeId": "200", "taskId": "3"}),
    (("scheduler", ORDER, "OrderStepStarted"), "/chain,2", {"nodeId": "200", "taskId": "4"}),
    (("scheduler", ORDER, "OrderSuspended"), "/chain,1", {}),
    (("scheduler", ORDER, "OrderRemoved"), "/chain,1", {}),
    (("scheduler", ORDER, "OrderStepStarted"), "/chain,1", {"this": "does not follow the vocabulary"}),
    (("scheduler", CHAIN, "JobChainStateChanged"), "/chain", {"state": "running"}),
    (("scheduler", JOB, "JobStateChanged"), "/job", {"state": "pending"}),
    (("scheduler", TASK, "TaskStarted"), "/job:3", {}),
    (("scheduler", TASK, "TaskEnded"), "/job:3", {"returnCode": 0}),
    (("scheduler", "CustomEvent", "VariablesCustomEvent"), "custom", {"variables": {"a": "b"}}),
    (("scheduler", "Logged"), None, {"level": "info", "message": "hello"}),
    (("scheduler", FILE, "FileBasedAdded"), "Order:/chain,1", {}),
    (("scheduler", FILE, "FileBasedActivated"), "JobChain:/chain", {}),
    (("scheduler", FILE, "FileBasedRemoved"), "Order:/chain,1", {}),
    (("scheduler", "SchedulerEvent", "SchedulerStateChanged"), None, {"state": "running"}),
    (("scheduler", "Nobody has heard of this"), "/chain,1", {}),
]
events = st.sampled_from(EVENTS)
gaps = st.sampled_from([1, 1_000_000, 20_000_000, 300_000_000])
"""Microseconds between commits."""
batches = st.lists(st.tuples(gaps, st.lists(events, min_size=1, max_size=4)), max_size=14)


def rare(seed: int) -> str:
    """Text of 200 characters and 600 bytes that hardly deflates."""
    return "".join(map(chr, random.Random(seed).choices(range(0x4E00, 0x9F00), k=200)))


NODES: list[Any] = [None, True, 1, 1.5, "1", [], {}]
ODD: dict[str, list[Text]] = {
    "a file without a path": [(("scheduler", FILE, "FileBasedAdded"), "Order:", {})],
    "a file without a kind": [(("scheduler", FILE, "FileBasedAdded"), "/a", {})],
    "a file of neither": [(("scheduler", FILE, "FileBasedAdded"), ":", {})],
    "a state that is too large": [
        (("scheduler", CHAIN, "JobChainNodeActionChanged"), "/chain", {"nodeId": rare(n), "action": rare(n + 10_000)})
        for n in range(500)
    ],
    "nodes that are no text": [
        (("scheduler", CHAIN, "JobChainNodeActionChanged"), "/chain", {"nodeId": node, "action": "stop"})
        for node in NODES
    ],
    "the longest key": [(("scheduler", CHAIN, "JobChainStateChanged"), "/" + "x" * 899, {})],
    "the longest type": [(("x" * 900,), None, None), (("scheduler", "y" * 890), "/1", None)],
    "many long types": [(("x" * 880 + f"{n:03d}",), None, None) for n in range(120)],
}
"""Events that anybody may publish, and nobody should."""


class Crash(Exception):
    """The process ends."""


class Written:
    """Views that let something happen before every single change, and before every drop."""

    def __init__(self, views: Views, before: Callable[[Change | None], object], backwards: bool = False) -> None:
        self._views = views
        self._before = before
        self._order = -1 if backwards else 1

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self._views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self._views.range(view, start, end, backwards)

    def put(self, changes: Sequence[Change]) -> list[Change]:
        refused = []
        for change in changes[:: self._order]:
            self._before(change)
            refused += self._views.put([change])
        return refused

    def drop(self, view: str) -> int:
        self._before(None)
        return self._views.drop(view)


@pytest.fixture(params=["sqlite", "moto"])
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def views(request: pytest.FixtureRequest, store: str) -> Views:
    found: Views = request.getfixturevalue(f"{store}_views")
    return found


@pytest.fixture
def servers() -> Iterator[int]:
    """Numbers of servers that nobody has used."""
    return count(1)


def test_the_views_say_what_all_events_say(log: Log, views: Views, store: str, servers: Iterator[int]) -> None:
    @settings(max_examples=EXAMPLES[store], deadline=None)
    @given(batches, st.lists(st.integers(1, 5), max_size=9))
    def check(commits: Sequence[tuple[int, Sequence[Text]]], steps: Sequence[int]) -> None:
        server = next(servers)
        fill(log, server, commits)
        for most in steps:
            run(projector(views), server, log, views, most)
        catch_up(projector(views), server, log, views)
        assert_exact(log, views, server)

    check()


def test_every_run_takes_the_next_commits_and_says_how_many(log: Log, views: Views) -> None:
    commits = fill(log, 1, some(7))
    assert [run(projector(views), 1, log, views, most=3) for _ in range(4)] == [3, 3, 1, 0]
    assert checkpoint_of(PROJECT, 1, views) == Checkpoint(commits[-1].head, 1, 2**44 + 7)


def test_between_runs_the_views_say_what_the_log_said_up_to_the_checkpoint(log: Log, views: Views) -> None:
    commits = fill(log, 1, some(9))
    for most in (2, 1, 4, 2):
        run(projector(views), 1, log, views, most)
        done = checkpoint_of(PROJECT, 1, views).head.session
        assert objects(views, checkpoint_of(PROJECT, 1, views)) == expected_objects(events_of(commits[:done]))


def test_projecting_again_changes_nothing(log: Log, views: Views) -> None:
    commits = fill(log, 1, some(20))
    catch_up(projector(views), 1, log, views)
    records = all_records(views, 1)
    catch_up(projector(views), 1, log, views)
    for start in range(0, 20, 4):
        projector(views).handle(Checkpoint(Head(1)), commits[start : start + 7])
    assert all_records(views, 1) == records


def test_the_servers_do_not_touch_each_other(log: Log, views: Views) -> None:
    fill(log, 1, some(5))
    catch_up(projector(views), 1, log, views)
    records = all_records(views, 1)
    fill(log, 11, some(8))
    catch_up(projector(views), 11, log, views)
    assert all_records(views, 1) == records
    assert_exact(log, views, 11)


def test_however_the_log_is_cut_into_runs_the_views_are_the_same(log: Log, views: Views, store: str) -> None:
    servers = count(2)
    records = undisturbed(log, views, 1)

    @settings(max_examples=EXAMPLES[store], deadline=None)
    @given(st.lists(st.integers(1, 6), max_size=12))
    def check(steps: Sequence[int]) -> None:
        server = next(servers)
        fill(log, server, some(8))
        for most in steps:
            run(projector(views), server, log, views, most)
        catch_up(projector(views), server, log, views)
        assert all_records(views, server) == records

    check()


def test_a_projector_overtaken_at_any_write_by_another_does_no_harm(
    log: Log, views: Views, store: str, servers: Iterator[int]
) -> None:
    records = undisturbed(log, views, next(servers))
    for most, others in RUNS[store]:
        for number in range(0, writes(log, views, next(servers), most), PLACES[store]):
            server = next(servers)
            fill(log, server, some(8))
            run_all(log, Written(views, at_write(number, other_run(log, views, server, others))), server, most)
            assert all_records(views, server) == records


def test_two_projectors_that_take_turns_at_every_write_do_no_harm(log: Log, views: Views) -> None:
    records = undisturbed(log, views, 1)
    fill(log, 2, some(8))
    other = other_run(log, views, 2, most=1)
    run_all(log, Written(views, lambda _: other()), 2, most=5)
    assert all_records(views, 2) == records


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "in another order"])
def test_a_crash_after_any_write_is_made_good_by_the_next_run(
    log: Log, views: Views, store: str, servers: Iterator[int], backwards: bool
) -> None:
    records = undisturbed(log, views, next(servers))
    for most, again in [*RUNS[store], (5, 5)]:
        for number in range(0, writes(log, views, next(servers), most), PLACES[store]):
            server = next(servers)
            fill(log, server, some(8))
            with pytest.raises(Crash):
                run_all(log, Written(views, at_write(number, crash), backwards), server, most)
            run_all(log, views, server, again)
            assert all_records(views, server) == records


def test_an_object_keeps_all_its_sessions_when_they_roll_over(
    log: Log, views: Views, store: str, servers: Iterator[int]
) -> None:
    for most in (1, 150, 1000) if store == "sqlite" else (200,):
        server = next(servers)
        fill(log, server, rolling(2 * SESSIONS_AT_HAND + 40))
        run_all(log, views, server, most)
        assert_exact(log, views, server)
        checkpoint = checkpoint_of(PROJECT, server, views)
        often, order = (
            chain(views, checkpoint, ref) for ref in (ObjectRef(KEYED, "/often"), ObjectRef("order", "/c,1"))
        )
        assert all(len(sessions) <= SESSIONS_AT_HAND + most for sessions in (*often, *order))
        moved_away = list(views.range(checkpoint.view(SESSIONS), "", END))
        assert len(moved_away) == len(often) - 1 + len(order) - 1 >= 2


@pytest.mark.parametrize("again", [150, 40, 700], ids=["the same commits", "fewer", "more"])
def test_a_crash_while_sessions_roll_over_loses_none(log: Log, sqlite_views: Views, again: int) -> None:
    fill(log, 99, rolling(SESSIONS_AT_HAND + 300))
    moves = [n for n, change in enumerate(noted(log, sqlite_views, 99, 150)) if change.record.view.endswith(SESSIONS)]
    assert len(moves) > 1
    for server, number in enumerate([n + after for n in moves for after in (0, 1, 2)], start=100):
        fill(log, server, rolling(SESSIONS_AT_HAND + 300))
        with pytest.raises(Crash):
            run_all(log, Written(sqlite_views, at_write(number, crash)), server, 150)
        run_all(log, sqlite_views, server, again)
        assert_exact(log, sqlite_views, server)


def test_a_rebuild_makes_the_same_views_and_forgets_the_old_ones(log: Log, views: Views) -> None:
    fill(log, 1, some(30))
    catch_up(projector(views), 1, log, views)
    before = all_records(views, 1)
    told: list[tuple[int, int]] = []
    rebuild(1, log, views, lambda done, head: told.append((done, head)))
    assert checkpoint_of(PROJECT, 1, views).generation == 2
    assert all_records(views, 1) == before
    assert generations(views, 1) == [2]
    assert told == [(30, 30)]


def test_a_rebuild_of_nothing_and_a_rebuild_before_any_run_are_fine(log: Log, views: Views) -> None:
    rebuild(1, log, views, lambda *_: None)
    assert all_records(views, 1) == {"checkpoint": [(PROJECT, 0, '{"n":0,"last":0}')], **{kind: [] for kind in KINDS}}
    fill(log, 2, some(30))
    rebuild(2, log, views, lambda *_: None)
    assert_exact(log, views, 2)
    assert generations(views, 2) == [2]


def test_a_rebuild_remembers_the_end_of_a_log_of_which_nothing_is_kept(log: Log, views: Views) -> None:
    commits = some(5)
    fill(log, 1, commits)
    kept = log.head(1)
    rebuild(1, log, views, lambda *_: None, kept)
    assert checkpoint_of(PROJECT, 1, views).head == kept


def test_a_rebuild_mends_views_that_were_damaged(log: Log, views: Views) -> None:
    fill(log, 1, some(30))
    catch_up(projector(views), 1, log, views)
    before = all_records(views, 1)
    for kind in (LATEST, objects_view("order")):
        for record in list(views.range(Checkpoint(Head(1)).view(kind), "", END)):
            assert views.put([Change(replace(record, data="damaged"), record.to)]) == []
    rebuild(1, log, views, lambda *_: None)
    assert all_records(views, 1) == before


def test_a_rebuild_goes_on_while_the_projector_runs_and_writers_write(log: Log, views: Views, store: str) -> None:
    """At every write of the rebuild, a commit is added, or the projector runs. Two runs on SQLite."""
    before, meanwhile = some(230 if store == "sqlite" else 12), some(8)
    fill(log, 1, before)
    run(projector(views), 1, log, views, most=10)
    left = iter(meanwhile)
    turn = count()

    def others(_: Change | None) -> None:
        if next(turn) % 2:
            fill(log, 1, [commit for commit in [next(left, None)] if commit])
        else:
            run(projector(views), 1, log, views, most=2)

    rebuild(1, log, Written(views, others), lambda *_: None)
    catch_up(projector(views), 1, log, views)
    assert list(left) == []
    assert checkpoint_of(PROJECT, 1, views).generation == 2
    assert_exact(log, views, 1)
    assert generations(views, 1) == [2]
    fill(log, 2, [*before, *meanwhile])
    catch_up(projector(views), 2, log, views)
    assert all_records(views, 1) == all_records(views, 2)


def test_a_projector_overtaken_at_any_write_by_a_rebuild_does_no_harm(
    log: Log, sqlite_views: Views, servers: Iterator[int]
) -> None:
    records = undisturbed(log, sqlite_views, next(servers))
    for number in range(writes(log, sqlite_views, next(servers), 5)):
        server = next(servers)
        fill(log, server, some(8))
        run_all(log, Written(sqlite_views, at_write(number, rebuilding(log, sqlite_views, server))), server, 5)
        assert all_records(sqlite_views, server) == records


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "in another order"])
def test_a_rebuild_that_crashed_after_any_write_is_made_good_by_another(
    log: Log, sqlite_views: Views, servers: Iterator[int], backwards: bool
) -> None:
    records = undisturbed(log, sqlite_views, next(servers))
    for number in range(steps_of_rebuild(log, sqlite_views, next(servers))):
        server = next(servers)
        fill(log, server, some(8))
        run(projector(sqlite_views), server, log, sqlite_views, most=6)
        with pytest.raises(Crash):
            rebuild(server, log, Written(sqlite_views, at_write(number, crash), backwards), lambda *_: None)
        run(projector(sqlite_views), server, log, sqlite_views, most=1)
        rebuild(server, log, sqlite_views, lambda *_: None)
        catch_up(projector(sqlite_views), server, log, sqlite_views)
        assert all_records(sqlite_views, server) == records


def test_a_rebuild_forgets_what_a_crashed_one_and_an_overtaken_projector_left(
    log: Log, sqlite_views: Views, servers: Iterator[int]
) -> None:
    for number in range(steps_of_rebuild(log, sqlite_views, next(servers))):
        server = next(servers)
        fill(log, server, some(8))
        late = Written(sqlite_views, at_write(2, rebuilding(log, sqlite_views, server)))
        run(projector(late), server, log, late, most=6)
        with pytest.raises(Crash):
            rebuild(server, log, Written(sqlite_views, at_write(number, crash)), lambda *_: None)
        rebuild(server, log, sqlite_views, lambda *_: None)
        assert generations(sqlite_views, server) == [checkpoint_of(PROJECT, server, sqlite_views).generation]


def test_a_rebuild_that_another_rebuild_overtook_does_no_harm(
    log: Log, sqlite_views: Views, servers: Iterator[int]
) -> None:
    """The first stops at some write, the second begins, goes some way and crashes, the first goes on."""
    records = undisturbed(log, sqlite_views, next(servers))
    for number in range(steps_of_rebuild(log, sqlite_views, next(servers))):
        server = next(servers)
        fill(log, server, some(8))
        run(projector(sqlite_views), server, log, sqlite_views, most=6)
        second = Written(sqlite_views, at_write(number % 20, crash))

        def overtake(server: int = server, second: Views = second) -> None:
            with pytest.raises(Crash):
                rebuild(server, log, second, lambda *_: None)

        rebuild(server, log, Written(sqlite_views, at_write(number, overtake)), lambda *_: None)
        catch_up(projector(sqlite_views), server, log, sqlite_views)
        assert all_records(sqlite_views, server) == records


@pytest.mark.parametrize("odd", ODD)
def test_no_event_that_can_be_published_stops_the_projector(log: Log, moto_views: Views, odd: str) -> None:
    for server, most in ((1, 1 if len(ODD[odd]) < 10 else 100), (2, 200)):
        fill(log, server, [(1_000, [event]) for event in ODD[odd]])
        run_all(log, moto_views, server, most)
    assert_exact(log, moto_views, 1)
    assert all_records(moto_views, 1) == all_records(moto_views, 2)


@given(st.lists(st.lists(events, min_size=1, max_size=3), min_size=1, max_size=6), st.data())
def test_a_block_may_hold_whatever_selects_one_of_its_events(found: Sequence[Sequence[Text]], data: Any) -> None:
    commits = chained_commits(1, Head(1), [(1, texts) for texts in found])
    block = Block.before(commits[0]).folded(commits)
    event = data.draw(st.sampled_from(events_of(commits)))
    subtypes = [data.draw(st.sampled_from([subtype, "?"])) for subtype in event.stored.type]
    pattern = data.draw(st.sampled_from([tuple(subtypes), (*subtypes[: len(subtypes) // 2], "*"), (*subtypes, "*")]))
    selection = Selection(types=(("none", "of", "them"), pattern))
    assert selection.selects(event)
    assert block.may_hold(selection)


def assert_exact(log: Log, views: Views, server: int) -> None:
    """Check all views against the whole log, each in the simplest way there is."""
    commits = list(log.read(server, 0))
    checkpoint = checkpoint_of(PROJECT, server, views)
    assert checkpoint.head == log.head(server)
    assert objects(views, checkpoint) == expected_objects(events_of(commits))
    assert latest(views, checkpoint) == {
        event.stored.type: (event.id.session, event.id.instance) for event in events_of(commits)
    }
    assert_blocks(commits, list(views.range(checkpoint.view(BLOCKS), "", END)))


def assert_blocks(commits: Sequence[Commit], records: Sequence[Record]) -> None:
    """Together they are the log, one after the other; each is short and knows what it holds."""
    blocks = [Block.of(record) for record in records]
    assert [n for block in blocks for n in range(block.first, block.to + 1)] == [commit.session for commit in commits]
    for record, block in zip(records, blocks, strict=True):
        own = commits[block.first - 1 : block.to]
        assert {block_item(commit) for commit in own} == {record.item}
        assert (block.events, len({commit.at // MINUTE for commit in own})) == (sum(c.n for c in own), 1)
        assert len(own) <= 2**BLOCK_BITS
        first, end = block_items_of(own[0].at)
        assert first <= record.item < end
        assert all(block.may_hold(Selection(types=(event.stored.type,))) for event in events_of(own))


def expected_objects(found: Sequence[Event]) -> dict[ObjectRef, tuple[State | None, list[int]]]:
    """The state and the sessions of every object, folded event by event."""
    expected: dict[ObjectRef, tuple[State | None, list[int]]] = {}
    for event in found:
        for ref in vocabularies.objects_of(event.stored):
            state, sessions = expected.get(ref, (None, []))
            state = from_json(to_json(vocabularies.fold(ref.collection, state, event)))
            expected[ref] = state, sorted({*sessions, event.id.session})
    return expected


def objects(views: Views, checkpoint: Checkpoint) -> dict[ObjectRef, tuple[State | None, list[int]]]:
    """The state and the sessions of every object, as the views say."""
    return {
        ref: (ObjectView.of(record).state, [n for link in chain(views, checkpoint, ref) for n in link])
        for collection in (KEYED, *vocabularies.collections())
        for record in views.range(checkpoint.view(objects_view(collection)), "", END)
        for ref in [ObjectRef(collection, record.item)]
    }


def chain(views: Views, checkpoint: Checkpoint, ref: ObjectRef) -> list[tuple[int, ...]]:
    """The sessions of an object, record by record, oldest first."""
    view = ObjectView.of(views.get(checkpoint.view(objects_view(ref.collection)), [ref.path])[ref.path])
    links, last = [view.recent], view.moved_to
    while last:
        item = moved_item(ref, last)
        last, sessions = moved(views.get(checkpoint.view(SESSIONS), [item])[item])
        links.insert(0, sessions)
    return links


def latest(views: Views, checkpoint: Checkpoint) -> dict[EventType, tuple[int, int]]:
    """Where the last event of each type is, as the view says."""
    records = views.range(checkpoint.view(LATEST), "", END)
    return {kind: position for record in records for kind, position in latest_positions(record).items()}


def all_records(views: Views, server: int) -> dict[str, list[tuple[str, int, str]]]:
    """Everything that the views of a server's current generation hold, and its projector's checkpoint."""
    checkpoint = checkpoint_of(PROJECT, server, views)
    (own,) = views.get(checkpoints(server), [PROJECT]).values()
    found = {kind: list(views.range(checkpoint.view(kind), "", END)) for kind in KINDS}
    return {
        "checkpoint": [(own.item, checkpoint.head.session, own.data)],
        **{kind: [(record.item, record.to, record.data) for record in records] for kind, records in found.items()},
    }


def generations(views: Views, server: int) -> list[int]:
    """The generations that have any records."""
    return [
        generation
        for generation in range(10)
        if any(list(views.range(Checkpoint(Head(server), generation).view(kind), "", END)) for kind in KINDS)
    ]


def undisturbed(log: Log, views: Views, server: int) -> dict[str, list[tuple[str, int, str]]]:
    """Everything that the views hold of a log that was projected at once."""
    fill(log, server, some(8))
    catch_up(projector(views), server, log, views)
    return all_records(views, server)


def run_all(log: Log, views: Views, server: int, most: int) -> None:
    """Project to the end of the log, so many commits at a time."""
    while run(projector(views), server, log, views, most):
        pass


def writes(log: Log, views: Views, server: int, most: int) -> int:
    """How many changes an undisturbed projector writes."""
    fill(log, server, some(8))
    return len(noted(log, views, server, most))


def noted(log: Log, views: Views, server: int, most: int) -> list[Change]:
    """The changes that an undisturbed projector writes; none of them outside of the views that we compare."""
    changes: list[Change | None] = []
    run_all(log, Written(views, changes.append), server, most)
    written = [change for change in changes if change is not None]
    names = {checkpoints(server), *(Checkpoint(Head(server)).view(kind) for kind in KINDS)}
    assert {change.record.view for change in written} <= names
    return written


def at_write(number: int, then: Callable[[], object]) -> Callable[[Change | None], None]:
    """Do something just before the write with this number, from 0."""
    numbers = count()

    def before(_: Change | None) -> None:
        if next(numbers) == number:
            then()

    return before


def crash() -> None:
    raise Crash


def other_run(log: Log, views: Views, server: int, most: int) -> Callable[[], int]:
    """A run of another projector."""
    other: Consumer = projector(views)
    return lambda: run(other, server, log, views, most)


def rebuilding(log: Log, views: Views, server: int) -> Callable[[], None]:
    return lambda: rebuild(server, log, views, lambda *_: None)


def steps_of_rebuild(log: Log, views: Views, server: int) -> int:
    """How many writes and drops an undisturbed rebuild makes."""
    fill(log, server, some(8))
    run(projector(views), server, log, views, most=6)
    steps: list[Change | None] = []
    rebuild(server, log, Written(views, steps.append), lambda *_: None)
    return len(steps)


def some(commits: int) -> list[tuple[int, Sequence[Text]]]:
    """So many commits with events of all kinds, some of them minutes apart."""
    return [
        (70_000_000 if n % 5 == 4 else 1_000, [EVENTS[(3 * n + i * i) % len(EVENTS)] for i in range(1 + n % 3)])
        for n in range(commits)
    ]


def rolling(commits: int) -> list[tuple[int, Sequence[Text]]]:
    """So many commits, almost all of them with events of one object, some with others."""
    often: Text = (("a", "b"), "/often", None)
    order: Text = (("scheduler", ORDER, "OrderStarted"), "/c,1", {})
    return [(1_000, [order, often] if n % 3 else [often, often] if n % 50 else [order]) for n in range(commits)]


def fill(log: Log, server: int, commits: Sequence[tuple[int, Sequence[Text]]]) -> list[Commit]:
    """Append commits with these gaps before them and these events."""
    chained = chained_commits(server, log.head(server), commits)
    log.append(chained, [], 0)
    return chained


def chained_commits(server: int, head: Head, commits: Sequence[tuple[int, Sequence[Text]]]) -> list[Commit]:
    found: list[Commit] = []
    for gap, texts in commits:
        at = max(head.last, NOW) + gap
        commit = Commit(server, head.session + 1, at, len(texts), head.last, "r", body_of(map(text, texts)))
        found.append(commit)
        head = commit.head
    return found


def text(event: Text) -> str:
    """The JSON that the log keeps of an event."""
    event_type, key, data = event
    payload = None if data is None else {"type": "json", "data": data}
    return encode(NewEvent.model_validate({"type": event_type, "key": key, "payload": payload})).decode()


def events_of(commits: Sequence[Commit]) -> list[Event]:
    return [event for commit in commits for event in commit.events]
