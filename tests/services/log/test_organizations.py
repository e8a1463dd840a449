"""The directory of organizations."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import BadInput, NoSuchOrganization
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, Organization
from chalicelib.services.admin.health import HealthCheck
from chalicelib.services.consumers.consumer import catch_up, run_once
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.consumers.projector import projector
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.reading.log_reader import LogReader
from tests.exactness.stores import CountingLog, RecordingViews
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


@pytest.mark.parametrize("count", [5, 300])
def test_server_of_projected_name_takes_two_reads(
    count: int, log: SqliteLog, sqlite_views: SqliteViews, world: World
) -> None:
    """However many organizations there are. The second lookup of a process takes none."""
    create_all(log, world, *(f"org-{n}" for n in range(count)))
    catch_up(projector(sqlite_views), DIRECTORY_SERVER, log, sqlite_views)
    organizations, reads = count_reads(log, sqlite_views, world)
    for _ in range(2):
        assert organizations.server(f"org-{count // 2}") == count // 2 + 1
    assert len(reads) == 2
    assert organizations.name(count) == f"org-{count - 1}"
    assert len(reads) == 3


def test_existing_names_are_read_together(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    create_all(log, world, *(f"org-{n}" for n in range(120)))
    catch_up(projector(sqlite_views), DIRECTORY_SERVER, log, sqlite_views)
    organizations, reads = count_reads(log, sqlite_views, world)
    assert organizations.existing(["org-7", "org-3"]) == [Organization("org-3", 4), Organization("org-7", 8)]
    assert len(reads) == 2
    assert organizations.servers(["org-100", "unknown"]) == [101]


def test_server_after_projected_part_is_found(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    """The views lag behind the directory, or were reset."""
    create_all(log, world, *(f"org-{n}" for n in range(200)))
    run_once(projector(sqlite_views), DIRECTORY_SERVER, log, sqlite_views, limit=150)
    found = [
        Organizations(log, world.appender(log), LogReader(log, sqlite_views)).server(f"org-{n}")
        for n in (0, 149, 150, 199)
    ]
    assert found == [1, 150, 151, 200]
    reset_views(DIRECTORY_SERVER, sqlite_views)
    organizations = Organizations(log, world.appender(log), LogReader(log, sqlite_views))
    assert [organizations.server(f"org-{n}") for n in (0, 149, 150, 199)] == found
    with pytest.raises(NoSuchOrganization):
        organizations.server("org-200")


def test_unknown_name_takes_one_read_after_all(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    """A process that has read the directory reads only what is new in it."""
    create_all(log, world, *(f"org-{n}" for n in range(20)))
    catch_up(projector(sqlite_views), DIRECTORY_SERVER, log, sqlite_views)
    organizations, reads = count_reads(log, sqlite_views, world)
    assert len(organizations.all()) == 20
    create_all(log, world, "new")
    reads.clear()
    with pytest.raises(NoSuchOrganization):
        organizations.server("unknown")
    assert organizations.server("new") == 21
    assert len(reads) == 2


def test_invalid_name_is_unknown_without_reads(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    organizations, reads = count_reads(log, sqlite_views, world)
    for name in ("", "a b", "\udc80", "x" * 100_000):
        with pytest.raises(NoSuchOrganization):
            organizations.server(name)
    assert reads == []


def test_page_lists_organizations_after_server(organizations: Organizations) -> None:
    for name in ("a", "b", "c"):
        organizations.create(name)
    assert organizations.page(0, 2) == [Organization("a", 1), Organization("b", 2)]
    assert organizations.page(2, 2) == [Organization("c", 3)]
    assert organizations.page(3, 2) == []


def create_all(log: SqliteLog, world: World, *names: str) -> None:
    organizations = Organizations(log, world.appender(log))
    for name in names:
        organizations.create(name)


def count_reads(log: SqliteLog, views: SqliteViews, world: World) -> tuple[Organizations, list[None]]:
    """A directory with an empty cache, and a list that gets an element at each read."""
    reads: list[None] = []

    def add_read() -> None:
        reads.append(None)

    counting_log, counting_views = CountingLog(log, add_read), RecordingViews(views, Counter(), add_read)
    return Organizations(counting_log, world.appender(log), LogReader(counting_log, counting_views)), reads


def test_health_heads_lists_head_of_each_log(organizations: Organizations, log: SqliteLog, world: World) -> None:
    organizations.create("a")
    organizations.create("b")
    world.appender(log).append(append("/1", "/2", server=2))
    assert [(head.id, head.last_event_id) for head in HealthCheck(log, organizations).heads(0, 10)] == [
        ((1, 0, 0), 0),
        ((2, 1, 2), NOW + 1),
    ]
