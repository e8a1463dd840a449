"""Pings in two processes on one log, and names of which a run is expected."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chalicelib.domain.errors import NotFound
from chalicelib.domain.expectations.expectation import Expectation
from chalicelib.domain.pings.ping import Ping, parse_signal
from chalicelib.services.jobs.job_types import job_type_state
from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local

START, SUCCESS = parse_signal("start"), parse_signal("0")
PINGS = 24


@pytest.fixture(name="processes")
def fixture_processes(tmp_path: Path) -> Iterator[tuple[Components, Components]]:
    """The components of two processes, with an organization."""
    settings = Settings.from_environment({"DATA_DIR": str(tmp_path), "JWT_KEY": "k" * 32})
    first, second = build_local(settings), build_local(settings)
    first.log.organizations.create("acme")
    yield first, second
    first.close()
    second.close()


@pytest.fixture(name="server")
def fixture_server(processes: tuple[Components, Components]) -> int:
    return processes[0].log.organizations.server("acme")


def record_all(processes: tuple[Components, Components], server: int, *pings: Ping) -> list[bool]:
    """Record pings at the same time, alternately in both processes. Returns whether each one has found a new name."""

    def record(place: int) -> bool:
        return processes[place % 2].pings.recorder.record(server, pings[place], "cron").is_new_name

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(record, range(len(pings))))


def job_events(components: Components, server: int) -> list[tuple[str, str]]:
    """The name and the key of each event."""
    fields = [event.fields for commit in components.stores.log.read(server, 0) for event in commit.events]
    return [(each.type[1], each.key or "") for each in fields]


def test_starts_in_two_processes_are_separate_runs(processes: tuple[Components, Components], server: int) -> None:
    record_all(processes, server, *[Ping("backup", START, may_create=True)] * PINGS)
    assert sorted(job_events(processes[0], server)) == sorted(("create", f"/job/{n}") for n in range(1, PINGS + 1))


def test_ends_in_two_processes_end_each_run_once(processes: tuple[Components, Components], server: int) -> None:
    starts = PINGS // 2
    record_all(processes, server, *[Ping("backup", START, may_create=True)] * starts)
    assert record_all(processes, server, *[Ping("backup", SUCCESS)] * PINGS) == [False] * PINGS
    events = job_events(processes[0], server)
    runs = sorted(f"/job/{n}" for n in range(1, PINGS + 1))
    assert sorted(key for name, key in events if name == "create") == runs
    assert sorted(key for name, key in events if name == "finish") == runs
    state = job_type_state(processes[1].log.reader, server, "backup")
    assert state is not None
    assert (state["open"], state["openRuns"]) == (0, [])


def test_starts_and_ends_at_once_leave_no_run_twice(processes: tuple[Components, Components], server: int) -> None:
    pings = [Ping("backup", (START, SUCCESS)[number % 2], may_create=True) for number in range(2 * PINGS)]
    record_all(processes, server, *pings)
    finished = [key for name, key in job_events(processes[0], server) if name == "finish"]
    assert (len(finished), len(set(finished))) == (PINGS, PINGS)


def test_expected_name_needs_no_create(processes: tuple[Components, Components], server: int) -> None:
    first, second = processes
    expectations = second.expectations.registry
    expectations.put(server, "nightly", Expectation(type="backup", every=86_400.0))
    assert first.pings.recorder.record(server, Ping("backup", START), "cron").is_new_name is False
    with pytest.raises(NotFound, match="no job of the type 'restore'"):
        first.pings.recorder.record(server, Ping("restore", START), "cron")


def test_name_of_deleted_expectation_is_unknown(processes: tuple[Components, Components], server: int) -> None:
    first, second = processes
    expectations = second.expectations.registry
    expectations.put(server, "nightly", Expectation(type="backup", every=86_400.0))
    expectations.delete(server, "nightly")
    with pytest.raises(NotFound, match="add create=1"):
        first.pings.recorder.record(server, Ping("backup", SUCCESS), "cron")
    assert job_events(first, server) == []
