"""The directory of organizations."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput, NoSuchOrganization
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, Organization
from chalicelib.services.admin.health import HealthCheck
from chalicelib.services.log.organizations import Organizations
from tests.services.fakes import NOW, OvertakenLog, World, append, keys


@pytest.fixture
def organizations(log: SqliteLog, world: World) -> Organizations:
    return Organizations(log, world.appender(log))


def test_create_numbers_organizations_from_one(organizations: Organizations) -> None:
    assert [organizations.create(name) for name in ("a", "b", "a", "c")] == [
        (Organization("a", 1), True),
        (Organization("b", 2), True),
        (Organization("a", 1), False),
        (Organization("c", 3), True),
    ]
    assert organizations.all() == [Organization("a", 1), Organization("b", 2), Organization("c", 3)]


def test_server_of_unknown_organization_raises(organizations: Organizations) -> None:
    with pytest.raises(NoSuchOrganization, match="organization 'x' does not exist; an admin creates it with PUT"):
        organizations.server("x")


def test_server_finds_organization_of_other_process(log: SqliteLog, world: World) -> None:
    ours, theirs = Organizations(log, world.appender(log)), Organizations(log, world.appender(log))
    theirs.create("a")
    assert ours.server("a") == 1
    theirs.create("b")
    assert (ours.server("b"), ours.create("b"), ours.create("c")) == (
        2,
        (Organization("b", 2), False),
        (Organization("c", 3), True),
    )


def test_create_concurrently_returns_same_organization(database: Database, world: World) -> None:
    plain = SqliteLog(database)
    theirs = Organizations(plain, world.appender(plain))
    log = OvertakenLog(database, lambda: theirs.create("a"))
    assert Organizations(log, world.appender(log)).create("a") == (Organization("a", 1), False)
    assert keys(plain, DIRECTORY_SERVER) == [(1, "/organization/a")]


def test_create_from_many_threads_creates_each_once(organizations: Organizations, log: SqliteLog) -> None:
    names = [f"org-{n % 5}" for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(organizations.create, names))
    assert sorted(key or "" for _, key in keys(log, DIRECTORY_SERVER)) == [f"/organization/org-{n}" for n in range(5)]
    assert sorted(org.name for org, created in outcomes if created) == [f"org-{n}" for n in range(5)]
    assert {(org.name, org.server) for org, _ in outcomes} == {(org.name, org.server) for org in organizations.all()}


@pytest.mark.parametrize("name", ["", "a/b", "a b", "-", "é"])
def test_create_with_bad_name_writes_nothing(name: str, organizations: Organizations, log: SqliteLog) -> None:
    with pytest.raises(BadInput):
        organizations.create(name)
    assert log.head(DIRECTORY_SERVER).session == 0


def test_owns_server_only_of_listed_organizations(organizations: Organizations) -> None:
    for name in ("a", "b", "c"):
        organizations.create(name)
    assert [organizations.owns_server(["c", "a", "unknown"], server) for server in (0, 1, 2, 3, 9)] == [
        False, True, False, True, False,
    ]  # fmt: skip


def test_health_heads_lists_head_of_each_log(organizations: Organizations, log: SqliteLog, world: World) -> None:
    organizations.create("a")
    organizations.create("b")
    world.appender(log).append(append("/1", "/2", server=2))
    assert [(head.id, head.last_event_id) for head in HealthCheck(log, organizations).heads()] == [
        ((1, 0, 0), 0),
        ((2, 1, 2), NOW + 1),
    ]
