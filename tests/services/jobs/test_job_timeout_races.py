"""Cleaning while others write, clean, crash and forget: each silent job is cleaned once, and no other."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import Change, Record
from chalicelib.services.consumers.projector import rebuild
from chalicelib.services.ports import Log, Views
from tests.conformance.anyjob.anyjob import Json, create, create_set, finish, of_job, progress
from tests.services.jobs.job_sites import TIMEOUT_S, Site
from tests.services.worlds import Overtaken, World

AN_HOUR_S = TIMEOUT_S


@pytest.fixture(params=["sqlite", "moto"])
def site(request: pytest.FixtureRequest, world: World) -> Site:
    """A log with jobs, on each store."""
    log: Log = request.getfixturevalue(f"{request.param}_log")
    return Site(log, request.getfixturevalue(f"{request.param}_views"), world)


@pytest.fixture
def contended(database: Database, sqlite_views: SqliteViews, world: World) -> Site:
    """A log with jobs, in a database that others use too."""
    return Site(SqliteLog(database), sqlite_views, world)


def test_a_job_that_speaks_while_it_is_being_cleaned_is_not(contended: Site, database: Database) -> None:
    """The clean is about to be written when the job goes on."""
    contended.tell(create(1))
    contended.pass_s(AN_HOUR_S + 1)
    log = Overtaken(database, lambda: contended.tell(progress(1)))
    assert contended.cleaning(log=log).run(1) == 0
    assert (contended.sessions(), contended.clean()) == ([["create 1"], ["progress 1"]], [])


def test_a_set_whose_job_speaks_while_it_is_being_cleaned_is_not(contended: Site, database: Database) -> None:
    contended.tell(create_set(7, 1, props={"clean_timeout": "60"}), create(1, 7))
    contended.pass_s(61)
    log = Overtaken(database, lambda: contended.tell(progress(1, 7)))
    assert contended.cleaning(log=log).run(1) == 0
    assert contended.clean() == []


@pytest.mark.parametrize("own", [progress(1, 7), of_job("redirect", 1, 7, redirect="n2")], ids=lambda own: own["event"])
def test_a_job_that_speaks_after_the_look_at_the_log_is_not_cleaned(own: Json, site: Site) -> None:
    """It was due when the cleaner had read the log, but is not any more."""
    site.tell(create_set(7, 1), create(1, 7))
    site.pass_s(AN_HOUR_S + 1)
    turns = iter([lambda: site.tell(own)])

    def clock() -> int:
        next(turns, lambda: None)()
        return site.world.clock()

    assert site.cleaning(clock=clock).run(1) == 0
    assert site.sessions()[1:] == [[f"{own['event']} 1"]]


def test_a_job_that_finishes_after_the_look_at_the_log_is_not_cleaned(site: Site) -> None:
    site.tell(create(1))
    site.pass_s(AN_HOUR_S + 1)
    turns = iter([lambda: site.tell(finish(1))])

    def clock() -> int:
        next(turns, lambda: None)()
        return site.world.clock()

    assert site.cleaning(clock=clock).run(1) == 0
    assert site.sessions() == [["create 1"], ["finish 1"]]


def test_of_many_cleaners_at_once_one_cleans_each(contended: Site) -> None:
    numbers = range(1, 41)
    contended.tell(*map(create, numbers), create_set(7, 1))
    contended.pass_s(AN_HOUR_S + 1)
    start = threading.Barrier(4)

    def run(_: int) -> int:
        start.wait(30)
        return contended.cleaning().run(1)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(run, range(4), timeout=60)) == 41
    found = sorted(text for commit in contended.sessions()[1:] for text in commit)
    assert found == sorted([*(f"clean {number}" for number in numbers), "cleanJobSet 7"])


class Crash(Exception):
    """The process ends."""


class Crashing:
    """Views through which the process ends just before or after some write."""

    def __init__(self, views: Views, left: int, writes: bool) -> None:
        self._views = views
        self._left = left
        self._writes = writes

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self._views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self._views.range(view, start, end, backwards)

    def put(self, changes: Sequence[Change]) -> list[Change]:
        self._left -= 1
        if self._left == 0 and not self._writes:
            raise Crash
        refused = self._views.put(changes)
        if self._left == 0:
            raise Crash
        return refused

    def drop(self, view: str) -> int:
        return self._views.drop(view)


@pytest.mark.parametrize("writes", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("left", [1, 2], ids=["the records", "the checkpoint"])
def test_a_cleaner_that_crashed_at_a_write_is_made_good_by_the_next(site: Site, left: int, writes: bool) -> None:
    site.tell(*map(create, range(1, 6)), finish(2), create_set(7, 1), progress(3))
    site.tell(finish(4))
    with pytest.raises(Crash):
        site.cleaning(Crashing(site.views, left, writes)).run(1)
    site.tell(finish(5))
    site.pass_s(AN_HOUR_S + 1)
    assert sorted(site.clean()) == ["clean 1", "clean 3", "cleanJobSet 7"]
    assert site.clean() == []


class Dying(SqliteLog):
    """A log whose writer ends after so many writes."""

    def __init__(self, database: Database, left: int) -> None:
        super().__init__(database)
        self._left = left

    def append(self, commits: Sequence[Commit], receipts: Sequence[object], now_s: int) -> None:
        super().append(commits, receipts, now_s)  # type: ignore[arg-type]
        self._left -= 1
        if not self._left:
            raise Crash


def test_a_cleaner_that_crashed_after_some_cleans_does_not_repeat_them(contended: Site, database: Database) -> None:
    contended.tell(*map(create, range(1, 6)))
    contended.pass_s(AN_HOUR_S + 1)
    with pytest.raises(Crash):
        contended.cleaning(log=Dying(database, 2)).run(1)
    assert (len(contended.clean()), contended.clean()) == (3, [])
    assert sorted(contended.sessions()[1:]) == [[f"clean {number}"] for number in range(1, 6)]


def test_many_silent_jobs_are_all_cleaned_however_many_that_takes_at_once(contended: Site) -> None:
    contended.tell(*map(create, range(250)))
    contended.pass_s(AN_HOUR_S + 1)
    found: list[str] = []
    while some := contended.clean():
        found += some
        contended.project()
    assert sorted(found) == sorted(f"clean {number}" for number in range(250))


def test_what_seems_due_but_is_over_keeps_nobody_from_being_cleaned(contended: Site) -> None:
    """Whoever creates jobs again that have finished does not open them."""
    numbers = range(150)
    contended.tell(*map(create, numbers), *map(finish, numbers))
    contended.tell(*map(create, numbers))
    contended.tell(create(900))
    contended.project()
    contended.pass_s(AN_HOUR_S + 1)
    assert (contended.clean(), contended.clean()) == (["clean 900"], [])


def test_a_rebuild_of_the_views_forgets_no_open_job_and_cleans_none_twice(site: Site) -> None:
    site.tell(create(1), create(2))
    site.project()
    site.clean()
    rebuild(1, site.log, site.views, lambda *_: None)
    site.tell(finish(2))
    site.pass_s(AN_HOUR_S + 1)
    assert (site.clean(), site.clean()) == (["clean 1"], [])


def test_an_open_job_that_is_forgotten_keeps_no_other_from_being_cleaned(contended: Site) -> None:
    """Its creation is past retention, and the views were built anew since."""
    contended.tell(create(1))
    contended.tell(create(2))
    contended.project()
    contended.clean()
    assert isinstance(contended.log, SqliteLog)
    assert contended.log.forget(1, 1) == 1
    rebuild(1, contended.log, contended.views, lambda *_: None, contended.log.start(1))
    contended.pass_s(AN_HOUR_S + 1)
    assert "clean 2" in contended.clean()
