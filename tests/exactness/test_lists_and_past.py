"""Lists and the past are exact, wherever the projector is: the same as what all events say, folded in memory."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event, NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encoded
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.objects.summary import Brief
from chalicelib.domain.vocabularies import job, push
from chalicelib.services.consumers.consumer import run
from chalicelib.services.consumers.projector import projector
from chalicelib.services.objects.listing import Listed, ListQuery, listed
from chalicelib.services.objects.snapshots import one, past
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Forgotten, Retention
from tests.conformance.anyjob.anyjob import create, create_set, finish, finish_set, of_job, progress
from tests.conformance.push.push_client import fact
from tests.exactness import events as some_events
from tests.exactness.plain import Plain
from tests.exactness.stores import WatchedLog
from tests.services.worlds import World

EVERYTHING = PathQuery.of("/")
LARGE = "x" * 2_000
EXAMPLES = {"sqlite": 40, "moto": 4}
NUMBERS = st.integers(1, 3)

_jobs = st.one_of(
    st.builds(create, NUMBERS, st.just(7)),
    st.builds(create, NUMBERS),
    st.builds(lambda n: progress(n, progress="1/2"), NUMBERS),
    st.builds(lambda n: progress(n, 7, log={"message": LARGE}), NUMBERS),
    st.builds(lambda n, success: finish(n, 7, success=success, data={"text": LARGE}), NUMBERS, st.sampled_from("01")),
    st.builds(lambda n: of_job("redirect", n, redirect="n2"), NUMBERS),
    st.just(create_set(7, 2)),
    st.just(finish_set(7, 1, 2)),
).map(job.new_event)
_said = ["start 2", "quorum_vote n1 success", "quorum_succeeded", "run_start n1", "job_complete complete"]
_pushes = st.sampled_from(_said).map(lambda said: push.new_event(fact(said, "j")))
_commits = st.lists(
    st.lists(st.one_of(_jobs, _pushes, some_events.well_formed, some_events.malformed), min_size=1, max_size=5),
    min_size=1,
    max_size=8,
)


@dataclass
class Store:
    """A store that all runs share: each has a server of its own."""

    log: Log
    views: Views
    name: str
    servers: Iterator[int] = field(default_factory=lambda: count(1))

    def filled(self, commits: Sequence[Sequence[NewEvent]], projected: int) -> tuple[LogReader, Plain]:
        """A log with these commits, of which some are in the views."""
        plain, appender = Plain(next(self.servers)), World().appender(self.log)
        for number, events in enumerate(commits):
            append = Append(plain.server, encoded(events), f"{plain.server}.{number}")
            plain.add(appender.append(append).commit)
        if projected:
            run(projector(self.views), plain.server, self.log, self.views, projected)
        return LogReader(self.log, self.views), plain


@pytest.fixture(params=["sqlite", "moto"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("chalicelib.domain.views.object_view.SESSIONS_AT_HAND", 2)
    log, views = (request.getfixturevalue(f"{request.param}_{port}") for port in ("log", "views"))
    return Store(log, views, request.param)


def whatever_happens(store: Store, check: Callable[[list[list[NewEvent]], int], None]) -> None:
    """Check some logs that chance makes; fewer where that is slow."""
    chosen = settings(
        max_examples=EXAMPLES[store.name], deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    chosen(given(_commits, st.integers(0, 8))(check))()


def objects(plain: Plain) -> dict[ObjectRef, list[Event]]:
    """All objects, each with its events."""
    found: dict[ObjectRef, list[Event]] = {}
    for event in plain.events:
        for ref in vocabularies.objects_of(event.stored):
            found.setdefault(ref, []).append(event)
    return {ref: events for ref, events in found.items() if ref.collection}


def told(ref: ObjectRef, events: Sequence[Event]) -> State | None:
    """All that the object has to tell after these events."""
    state: State | None = None
    for event in events:
        state = vocabularies.fold(ref.collection, state, event)
    is_whole = state is None or vocabularies.is_whole(ref.collection, state)
    return state if is_whole else vocabularies.whole(ref.collection, events)


def nothing_forgotten(plain: Plain) -> Forgotten:
    return Forgotten(Head(plain.server), 0)


def test_at_each_of_its_events_an_object_is_what_they_say_up_to_there(store: Store) -> None:
    def check(commits: list[list[NewEvent]], projected: int) -> None:
        present, plain = store.filled(commits, projected)
        for ref, events in objects(plain).items():
            for number, event in enumerate(events, start=1):
                expected = told(ref, events[:number])
                if expected is None:
                    with pytest.raises(NotFound, match="there was nothing at"):
                        past(present, plain.server, ref, event.event_id, nothing_forgotten(plain))
                else:
                    found = past(present, plain.server, ref, event.event_id, nothing_forgotten(plain))
                    assert (found.event_id, found.states) == (event.event_id, {ref.path: expected})

    whatever_happens(store, check)


def test_at_its_last_event_and_after_it_an_object_is_what_it_is_now(store: Store) -> None:
    def check(commits: list[list[NewEvent]], projected: int) -> None:
        present, plain = store.filled(commits, projected)
        for ref, events in objects(plain).items():
            last = events[-1].event_id
            if told(ref, events) is not None:
                now = one(present, plain.server, ref).states
                for at in (last, last + 1, 2**53 - 1):
                    found = past(present, plain.server, ref, at, nothing_forgotten(plain))
                    assert (found.event_id, found.states) == (last, now)

    whatever_happens(store, check)


def test_before_its_first_event_an_object_is_not_there(store: Store) -> None:
    present, plain = store.filled([[job.new_event(create(1))]], 1)
    for at in (0, plain.last - 1):
        with pytest.raises(NotFound, match=f"there was nothing at /1 when {at} had been written"):
            past(present, plain.server, ObjectRef("job", "/1"), at, nothing_forgotten(plain))


def test_to_look_at_the_past_only_the_commits_with_the_object_are_read(store: Store) -> None:
    noise = [[NewEvent(type=("noise",))]] * 30
    commits = [[job.new_event(create(1))], *noise, [job.new_event(progress(1, state="run"))], *noise]
    _, plain = store.filled(commits, len(commits))
    watched = WatchedLog(store.log)
    present, ref = LogReader(watched, store.views), ObjectRef("job", "/1")
    found = past(present, plain.server, ref, 2**53 - 1, nothing_forgotten(plain))
    assert (found.event_id, watched.fetched) == (plain.commits[31].at, 2)


def expected_list(plain: Plain, wanted: ListQuery) -> Listed:
    """The list, the simple way."""
    found: list[tuple[int, str, Brief]] = []
    for ref, events in objects(plain).items():
        if ref.collection == wanted.collection and vocabularies.matches(wanted.query, ref):
            state = plain.state(ref, plain.last)
            if state is not None:
                brief = vocabularies.brief_of(ref, state)
                found.append((events[-1].id.session, brief.updated_at or "", brief))
    searched = [item for item in found if wanted.search.casefold() in f"{item[2].path} {item[2].label}".casefold()]
    searched.sort(key=lambda item: item[2].path)
    searched.sort(key=lambda item: item[:2], reverse=True)
    counts = Counter(brief.state for _, _, brief in searched)
    chosen = [brief for _, _, brief in searched if wanted.state is None or brief.state == wanted.state]
    return Listed(plain.last, dict(counts), tuple(chosen[: wanted.limit]), len(chosen) > wanted.limit)


def test_a_list_is_what_all_events_say_the_latest_change_first(store: Store) -> None:
    def check(commits: list[list[NewEvent]], projected: int) -> None:
        present, plain = store.filled(commits, projected)
        for collection in vocabularies.collections():
            everything = ListQuery(collection, EVERYTHING)
            for wanted in (
                everything,
                replace(everything, limit=1),
                replace(everything, search="N2"),
                replace(everything, state="finished"),
                replace(everything, search="1", limit=2),
            ):
                assert listed(present, plain.server, wanted) == expected_list(plain, wanted)

    whatever_happens(store, check)


def test_a_list_may_be_of_a_folder(store: Store) -> None:
    added = [{"TYPE": "OrderAdded", "key": key, "nodeId": "A"} for key in ("/a/chain,1", "/b/chain,1")]
    present, plain = store.filled([[vocabularies.scheduler.new_event(one)] for one in added], 1)
    found = listed(present, plain.server, ListQuery("order", PathQuery.of("/a/")))
    assert ([brief.path for brief in found.elements], found.counts) == (["/a/chain,1"], {"NotPlanned": 1})


def test_an_object_with_forgotten_events_is_known_as_it_is_now_and_not_as_it_was(store: Store) -> None:
    told_of_it = [create(1), progress(1, state="run"), progress(1, state="more")]
    present, plain = store.filled([[job.new_event(one)] for one in told_of_it], 3)
    ref, retention = ObjectRef("job", "/1"), Retention(store.log, World().clock, events=2)
    forgotten = retention.forgotten(plain.server)
    assert forgotten.before.session == 1
    found = past(present, plain.server, ref, plain.last, forgotten)
    assert (found.event_id, found.states) == (plain.last, one(present, plain.server, ref).states)
    with pytest.raises(NotFound, match="its first events are no longer kept"):
        past(present, plain.server, ref, plain.last - 1, forgotten)
