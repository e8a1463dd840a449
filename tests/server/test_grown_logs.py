"""The consumer worker visits the logs that have grown, and no others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.services.reading.retention import RetentionBoundary
from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local
from infra.server.processes import grown_logs
from infra.server.processes.consumer_worker import MIN_IDLE_LOGS, ConsumerWorker
from infra.server.processes.grown_logs import MANY_LOGS, GrownLogs
from tests.server.test_consumer_worker import fill, lag
from tests.services.fakes import World

NEVER = float("inf")
NAMES = [f"org-{number}" for number in range(30)]


@pytest.fixture
def components(tmp_path: Path) -> Iterator[Components]:
    """Organizations with one commit each."""
    components = _open(tmp_path)
    for name in NAMES:
        components.log.organizations.create(name)
        fill(components, name, 1)
    yield components
    components.close()


@pytest.fixture
def worker(components: Components) -> ConsumerWorker:
    """A worker that has consumed all logs and makes no idle visits."""
    worker = ConsumerWorker(components)
    worker.run_once()
    worker.next_idle_run = worker.next_due_run = NEVER
    return worker


@pytest.fixture
def read_logs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The servers whose logs are read, in order."""
    servers: list[int] = []
    read = SqliteLog.read

    def record_read(log: SqliteLog, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        servers.append(server)
        return read(log, server, after, limit)

    monkeypatch.setattr(SqliteLog, "read", record_read)
    return servers


def test_first_run_consumes_all_logs(worker: ConsumerWorker) -> None:
    assert [lag(worker.components, name) for name in NAMES] == [0] * len(NAMES)


def test_run_without_new_commits_reads_no_log(worker: ConsumerWorker, read_logs: list[int]) -> None:
    worker.run_once()
    read_logs.clear()
    worker.run_once()
    assert read_logs == []


def test_run_reads_only_the_log_that_grew(worker: ConsumerWorker, read_logs: list[int]) -> None:
    worker.run_once()
    fill(worker.components, "org-7", 1)
    read_logs.clear()
    worker.run_once()
    server = worker.components.log.organizations.server("org-7")
    assert set(read_logs) == {server, configuration_log(server)}
    assert lag(worker.components, "org-7") == 0


def test_run_finds_commits_of_another_process(worker: ConsumerWorker, tmp_path: Path) -> None:
    """Also of an organization that the other process has created."""
    other = _open(tmp_path)
    other.log.organizations.create("new")
    fill(other, "new", 1)
    fill(other, "org-3", 2)
    other.close()
    worker.run_once()
    assert [lag(worker.components, name) for name in ("new", "org-3")] == [0, 0]


def test_run_repeats_failed_log_without_new_commits(worker: ConsumerWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(worker.components, "org-3", 1)
    fill(worker.components, "org-4", 1)
    server, retention = worker.components.log.organizations.server("org-3"), worker.components.log.retention
    boundary = retention.boundary

    def failing_boundary(log: int) -> RetentionBoundary:
        if log == server:
            raise Unavailable("no answer")
        return boundary(log)

    with monkeypatch.context() as patch:
        patch.setattr(retention, "boundary", failing_boundary)
        with pytest.raises(Unavailable):
            worker.run_once()
    assert [lag(worker.components, name) for name in ("org-3", "org-4")] == [1, 0]
    worker.run_once()
    assert lag(worker.components, "org-3") == 0


def test_idle_visits_reach_every_log_in_turn(worker: ConsumerWorker) -> None:
    logs = set(worker.grown_logs.last_sessions)
    assert len(logs) > MIN_IDLE_LOGS
    visits = [worker._idle_logs() for _ in range(4)]
    assert set(visits[0]) | set(visits[1]) == logs
    assert (visits[2], visits[3]) == (visits[0], visits[1])


def test_restarted_worker_continues_at_checkpoints(worker: ConsumerWorker) -> None:
    fill(worker.components, "org-3", 1)
    ConsumerWorker(worker.components).run_once()
    assert lag(worker.components, "org-3") == 0


def test_scan_of_few_logs_is_never_too_early() -> None:
    world = World()
    logs = GrownLogs(lambda: {1: 1}, world.monotonic)
    assert (logs.scan(), logs.scan(), logs.since({1: 0}), logs.since({1: 1})) == (True, True, [1], [])


def test_scan_of_many_logs_takes_limited_share_of_time() -> None:
    world = World()

    def slow_scan() -> dict[int, int]:
        world.elapsed_s += 0.1
        return dict.fromkeys(range(MANY_LOGS + 1), 1)

    logs = GrownLogs(slow_scan, world.monotonic, world.monotonic)
    assert (logs.scan(), logs.scan()) == (True, False)
    world.elapsed_s += 0.1 * (1 / grown_logs.MAX_SCAN_SHARE - 1) + 0.001
    assert logs.scan()


def _open(folder: Path) -> Components:
    return build_local(Settings.from_environment({"DATA_DIR": str(folder), "JWT_KEY": "k" * 32}))
