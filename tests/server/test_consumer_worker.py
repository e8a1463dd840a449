"""The consumer worker yields to writers and misses no commit."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chalicelib.domain.views.record import PROJECTOR
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import MAX_RUN_COMMITS
from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local
from infra.server.processes.consumer_worker import POLL_INTERVAL_S, ConsumerWorker
from tests.services.fakes import append


@pytest.fixture
def components(tmp_path: Path) -> Iterator[Components]:
    components = build_local(Settings.from_environment({"DATA_DIR": str(tmp_path), "JWT_KEY": "k" * 32}))
    for name in ("first", "second"):
        components.log.organizations.create(name)
    yield components
    components.close()


def external_writes(*answers: bool) -> Callable[[], bool]:
    """A stub of `has_external_writes` that returns these answers, and then always False."""
    remaining = list(answers)
    return lambda: bool(remaining) and remaining.pop(0)


def lag(components: Components, organization: str) -> int:
    server = components.log.organizations.server(organization)
    return (
        components.stores.log.head(server).session
        - load_checkpoint(PROJECTOR, server, components.stores.views).head.session
    )


def fill(components: Components, organization: str, commits: int) -> None:
    server = components.log.organizations.server(organization)
    for number in range(commits):
        components.log.appender.append(append(request_id=f"{organization} {number}", server=server))


def test_worker_sleeps_only_while_others_write(components: Components) -> None:
    fill(components, "first", 2 * MAX_RUN_COMMITS + 1)
    sleeps: list[float] = []
    ConsumerWorker(
        replace(components, stores=replace(components.stores, has_external_writes=external_writes(True, False, True))),
        sleeps.append,
    ).run_once()
    assert sleeps
    assert all(0 < seconds <= POLL_INTERVAL_S for seconds in sleeps)
    assert lag(components, "first") == 0


def test_commit_written_during_sleep_is_consumed_next_run(components: Components) -> None:
    """The worker has consumed the first log and sleeps while it consumes the second."""
    fill(components, "second", MAX_RUN_COMMITS + 1)
    commits = iter([1])
    worker = ConsumerWorker(
        replace(components, stores=replace(components.stores, has_external_writes=external_writes(True, True))),
        lambda _seconds: fill(components, "first", next(commits, 0)),
    )
    worker.run_once()
    assert lag(components, "first") == 1
    worker.run_once()
    assert lag(components, "first") == 0


def test_worker_matches_new_events_before_it_sleeps(components: Components) -> None:
    """A notification does not wait until a long log is projected."""
    fill(components, "second", MAX_RUN_COMMITS + 1)
    commits = iter([0, 1])

    def write_and_report() -> bool:
        """At the first call nothing is written yet, at the second one commit, and then nothing more."""
        commit_count = next(commits, None)
        fill(components, "first", commit_count or 0)
        return commit_count is not None

    matcher, server = components.notifications.matcher.consumer.name, components.log.organizations.server("first")
    unmatched: list[int] = []

    def record_unmatched(_seconds: float) -> None:
        matched = load_checkpoint(matcher, server, components.stores.progress).head.session
        unmatched.append(components.stores.log.head(server).session - matched)

    stores = replace(components.stores, has_external_writes=write_and_report)
    ConsumerWorker(replace(components, stores=stores), record_unmatched).run_once()
    assert set(unmatched) == {0}
