"""The directory of organizations."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput, NoSuchOrganization
from chalicelib.domain.organizations.organization import DIRECTORY, Organization
from chalicelib.services.admin import health
from chalicelib.services.log.organizations import Organizations
from tests.services.worlds import NOW, Overtaken, World, append, keys


@pytest.fixture
def organizations(log: SqliteLog, world: World) -> Organizations:
    return Organizations(log, world.appender(log))


def test_organizations_are_numbered_from_one(organizations: Organizations) -> None:
    assert [organizations.create(name) for name in ("a", "b", "a", "c")] == [
        (Organization("a", 1), True),
        (Organization("b", 2), True),
        (Organization("a", 1), False),
        (Organization("c", 3), True),
    ]
    assert organizations.all() == [Organization("a", 1), Organization("b", 2), Organization("c", 3)]


def test_an_organization_that_nobody_created_does_not_exist(organizations: Organizations) -> None:
    with pytest.raises(NoSuchOrganization, match="organization 'x' does not exist; an admin creates it with PUT"):
        organizations.server("x")


def test_what_another_process_created_is_found(log: SqliteLog, world: World) -> None:
    ours, theirs = Organizations(log, world.appender(log)), Organizations(log, world.appender(log))
    theirs.create("a")
    assert ours.server("a") == 1
    theirs.create("b")
    assert (ours.server("b"), ours.create("b"), ours.create("c")) == (
        2,
        (Organization("b", 2), False),
        (Organization("c", 3), True),
    )


def test_two_who_create_the_same_organization_get_the_same(database: Database, world: World) -> None:
    plain = SqliteLog(database)
    theirs = Organizations(plain, world.appender(plain))
    log = Overtaken(database, lambda: theirs.create("a"))
    assert Organizations(log, world.appender(log)).create("a") == (Organization("a", 1), False)
    assert keys(plain, DIRECTORY) == [(1, "/organization/a")]


def test_many_threads_create_each_organization_once(organizations: Organizations, log: SqliteLog) -> None:
    names = [f"org-{n % 5}" for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(organizations.create, names))
    assert sorted(key or "" for _, key in keys(log, DIRECTORY)) == [f"/organization/org-{n}" for n in range(5)]
    assert sorted(org.name for org, created in outcomes if created) == [f"org-{n}" for n in range(5)]
    assert {(org.name, org.server) for org, _ in outcomes} == {(org.name, org.server) for org in organizations.all()}


@pytest.mark.parametrize("name", ["", "a/b", "a b", "-", "é"])
def test_a_bad_name_is_refused_and_nothing_is_written(name: str, organizations: Organizations, log: SqliteLog) -> None:
    with pytest.raises(BadInput):
        organizations.create(name)
    assert log.head(DIRECTORY).session == 0


def test_a_server_may_be_asked_for_by_number_if_it_is_ones_own(organizations: Organizations) -> None:
    for name in ("a", "b", "c"):
        organizations.create(name)
    assert organizations.server_among(["c", "a"], "c", None) == 3
    assert organizations.server_among(["c", "a"], "c", 1) == 1
    for foreign in (0, 2, 9):
        with pytest.raises(BadInput, match=rf"server {foreign} is none of yours, which are \[3, 1\]"):
            organizations.server_among(["c", "a", "unknown"], "c", foreign)


def test_health_tells_where_each_log_stands(organizations: Organizations, log: SqliteLog, world: World) -> None:
    organizations.create("a")
    organizations.create("b")
    world.appender(log).append(append("/1", "/2", server=2))
    assert [(head.id, head.last) for head in health.heads(log, organizations)] == [((1, 0, 0), 0), ((2, 1, 2), NOW + 1)]
