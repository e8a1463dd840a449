"""The machine: writes, projects, crashes and rebuilds at random, and compares every answer with the plain list."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pydantic_core import from_json

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import ConditionFailed
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import Append, AppendCondition, encoded
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import ObjectSelection, Selection
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.domain.views.record import PROJECT
from chalicelib.services.consumers.consumer import catch_up, checkpoint_of, run
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.feeds.feed import FeedQuery, follow
from chalicelib.services.log.appender import Appender
from chalicelib.services.objects.snapshots import snapshot, state_at
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.timeseries import timeseries
from tests.exactness import events as given
from tests.exactness import plain
from tests.exactness.plain import Plain
from tests.exactness.stores import Crash, Moment, Once, WatchedLog, WatchedViews, WrittenViews
from tests.services.worlds import World

MOST_PAGES = 300
FAR_US = 10**9
EVERYTHING = PathQuery.of("/")


@dataclass
class Store:
    """What all runs of the machine share: each has servers of its own."""

    name: str
    log: Log
    views: Views
    servers: Iterator[int]
    seen: Counter[str]
    """How often which path was taken."""


@dataclass(frozen=True)
class Race:
    """What somebody else does at the n-th use of a store by a reader."""

    uses: int
    what: str
    events: Sequence[NewEvent]


def _progress(done: int, all_: int) -> None:
    """Nobody looks."""
    del done, all_


class Waking:
    """Something happens while a reader waits."""

    def __init__(self, world: World, happen: Moment) -> None:
        self._world = world
        self._happen = happen

    def wait(self, seen: Head, selection: Selection, timeout_s: float, turn: int) -> Head | None:
        del selection, turn
        self._happen()
        self._world.elapsed_s += min(timeout_s, 0.4)
        return seen

    def close(self) -> None:
        """Nobody waits."""


places = st.integers(0, 10_000)
"""Where in a log; see `Reads._position`."""
whichever = st.sampled_from([0, 0, 0, 1])
"""Which server: mostly the first, so that its log gets long."""
bound_steps = st.integers(1, 6)
uses = st.integers(1, 25)
races = st.none() | st.builds(
    Race, st.integers(1, 12), st.sampled_from(["append", "project", "catch up", "rebuild"]), given.commits_of_events
)
clock_steps_ms = st.sampled_from([0, 0, 1, 900, 20_000, 60_000, 200_000])
limits = st.none() | st.sampled_from([1, 2, 3, 7, 50, -1, -2, -3, -50])


class Reads(RuleBasedStateMachine):
    """Two logs, their views, and the plain lists of what was written."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.log, self.views, self.seen = store.log, store.views, store.seen
        self.world = World()
        self.appender = self.world.appender(self.log)
        self.plains = [Plain(next(store.servers)), Plain(next(store.servers))]
        self.requests = count()
        self.collections = cycle(vocabularies.collections())
        self.keeping = {events: Retention(self.log, self.world.clock, events=events) for events in (0, 1, 7, 30)}

    # What happens

    @initialize(commits=st.lists(given.commits_of_events, min_size=2, max_size=4), most=bound_steps, k=uses)
    def begin(self, commits: list[list[NewEvent]], most: int, k: int) -> None:
        """A log with lists of sessions that have moved, and a projector that has got stuck."""
        self.append_many(step_ms=20_000, commits=commits, times=3)
        self.project(which=0, most=6)
        self.project_and_crash(which=0, most=most, k=k)

    @rule(which=whichever, step_ms=clock_steps_ms, events=given.commits_of_events)
    def append(self, which: int, step_ms: int, events: list[NewEvent]) -> None:
        self.world.now_ms += step_ms
        self._append(self.plains[which], events)

    @rule(step_ms=clock_steps_ms, commits=st.lists(given.commits_of_events, min_size=2, max_size=4), times=bound_steps)
    def append_many(self, step_ms: int, commits: list[list[NewEvent]], times: int) -> None:
        for events in commits * times:
            self.world.now_ms += step_ms
            self._append(self.plains[0], events)

    @rule(which=whichever, most=bound_steps)
    def project(self, which: int, most: int) -> None:
        run(projector(self.views), self.plains[which].server, self.log, self.views, most)

    @rule(which=whichever, most=bound_steps, k=uses)
    def project_and_crash(self, which: int, most: int, k: int) -> None:
        crashing = WrittenViews(self.views, self.seen, Once(k, self._crash))
        try:
            run(projector(crashing), self.plains[which].server, self.log, crashing, most)
        except Crash:
            self.seen["crashed"] += 1

    @rule(which=whichever, most=bound_steps)
    def project_all_but_the_checkpoint(self, which: int, most: int) -> None:
        of = self.plains[which]
        checkpoint = checkpoint_of(PROJECT, of.server, self.views)
        commits = list(self.log.read(of.server, checkpoint.head.session, most))
        projector(self.views).handle(checkpoint, commits)

    @rule(
        which=whichever,
        most=bound_steps,
        k=uses,
        other=bound_steps,
        crash=st.none() | uses,
        events=given.commits_of_events,
    )
    def project_and_be_overtaken(
        self, which: int, most: int, k: int, other: int, crash: int | None, events: list[NewEvent]
    ) -> None:
        """By one that comes further, or not so far, or crashes."""
        of = self.plains[which]

        def overtake() -> None:
            self._append(of, events)
            if crash is None:
                self.project(which=which, most=other)
            else:
                self.project_and_crash(which=which, most=other, k=crash)

        overtaken = WrittenViews(self.views, self.seen, Once(k, overtake))
        run(projector(overtaken), of.server, self.log, overtaken, most)

    @rule(
        which=whichever, k=uses, what=st.sampled_from(["nothing", "crash", "append", "project", "catch up", "rebuild"])
    )
    def rebuild(self, which: int, k: int, what: str) -> None:
        of = self.plains[which]
        event = NewEvent(type=("rare",), key="k")
        happen = self._crash if what == "crash" else lambda: self._happen(of, what, [event])
        views = WrittenViews(self.views, self.seen, Once(k, happen))
        try:
            rebuild(of.server, self.log, views, _progress)
            self.seen["rebuilt"] += 1
        except Crash:
            self.seen["rebuild crashed"] += 1

    # What is read

    @invariant()
    def any_collection_is_the_fold_of_all_events(self) -> None:
        of, collection = self.plains[0], next(self.collections)
        self._note_lag(of)
        found = snapshot(self._present(of), of.server, collection, EVERYTHING)
        assert (found.event_id, found.states) == (of.last, of.snapshot(collection, EVERYTHING, of.last))

    @rule(which=whichever, collection=given.collections, query=given.path_queries, race=races)
    def a_snapshot_is_the_fold_up_to_its_event_id(
        self, which: int, collection: str, query: PathQuery, race: Race | None
    ) -> None:
        of, before = self.plains[which], self.plains[which].last
        found = snapshot(self._present(of, race), of.server, collection, query)
        assert before <= found.event_id <= of.last
        assert list(found.states.items()) == list(of.snapshot(collection, query, found.event_id).items())

    @rule(which=whichever, nth=places, place=places, race=races)
    def a_past_state_is_the_fold_up_to_then(self, which: int, nth: int, place: int, race: Race | None) -> None:
        of = self.plains[which]
        event_id, ref = self._position(of, place), self._object(of, nth)
        before = of.state(ref, event_id)
        found = state_at(self._present(of, race), of.server, ref, event_id)
        assert found in (before, of.state(ref, event_id))

    @rule(
        which=whichever,
        selection=given.selections,
        place=st.none() | places,
        limit=limits,
        delay_s=st.sampled_from([0, 0.5]),
        race=races,
    )
    def a_feed_is_the_filtered_list(
        self, which: int, selection: Selection, place: int | None, limit: int | None, delay_s: float, race: Race | None
    ) -> None:
        of, before = self.plains[which], self.plains[which].last
        after = None if place is None else self._position(of, place)
        query = FeedQuery(of.server, selection, after, limit, timeout_s=1.0, delay_s=delay_s)
        event = NewEvent(type=("a", "b"), key="k")
        wake = Waking(self.world, lambda: self._append(of, [event]))
        answer = follow(query, self._present(of, race), wake, Retention(self.log, self.world.clock), self._monotonic)
        self._check_answer(of, query, answer, before)

    @rule(
        which=whichever,
        selection=given.selections,
        place=st.none() | places,
        limit=limits,
        keep=st.sampled_from([0, 1, 7, 30]),
        age_s=st.none() | st.sampled_from([0, 1, 60, 1_000]),
    )
    def a_feed_does_not_give_what_is_forgotten(
        self, which: int, selection: Selection, place: int | None, limit: int | None, keep: int, age_s: int | None
    ) -> None:
        of = self.plains[which]
        after = None if place is None else self._position(of, place)
        retention, forgotten = self._keeping(of, keep, age_s)
        query = FeedQuery(of.server, selection, after, limit)
        wake = Waking(self.world, lambda: None)
        answer = follow(query, self._present(of), wake, retention, self._monotonic)
        if after is not None and after < forgotten:
            assert answer == Torn(forgotten)
        else:
            self._check_answer(of, replace(query, after=max(after or 0, forgotten)), answer, of.last)

    @rule(which=whichever, selection=given.selections, place=places, limit=st.integers(1, 9), race=races)
    def page_by_page_nothing_is_missed_or_repeated(
        self, which: int, selection: Selection, place: int, limit: int, race: Race | None
    ) -> None:
        of = self.plains[which]
        before, start = of.last, self._position(of, place)
        present, after = self._present(of, race), start
        wires: list[str] = []
        for _ in range(MOST_PAGES):
            answer = self._follow(present, FeedQuery(of.server, selection, after, limit))
            if isinstance(answer, Empty):
                break
            assert isinstance(answer, NonEmpty)
            wires += answer.wires
            after = answer.event_id
        assert isinstance(answer, Empty)
        assert wires == self._wires(of, selection, start, answer.last_event_id)
        assert answer.last_event_id >= before

    @rule(
        which=whichever,
        collection=given.collections,
        query=given.path_queries,
        races=st.tuples(races, races),
        events=given.commits_of_events,
    )
    def a_snapshot_and_what_follows_are_the_whole_history(
        self,
        which: int,
        collection: str,
        query: PathQuery,
        races: tuple[Race | None, Race | None],
        events: list[NewEvent],
    ) -> None:
        of = self.plains[which]
        selection = ObjectSelection(collection=collection, query=query)
        first = snapshot(self._present(of, races[0]), of.server, collection, query)
        self._append(of, events)
        past = self._ids(self._follow(self._present(of), FeedQuery(of.server, selection)))
        rest = self._ids(self._follow(self._present(of, races[1]), FeedQuery(of.server, selection, first.event_id)))
        assert [one for one in past if one <= first.event_id] + rest == self._ids_of(of, selection, 0, of.last)
        second = snapshot(self._present(of), of.server, collection, query)
        came = [event for event in of.events if event.event_id in set(rest)]
        states: plain.States = {ObjectRef(collection, path): state for path, state in first.states.items()}
        assert second.states == plain.existing(plain.folded(states, came, plain.is_meant_by(collection, query)))

    @rule(which=whichever, place=places, race=races)
    def a_position_is_found_as_by_looking_from_the_first(self, which: int, place: int, race: Race | None) -> None:
        of = self.plains[which]
        event_id = self._position(of, place)
        before = of.at(event_id)
        assert self._present(of, race).at(of.server, event_id) in (before, of.at(event_id))

    @rule(which=whichever, selection=given.selections, place=places, race=races)
    def going_ahead_skips_nothing_selected(
        self, which: int, selection: Selection, place: int, race: Race | None
    ) -> None:
        of = self.plains[which]
        before, start = of.last, of.at(self._position(of, place))
        ahead = self._present(of, race).ahead(start, selection)
        commits = list(ahead.commits)
        sessions = [commit.session for commit in commits]
        assert sessions == sorted(set(sessions))
        assert all(start.session < session for session in sessions)
        known = max([ahead.known.last, *(commit.last for commit in commits)])
        assert known >= before
        found = [e.wire for c in commits for e in c.events if plain.is_selected(e, selection)]
        assert found == self._wires(of, selection, start.last, known)
        self.seen["skipped ahead"] += len(sessions) < of.at(known).session - start.session

    @rule(which=whichever, selection=given.selections, place=places, race=races)
    def going_back_skips_nothing_selected(
        self, which: int, selection: Selection, place: int, race: Race | None
    ) -> None:
        of = self.plains[which]
        start = of.at(self._position(of, place))
        commits = list(self._present(of, race).back(start, selection))
        sessions = [commit.session for commit in commits]
        assert sessions == sorted(set(sessions), reverse=True)
        assert all(session <= start.session for session in sessions)
        found = [e.wire for c in commits for e in reversed(c.events) if plain.is_selected(e, selection)]
        assert found == self._wires(of, selection, 0, start.last)[::-1]
        self.seen["skipped back"] += len(sessions) < start.session

    @rule(types=given.some_types, servers=st.sampled_from([[0], [1], [0, 1], [1, 0]]), race=races)
    def the_latest_of_each_type_are_the_last_in_the_list(
        self, types: tuple[tuple[str, ...], ...] | None, servers: list[int], race: Race | None
    ) -> None:
        of = [self.plains[which] for which in servers]
        selection, before = Selection(types=types), [one.last for one in of]
        present, retention = self._present(of[0], race), Retention(self.log, self.world.clock)
        page = latest([one.server for one in of], selection, present, retention)
        tos = [page.event_id] if len(of) == 1 else [before[0], of[0].last]
        expected = [self._latest(of, [to, *before[1:]], selection) for to in tos]
        assert page.wires in expected
        assert max(before) <= page.event_id <= max(one.last for one in of)

    @rule(
        query=st.builds(
            TimeseriesQuery,
            selection=st.builds(Selection, types=given.some_types),
            source_t_from=st.none() | st.sampled_from(given.SOURCES_US),
            source_t_to=st.none() | st.sampled_from(given.SOURCES_US),
            descending=st.booleans(),
            by_source=st.booleans(),
            max_results=st.none() | st.integers(0, 9),
        ),
        t_from=st.none() | places,
        t_to=st.none() | places,
        last=st.none() | places,
        servers=st.sampled_from([[0], [1], [0, 1], [1, 0]]),
        most=st.sampled_from([1, 5, 1000]),
        race=races,
    )
    def a_timeseries_is_the_sorted_list(
        self,
        query: TimeseriesQuery,
        t_from: int | None,
        t_to: int | None,
        last: int | None,
        servers: list[int],
        most: int,
        race: Race | None,
    ) -> None:
        of = [self.plains[which] for which in servers]
        query = replace(
            query,
            t_from=None if t_from is None else self._time(of[0], t_from),
            t_to=None if t_to is None else self._time(of[-1], t_to),
            last_event_id=self._any_event(of, last),
        )
        before = self._timeseries(of, query)
        present, retention = self._present(of[0], race), Retention(self.log, self.world.clock)
        page = timeseries(query, [one.server for one in of], present, retention, most)
        limit = min(most, most if query.max_results is None else query.max_results)
        expected = [(wires[:limit], len(wires) <= limit) for wires in (before, self._timeseries(of, query))]
        assert (page.wires, page.complete) in expected

    @rule(t_from=places, t_to=places, descending=st.booleans())
    def a_stretch_of_time_is_that_of_the_list(self, t_from: int, t_to: int, descending: bool) -> None:
        of = self.plains[0]
        query = TimeseriesQuery(Selection(), self._time(of, t_from), self._time(of, t_to), descending=descending)
        page = timeseries(query, [of.server], self._present(of), Retention(self.log, self.world.clock), 10_000)
        assert page.wires == self._timeseries([of], query)

    @rule(
        query=st.builds(
            TimeseriesQuery,
            selection=st.builds(Selection, types=given.some_types),
            descending=st.booleans(),
            by_source=st.booleans(),
        ),
        t_from=st.none() | places,
        keep=st.sampled_from([0, 1, 7, 30]),
        age_s=st.none() | st.sampled_from([0, 1, 60, 1_000]),
    )
    def queries_do_not_give_what_is_forgotten(
        self, query: TimeseriesQuery, t_from: int | None, keep: int, age_s: int | None
    ) -> None:
        of = self.plains[0]
        retention, forgotten = self._keeping(of, keep, age_s)
        query = replace(query, t_from=None if t_from is None else self._time(of, t_from))
        kept = of.between(forgotten, of.last)
        page = timeseries(query, [of.server], self._present(of), retention, 10_000)
        assert page.wires == [event.wire for event in plain.timeseries(query, kept, of.events)]
        newest = latest([of.server], query.selection, self._present(of), retention)
        assert newest.wires == [event.wire for event in plain.latest(kept, query.selection)]

    @rule(
        which=whichever,
        types=given.some_types,
        keys=given.some_keys,
        place=places,
        events=given.commits_of_events,
        race=races,
    )
    def an_append_is_refused_if_and_only_if_an_event_matches(
        self,
        which: int,
        types: tuple[tuple[str, ...], ...] | None,
        keys: tuple[str, ...] | None,
        place: int,
        events: list[NewEvent],
        race: Race | None,
    ) -> None:
        of = self.plains[which]
        selection, after = Selection(types=types, keys=keys), min(self._position(of, place), of.last)
        condition = AppendCondition(fail_if_events_match=selection, after=after)
        append = Append(of.server, encoded(events), f"request {next(self.requests)}", condition)
        present = self._present(of, race)
        appender = Appender(self.log, self.world.clock, self.world.pause, self._monotonic, present)
        try:
            outcome: Appended | ConditionFailed = appender.append(append)
        except ConditionFailed as refusal:
            outcome = refusal
        matches = self._ids_of(of, selection, after, of.last)
        if isinstance(outcome, Appended):
            assert matches == []
            of.add(outcome.commit)
            self.seen["append granted"] += 1
        else:
            assert outcome.event_id == matches[0]
            self.seen["append refused"] += 1

    def teardown(self) -> None:
        for of in self.plains:
            for collection in vocabularies.collections():
                found = snapshot(self._present(of), of.server, collection, EVERYTHING)
                assert found.states == of.snapshot(collection, EVERYTHING, of.last)

    # How

    def _append(self, of: Plain, events: Sequence[NewEvent]) -> None:
        appended = self.appender.append(Append(of.server, encoded(events), f"request {next(self.requests)}"))
        of.add(appended.commit)

    def _crash(self) -> None:
        raise Crash

    def _happen(self, of: Plain, what: str, events: Sequence[NewEvent]) -> None:
        if what in ("append", "catch up"):
            self._append(of, events)
        if what == "project":
            run(projector(self.views), of.server, self.log, self.views, 2)
        if what == "catch up":
            catch_up(projector(self.views), of.server, self.log, self.views)
        if what == "rebuild":
            rebuild(of.server, self.log, self.views, _progress)

    def _present(self, of: Plain, race: Race | None = None) -> LogReader:
        def happen() -> None:
            assert race is not None
            self.seen[f"raced by {race.what}"] += 1
            self._happen(of, race.what, race.events)

        moment = Once(race.uses if race else 0, happen)
        return LogReader(WatchedLog(self.log, moment), WatchedViews(self.views, self.seen, moment))

    def _monotonic(self) -> float:
        return self.world.elapsed_s

    def _note_lag(self, of: Plain) -> None:
        checkpoint = checkpoint_of(PROJECT, of.server, self.views).head.session
        self.seen["tail used"] += 0 < checkpoint < len(of.commits)

    def _position(self, of: Plain, place: int) -> int:
        """A position: before, amid, at the end of or between commits, or beyond all of them."""
        ids = [event.event_id for event in of.events]
        some = [0, of.last, of.last + 1, of.last + FAR_US, *ids, *(one - 1 for one in ids), *(one + 1 for one in ids)]
        return some[place % len(some)]

    def _object(self, of: Plain, nth: int) -> ObjectRef:
        """An object that there has been, or none."""
        stored = [event.stored for event in of.events]
        refs = {ref for event in stored for ref in vocabularies.objects_of(event)}
        some = [*sorted(refs), ObjectRef("order", "/none,1")]
        return some[nth % len(some)]

    def _time(self, of: Plain, place: int) -> int:
        """A time at, just before, or just after a commit's."""
        times = [commit.at + step for commit in of.commits for step in (0, -1, 1)]
        return times[place % len(times)] if times else 0

    def _any_event(self, of: Sequence[Plain], place: int | None) -> Id | None:
        """The id of an event, perhaps of one that there is not."""
        if place is None:
            return None
        ids = [Id(of[0].server, 0, 0), Id(of[0].server, 1, 77), *(event.id for one in of for event in one.events)]
        return ids[place % len(ids)]

    def _keeping(self, of: Plain, keep: int, age_s: int | None) -> tuple[Retention, int]:
        """Retention by age or by number, and the last EventId that it forgets."""
        if age_s is None:
            return self.keeping[keep], of.kept(keep)
        oldest_us = self.world.now_ms * 1000 - age_s * 1_000_000
        return Retention(self.log, self.world.clock, age_s=age_s), of.kept_since(oldest_us)

    def _follow(self, present: LogReader, query: FeedQuery) -> EventSeq:
        wake = Waking(self.world, lambda: None)
        return follow(query, present, wake, Retention(self.log, self.world.clock), self._monotonic)

    def _check_answer(self, of: Plain, query: FeedQuery, answer: EventSeq, before: int) -> None:
        """`before`: the last EventId when the question was asked."""
        after, limit = query.after or 0, query.limit
        match answer:
            case NonEmpty(event_id, wires):
                expected = self._wires(of, query.selection, after, event_id)
                if limit is not None and limit < 0:
                    expected = expected[: limit - 1 : -1]
                assert wires == expected
                assert event_id >= before or (limit is not None and 0 < limit == len(wires))
                assert limit is None or 0 < len(wires) <= abs(limit)
            case Empty(last_event_id):
                assert self._wires(of, query.selection, after, last_event_id) == []
                assert before <= last_event_id <= of.last
            case Torn():
                raise AssertionError("nothing is forgotten")

    def _wires(self, of: Plain, selection: Selection, after: int, to: int) -> list[str]:
        return [event.wire for event in of.between(after, to) if plain.is_selected(event, selection)]

    def _ids_of(self, of: Plain, selection: Selection, after: int, to: int) -> list[int]:
        return [event.event_id for event in of.between(after, to) if plain.is_selected(event, selection)]

    def _ids(self, answer: EventSeq) -> list[int]:
        return [from_json(wire)["eventId"] for wire in answer.wires] if isinstance(answer, NonEmpty) else []

    def _latest(self, of: Sequence[Plain], tos: Sequence[int], selection: Selection) -> list[str]:
        visible = [event for one, to in zip(of, tos, strict=True) for event in one.between(0, to)]
        return [event.wire for event in plain.latest(visible, selection)]

    def _timeseries(self, of: Sequence[Plain], query: TimeseriesQuery) -> list[str]:
        events = [event for one in of for event in one.events]
        return [event.wire for event in plain.timeseries(query, events, events)]
