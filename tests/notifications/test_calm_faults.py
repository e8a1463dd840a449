"""The worker fails at each of its writes, before or after it, and starts again: all decisions are the same."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.views.record import ConditionalWrite, Record
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.for_each import raise_first
from chalicelib.services.ports import Outbox, Views, ignore_metric
from chalicelib.wiring.components import Components, build_components
from tests.notifications.calm_site import HOUR_S, CalmSite, Reported, open_calm_site


class WorkerKilled(BaseException):
    """Ends the worker like a signal: no code of the product handles it."""


@dataclass
class Fault:
    """Ends the worker at the write with this number."""

    at: int
    is_written: bool
    writes: int = 0

    def around(self, write: Callable[[], Any]) -> Any:
        self.writes += 1
        if self.writes == self.at and not self.is_written:
            raise WorkerKilled
        result = write()
        if self.writes == self.at:
            raise WorkerKilled
        return result


@dataclass
class FaultyViews:
    """Views whose writes may end the worker."""

    views: Views
    fault: Fault

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self.views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self.views.range(view, start, end, backwards)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        result: list[ConditionalWrite] = self.fault.around(lambda: self.views.put(changes)) if changes else []
        return result

    def delete(self, view: str, items: Sequence[str]) -> None:
        self.fault.around(lambda: self.views.delete(view, items))

    def drop(self, view: str) -> int:
        return self.views.drop(view)


@dataclass
class FaultyOutbox:
    """An outbox whose `put` may end the worker."""

    outbox: SqliteOutbox
    fault: Fault
    counts: Any = field(init=False)
    parked: Any = field(init=False)
    retry: Any = field(init=False)

    def __post_init__(self) -> None:
        self.counts, self.parked, self.retry = self.outbox.counts, self.outbox.parked, self.outbox.retry

    def put(self, deliveries: Sequence[Any]) -> None:
        if deliveries:
            self.fault.around(lambda: self.outbox.put(deliveries))


def restarted(calm: CalmSite, fault: Fault) -> Components:
    """The components of a new worker process on the same files."""
    components = calm.site.components
    stores = replace(
        components.stores,
        progress=FaultyViews(components.stores.progress, fault),
        outbox=cast(Outbox, FaultyOutbox(calm.site.outbox, fault)),
    )
    mailer = components.notifications.create_mailer
    return build_components(components.settings, calm.world.clock, ignore_metric, stores, components.log, mailer)


def work(calm: CalmSite, components: Components) -> None:
    """What the consumer worker does."""
    matcher, stores = components.notifications.matcher, components.stores
    catch_up(matcher.consumer, calm.server, stores.log, stores.progress)
    while components.consumers.held.run(on_error=raise_first):
        pass


def tell(calm: CalmSite, worker: Callable[[], None]) -> None:
    """A day of failures and successes, during which the worker works."""
    calm.put("digest", digest="10m")
    calm.put("changes", when="change", quiet="23:00-01:00")
    calm.put("calm", throttle="1h", group_by=["type", "node"], config={"to": "a@example.org, b@example.org"})
    calm.put("plain")
    for hour in range(5):
        calm.fail()
        calm.fail("deploy", node="n2")
        worker()
        if hour == 1:
            calm.silence("deploy")
            calm.acknowledge("backup")
        calm.fail()
        if hour != 2:
            calm.succeed()
        calm.world.now_ms += 1_800_000
        worker()
    calm.world.now_ms += int(24 * HOUR_S * 1000)
    worker()


def outcome(calm: CalmSite) -> dict[str, list[Reported]]:
    return {name: sorted(calm.reported(name)) for name in ("digest", "changes", "calm", "plain")}


@pytest.fixture(name="expected", scope="module")
def without_faults(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[Reported]], int]:
    """The messages without faults, and the number of writes."""
    fault = Fault(0, is_written=False)
    with open_calm_site(tmp_path_factory.mktemp("calm")) as calm:
        components = restarted(calm, fault)
        tell(calm, lambda: work(calm, components))
        return outcome(calm), fault.writes


def test_story_has_messages_of_all_kinds(expected: tuple[dict[str, list[Reported]], int]) -> None:
    reported, writes = expected
    assert {name: (len(all_of), sum(one.number for one in all_of)) for name, all_of in reported.items()} == {
        "digest": (9, 17),
        "changes": (6, 9),
        "calm": (16, 34),
        "plain": (17, 17),
    }
    assert writes > 50


@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
def test_worker_killed_at_any_write_decides_the_same(
    tmp_path: Path, expected: tuple[dict[str, list[Reported]], int], is_written: bool
) -> None:
    reported, writes = expected
    for at in range(1, writes + 1):
        fault = Fault(at, is_written)
        with open_calm_site(tmp_path / str(at)) as calm:
            worker = restarted(calm, fault)

            def run(calm: CalmSite = calm, fault: Fault = fault) -> None:
                nonlocal worker
                try:
                    work(calm, worker)
                except WorkerKilled:
                    worker = restarted(calm, fault)
                    work(calm, worker)

            tell(calm, run)
            assert fault.writes >= at
            assert outcome(calm) == reported, f"killed {'after' if is_written else 'before'} write {at}"


def test_two_workers_at_once_decide_the_same(tmp_path: Path, expected: tuple[dict[str, list[Reported]], int]) -> None:
    """A second worker does the same work between the steps of the first."""
    with open_calm_site(tmp_path / "site") as calm:
        first, second = (restarted(calm, Fault(0, is_written=False)) for _ in range(2))

        def run() -> None:
            matcher, progress = first.notifications.matcher, first.stores.progress
            put = first.stores.outbox.put

            def put_then_other(deliveries: Sequence[Any]) -> None:
                put(deliveries)
                work(calm, second)

            object.__setattr__(first.stores.outbox, "put", put_then_other)
            catch_up(matcher.consumer, calm.server, first.stores.log, progress)
            object.__setattr__(first.stores.outbox, "put", put)
            work(calm, first)

        tell(calm, run)
        assert outcome(calm) == expected[0]


def test_unavailable_store_is_reported_not_swallowed(tmp_path: Path) -> None:
    with open_calm_site(tmp_path / "site") as calm:
        components = restarted(calm, Fault(0, is_written=False))
        calm.put(digest="10m")
        calm.fail()

        def refuse(changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
            raise Unavailable(f"{len(changes)} writes")

        object.__setattr__(components.stores.progress, "put", refuse)
        with pytest.raises(Unavailable):
            work(calm, components)
