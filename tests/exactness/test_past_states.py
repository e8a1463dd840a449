"""Past states equal a fold of all events in memory, however far the projector has got."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event, NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies import JOB_VOCABULARY, PUSH_VOCABULARY
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.objects.snapshots import object_snapshot, past_snapshot
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention, RetentionBoundary
from tests.conformance.anyjob.anyjob import create, create_set, finish, finish_set, job_event, progress
from tests.conformance.push.push_client import push_event
from tests.exactness import strategies
from tests.exactness.model import LogModel
from tests.exactness.stores import CountingLog
from tests.services.fakes import World

EVERYTHING = PathQuery.parse("/")
LARGE = "x" * 2_000
EXAMPLES = {"sqlite": 40, "moto": 4, "dynamodb_local": 20}
NUMBERS = st.integers(1, 3)

_jobs = st.one_of(
    st.builds(create, NUMBERS, st.just(7)),
    st.builds(create, NUMBERS),
    st.builds(lambda n: progress(n, progress="1/2"), NUMBERS),
    st.builds(lambda n: progress(n, 7, log={"message": LARGE}), NUMBERS),
    st.builds(lambda n, success: finish(n, 7, success=success, data={"text": LARGE}), NUMBERS, st.sampled_from("01")),
    st.builds(lambda n: job_event("redirect", n, redirect="n2"), NUMBERS),
    st.just(create_set(7, 2)),
    st.just(finish_set(7, 1, 2)),
).map(JOB_VOCABULARY.new_event)
_push_events = ["start 2", "quorum_vote n1 success", "quorum_succeeded", "run_start n1", "job_complete complete"]
_pushes = st.sampled_from(_push_events).map(lambda text: PUSH_VOCABULARY.new_event(push_event(text, "j")))
_commits = st.lists(
    st.lists(
        st.one_of(_jobs, _pushes, strategies.scheduler_events, strategies.malformed_events), min_size=1, max_size=5
    ),
    min_size=1,
    max_size=8,
)


@dataclass
class Store:
    """A store shared by all runs. Each run uses a new server."""

    log: Log
    views: Views
    name: str
    servers: Iterator[int] = field(default_factory=lambda: count(1))

    def fill(self, commits: Sequence[Sequence[NewEvent]], projected: int) -> tuple[LogReader, LogModel]:
        """Write a log with these commits, and project some of them."""
        model, appender = LogModel(next(self.servers)), World().appender(self.log)
        for number, events in enumerate(commits):
            append = Append(model.server, encode_within_limits(events), f"{model.server}.{number}")
            model.add(appender.append(append).commit)
        if projected:
            run_once(projector(self.views), model.server, self.log, self.views, projected)
        return LogReader(self.log, self.views), model


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("chalicelib.domain.views.object_view.MAX_RECENT_SESSIONS", 2)
    log, views = (request.getfixturevalue(f"{request.param}_{port}") for port in ("log", "views"))
    return Store(log, views, request.param)


def check_random_logs(store: Store, check: Callable[[list[list[NewEvent]], int], None]) -> None:
    """Run `check` with random logs, fewer on slow stores."""
    run_with_settings = settings(
        max_examples=EXAMPLES[store.name], deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    run_with_settings(given(_commits, st.integers(0, 8))(check))()


def objects(model: LogModel) -> dict[ObjectRef, list[Event]]:
    """All objects with their events."""
    events_by_object: dict[ObjectRef, list[Event]] = {}
    for event in model.events:
        for ref in vocabularies.affected_objects(event.fields):
            events_by_object.setdefault(ref, []).append(event)
    return {ref: events for ref, events in events_by_object.items() if ref.collection}


def full_state_after(ref: ObjectRef, events: Sequence[Event]) -> State | None:
    """The full state of the object after these events."""
    state: State | None = None
    for event in events:
        state = vocabularies.fold(ref.collection, state, event)
    is_full = state is None or vocabularies.is_full_state(ref.collection, state)
    return state if is_full else vocabularies.full_state(ref.collection, events)


def no_boundary(model: LogModel) -> RetentionBoundary:
    return RetentionBoundary(Head(model.server), 0)


def test_past_snapshot_at_each_event_is_exact(store: Store) -> None:
    def check(commits: list[list[NewEvent]], projected: int) -> None:
        reader, model = store.fill(commits, projected)
        for ref, events in objects(model).items():
            for number, event in enumerate(events, start=1):
                expected = full_state_after(ref, events[:number])
                if expected is None:
                    with pytest.raises(NotFound, match="did not exist as of event"):
                        past_snapshot(reader, model.server, ref, event.event_id, no_boundary(model))
                else:
                    result = past_snapshot(reader, model.server, ref, event.event_id, no_boundary(model))
                    assert (result.event_id, result.states) == (event.event_id, {ref.path: expected})

    check_random_logs(store, check)


def test_past_snapshot_after_last_event_is_current_state(store: Store) -> None:
    def check(commits: list[list[NewEvent]], projected: int) -> None:
        reader, model = store.fill(commits, projected)
        for ref, events in objects(model).items():
            last_event_id = events[-1].event_id
            if full_state_after(ref, events) is not None:
                now = object_snapshot(reader, model.server, ref).states
                for event_id in (last_event_id, last_event_id + 1, 2**53 - 1):
                    result = past_snapshot(reader, model.server, ref, event_id, no_boundary(model))
                    assert (result.event_id, result.states) == (last_event_id, now)

    check_random_logs(store, check)


def test_past_snapshot_before_first_event_is_not_found(store: Store) -> None:
    reader, model = store.fill([[JOB_VOCABULARY.new_event(create(1))]], 1)
    for event_id in (0, model.last_event_id - 1):
        with pytest.raises(NotFound, match=f"/objects/job/1 did not exist as of event {event_id}"):
            past_snapshot(reader, model.server, ObjectRef("job", "/1"), event_id, no_boundary(model))


def test_past_snapshot_reads_no_other_commits(store: Store) -> None:
    noise = [[NewEvent(type=("noise",))]] * 30
    commits = [
        [JOB_VOCABULARY.new_event(create(1))],
        *noise,
        [JOB_VOCABULARY.new_event(progress(1, state="run"))],
        *noise,
    ]
    _, model = store.fill(commits, len(commits))
    counting_log = CountingLog(store.log)
    reader, ref = LogReader(counting_log, store.views), ObjectRef("job", "/1")
    result = past_snapshot(reader, model.server, ref, 2**53 - 1, no_boundary(model))
    # The record has copies of the events.
    assert (result.event_id, counting_log.fetched) == (model.commits[31].at_us, 0)


def test_past_snapshot_with_expired_events_is_only_current(store: Store) -> None:
    facts = [create(1), progress(1, state="run"), progress(1, state="more")]
    reader, model = store.fill([[JOB_VOCABULARY.new_event(event)] for event in facts], 3)
    ref, retention = ObjectRef("job", "/1"), Retention(store.log, World().clock, events=2)
    boundary = retention.boundary(model.server)
    assert boundary.head.session == 1
    result = past_snapshot(reader, model.server, ref, model.last_event_id, boundary)
    assert (result.event_id, result.states) == (model.last_event_id, object_snapshot(reader, model.server, ref).states)
    with pytest.raises(NotFound, match="its first events are no longer kept"):
        past_snapshot(reader, model.server, ref, model.last_event_id - 1, boundary)
