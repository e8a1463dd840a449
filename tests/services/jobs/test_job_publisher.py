"""Publishing events of jobs: what nobody created is ignored, and a set is finished once, with its last job."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import BadInput, ConditionFailed, KeyReused
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.vocabularies.job.jobsets import is_complete
from chalicelib.services.jobs.job_publisher import Ignored
from chalicelib.services.ports import Log
from tests.conformance.anyjob.anyjob import Json, create, create_set, ended, finish, finish_set, of_job, progress
from tests.domain.test_jobs import raw
from tests.services.jobs.job_sites import Site, new, own_of, said
from tests.services.worlds import Overtaken, World, no_match

THREADS = 8
JOBS = 30
ROUNDS = 5
RACE_S = 60.0


@pytest.fixture(params=["sqlite", "moto"])
def site(request: pytest.FixtureRequest, world: World) -> Site:
    """A log with jobs, on each store."""
    log: Log = request.getfixturevalue(f"{request.param}_log")
    return Site(log, request.getfixturevalue(f"{request.param}_views"), world)


@pytest.fixture
def sqlite_site(sqlite_log: SqliteLog, sqlite_views: SqliteViews, world: World) -> Site:
    """A log with jobs that threads may share."""
    return Site(sqlite_log, sqlite_views, world)


def finishes(site: Site) -> list[tuple[int, Json]]:
    """The finishes of sets, each with its session."""
    return [
        (commit.session, own)
        for commit in site.log.read(site.server, 0)
        for own in own_of(commit)
        if own["event"] == "finishJobSet"
    ]


def finished_in(commit: Commit) -> set[int]:
    """The sets of which jobs finish in a commit."""
    return {own["jobset"] for own in own_of(commit) if own["event"] == "finish"}


@pytest.mark.parametrize("projected", [False, True], ids=["before the projector ran", "after it"])
def test_the_finish_that_completes_a_set_brings_the_sets_own(site: Site, projected: bool) -> None:
    site.tell(create_set(7, 2, props={"a": "b"}), create(1, 7), create(2, 7), finish(1, 7))
    if projected:
        site.project()
    commit = site.told(finish(2, 7))
    assert said(commit) == ["finish 2", "finishJobSet 7"]
    own = own_of(commit)[1]
    assert (own["node"], own["props"], own["jobs"]) == ("n1", {"a": "b"}, [ended(1), ended(2)])


def test_a_job_is_known_to_a_process_that_did_not_see_it_created(site: Site) -> None:
    site.tell(*map(create, range(1, 6)))
    for projected in (False, True):
        if projected:
            site.project()
        done = site.new_publishing()(1, new([progress(3), finish(404), progress(5)]))
        assert isinstance(done.outcome, Appended)
        assert (said(done.outcome.commit), done.ignored) == (
            ["progress 3", "progress 5"],
            (Ignored(1, "there is no job 404"),),
        )


def test_where_all_is_ignored_nothing_is_written(site: Site) -> None:
    head = site.told(create(1)).head
    done = site.tell(progress(2), finish(3))
    assert (done.outcome, [one.place for one in done.ignored]) == (head, [0, 1])
    assert site.log.head(1) == head


def test_a_job_created_by_a_core_event_is_known(site: Site) -> None:
    site.write(raw("job/create/n1/backup", "/job/1", {"jobset": 7, "params": {}, "props": {}}))
    site.tell(create_set(7, 1))
    assert said(site.told(finish(1, 7))) == ["finish 1", "finishJobSet 7"]


NO_JOB: dict[str, NewEvent] = {
    "no payload": NewEvent(type=("job", "create", "n1", "backup"), key="/job/1"),
    "no type": raw("job/create/n1", "/job/1", {"params": {}, "props": {}}),
    "an unknown field": raw("job/create/n1/backup", "/job/1", {"params": {}, "props": {}, "unknown": 1}),
    "an odd key": raw("job/create/n1/backup", "/job/01", {"params": {}, "props": {}}),
}


@pytest.mark.parametrize("name", NO_JOB)
def test_what_only_looks_like_the_creation_of_a_job_makes_none_known(name: str, site: Site) -> None:
    site.write(NO_JOB[name])
    done = site.tell(progress(1))
    assert (done.outcome, done.ignored) == (site.log.head(1), (Ignored(0, "there is no job 1"),))


ODD = [
    NewEvent(type=(), key="/jobset/7"),
    NewEvent(type=("jobset", "finishJobSet", "n1"), key="/jobset/7"),
    raw("jobset/finishJobSet/n1", "/jobset/7", {"jobs": [{"id": 1}]}),
    raw("job/finish/n1/backup", "/job/2", {"jobset": 7}),
    raw("job/finish/n1/backup", "/job/2", {"jobset": "7", "success": "1", "message": "", "unknown": 1}),
    raw("job/progress/n1/backup", "/job/1", {"jobset": 7, "state": 1}),
]


def test_events_that_do_not_follow_the_vocabulary_finish_no_set_and_hinder_none(site: Site) -> None:
    site.tell(create_set(7, 2), create(1, 7), create(2, 7))
    for event in ODD:
        site.write(event)
    site.tell(finish(1, 7))
    assert finishes(site) == []
    site.project()
    assert said(site.told(finish(2, 7))) == ["finish 2", "finishJobSet 7"]


def test_a_repeat_with_the_same_key_is_told_what_the_first_was_told(site: Site) -> None:
    site.tell(create_set(7, 2), create(1, 7), create(2, 7), finish(1, 7))
    first = site.tell(finish(2, 7), progress(404), key="k")
    site.tell(create(404))
    again = site.tell(finish(2, 7), progress(404), key="k")
    assert isinstance(first.outcome, Appended)
    assert said(first.outcome.commit) == ["finish 2", "finishJobSet 7"]
    assert again.outcome == Appended(first.outcome.commit, replayed=True)
    assert again.ignored == first.ignored == (Ignored(1, "there is no job 404"),)


@pytest.mark.parametrize(
    "own",
    [
        [finish_set(7, 1)],
        [finish(1, 7), finish_set(7, 1)],
        [finish_set(7, 1), finish(1, 7), finish_set(7, 1)],
        [progress(404), finish_set(7, 1)],
    ],
    ids=lambda own: " ".join(one["event"] for one in own),
)
def test_a_repeat_of_the_publishers_own_finish_of_a_set_is_told_the_same(own: list[Json], site: Site) -> None:
    site.tell(create_set(7, 1), create(1, 7))
    first, again = site.tell(*own, key="k"), site.tell(*own, key="k")
    assert isinstance(first.outcome, Appended)
    assert again.outcome == Appended(first.outcome.commit, replayed=True)
    assert [one.place for one in again.ignored] == [one.place for one in first.ignored]
    assert len(finishes(site)) == 1


def test_a_key_may_not_be_used_for_something_else(site: Site) -> None:
    site.tell(create_set(7, 1), create(1, 7))
    site.tell(finish_set(7, 1), key="k")
    for other in ([finish(1, 7)], [finish_set(7, 1, props={"a": "b"})], [progress(404)]):
        with pytest.raises(KeyReused):
            site.tell(*other, key="k")


@pytest.mark.parametrize("last", [finish(2, 7), finish(9)], ids=["that finishes a set", "of no set"])
def test_the_publishers_own_condition_holds(last: Json, site: Site) -> None:
    event_id = site.told(create_set(7, 2), create(1, 7), create(2, 7), create(9), finish(1, 7)).last
    seen = site.told(create(5)).last
    with pytest.raises(ConditionFailed) as failure:
        site.tell(last, condition=no_match("/job/5", event_id))
    assert failure.value.event_id == seen
    assert site.log.head(1).last == seen
    outcome = site.tell(last, condition=no_match("/job/5", seen)).outcome
    assert isinstance(outcome, Appended)


@pytest.mark.parametrize("last", [finish(1, 7), finish(9)], ids=["that finishes a set", "of no set"])
def test_a_condition_after_the_future_is_refused(last: Json, site: Site) -> None:
    head = site.told(create_set(7, 1), create(1, 7), create(9)).head
    with pytest.raises(BadInput, match="lies in the future"):
        site.tell(last, condition=AppendCondition.model_validate({"failIfEventsMatch": {}, "after": head.last + 1}))
    assert site.log.head(1) == head


def overtaken(database: Database, *others: Callable[[], object]) -> Overtaken:
    """A log in which others are a little faster, one after the other."""
    left = iter(others)

    def other() -> object:
        return next(left)()

    return Overtaken(database, other, len(others))


@pytest.fixture
def contended(database: Database, sqlite_views: SqliteViews, world: World) -> Site:
    """A log with jobs, in a database that others use too."""
    return Site(SqliteLog(database), sqlite_views, world)


def test_whoever_finishes_at_the_same_time_looks_again(contended: Site, database: Database) -> None:
    """Two jobs are left; while the finish of one is written, that of the other comes, so the first is the last now."""
    site = contended
    site.tell(create_set(7, 2), create(1, 7), create(2, 7))
    slow = site.new_publishing(overtaken(database, lambda: site.tell(finish(2, 7))))
    outcome = slow(1, new([finish(1, 7)])).outcome
    assert isinstance(outcome, Appended)
    assert site.sessions()[1:] == [["finish 2"], ["finish 1", "finishJobSet 7"]]


def test_whoever_is_overtaken_by_the_finish_of_the_set_does_not_double_it(contended: Site, database: Database) -> None:
    site = contended
    site.tell(create_set(7, 1), create(1, 7))
    slow = site.new_publishing(overtaken(database, lambda: site.tell(finish(1, 7))))
    done = slow(1, new([finish(1, 7), finish_set(7, 1)]))
    assert site.sessions()[1:] == [["finish 1", "finishJobSet 7"], ["finish 1"]]
    assert done.ignored == (Ignored(1, "set 7 is over"),)


def test_events_of_other_sets_and_jobs_stand_in_nobodys_way(contended: Site, database: Database) -> None:
    site = contended
    site.tell(create_set(7, 1), create(1, 7), create_set(70, 2), create(2, 70), create(3))
    others = [lambda: site.tell(finish(2, 70)), lambda: site.tell(finish(3))]
    slow = site.new_publishing(overtaken(database, *others))
    slow(1, new([finish(1, 7)]))
    assert site.sessions()[1:] == [["finish 2"], ["finish 3"], ["finish 1", "finishJobSet 7"]]


@pytest.mark.parametrize("processes", [1, 3])
def test_of_many_that_finish_at_once_exactly_one_finishes_the_set(sqlite_site: Site, processes: int) -> None:
    """Whatever the order, nobody is refused, and the set's finish stands in the commit of the last job."""
    site = sqlite_site
    entrances = [site.publishing, *(site.new_publishing(site.log) for _ in range(processes - 1))]
    with ThreadPoolExecutor(THREADS) as pool:
        for jobset in range(1, ROUNDS + 1):
            numbers = [jobset * 1000 + n for n in range(JOBS)]
            site.tell(create_set(jobset, JOBS), *(create(number, jobset) for number in numbers))
            random.Random(jobset).shuffle(numbers)
            own = [new([finish(number, jobset)]) for number in numbers]
            list(pool.map(lambda event: random.choice(entrances)(1, event), own, timeout=RACE_S))
            site.project()
    commits = site.sessions()
    for jobset in range(1, ROUNDS + 1):
        of_set = [said for said in commits if said[0].startswith(f"finish {jobset}0")]
        assert [len(said) for said in of_set] == [1] * (JOBS - 1) + [2]
        assert of_set[-1][1] == f"finishJobSet {jobset}"
    assert [len(own["jobs"]) for _, own in finishes(site)] == [JOBS] * ROUNDS


def test_nobody_without_a_condition_is_refused_however_many_finish_at_once(sqlite_site: Site) -> None:
    many = 60
    sqlite_site.tell(create_set(7, many), *(create(number, 7) for number in range(many)))
    with ThreadPoolExecutor(32) as pool:
        own = [new([finish(number, 7)]) for number in range(many)]
        list(pool.map(lambda event: sqlite_site.publishing(1, event), own, timeout=RACE_S))
    assert sqlite_site.sessions()[-1][1:] == ["finishJobSet 7"]
    assert len(finishes(sqlite_site)) == 1


moves = st.lists(
    st.lists(
        st.one_of(
            st.builds(lambda n: create(n, 7 + n % 2), st.integers(1, 5)),
            st.builds(lambda n: finish(n, 7 + n % 2), st.integers(1, 5)),
            st.builds(lambda n: of_job("clean", n, 7 + n % 2), st.integers(1, 5)),
            st.builds(lambda n, jobs: create_set(7 + n, jobs), st.integers(0, 1), st.integers(0, 3)),
            st.builds(lambda n: finish_set(7 + n), st.integers(0, 1)),
        ),
        max_size=4,
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(moves, st.lists(st.booleans(), min_size=12, max_size=12))
def test_whatever_is_published_no_set_finishes_twice_and_none_stays_open_after_its_last_finish(
    tmp_path_factory: pytest.TempPathFactory, requests: list[list[Json]], projecting: list[bool]
) -> None:
    directory: Path = tmp_path_factory.mktemp("jobs")
    log, views = Database(directory / "log"), Database(directory / "views", SCHEMA, durable=False)
    try:
        site = Site(SqliteLog(log), SqliteViews(views), World())
        for own, is_projected in zip(requests, projecting, strict=False):
            outcome = site.tell(*own).outcome
            for number in finished_in(outcome.commit) if isinstance(outcome, Appended) else ():
                assert not is_complete(site.state("jobset", number))
            if is_projected:
                site.project()
        found = finishes(site)
        assert len({own["id"] for _, own in found}) == len(found)
    finally:
        log.close()
        views.close()
