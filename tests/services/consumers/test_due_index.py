"""The due index: work is done once its time has come, and no deadline is lost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.domain.errors import Unavailable
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.due import END_US, MAX_ENTRY_DEADLINES, Deadline, DueEntry, due_entries, due_item_end
from chalicelib.domain.views.record import Record
from chalicelib.services.consumers import due_index
from chalicelib.services.consumers.due_index import MAX_ROUND_DEADLINES, DueIndex
from chalicelib.services.consumers.for_each import raise_all, raise_first
from chalicelib.services.ports import Views
from tests.exactness.stores import CallOnce, Crash, InterceptedViews, RecordingViews
from tests.services.fakes import NOW, World


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def views(request: pytest.FixtureRequest) -> Views:
    stored: Views = request.getfixturevalue(f"{request.param}_views")
    return stored


class Reminders:
    """Work that notes which deadlines were due, and keeps those of `postponed`."""

    def __init__(self) -> None:
        self.done: list[tuple[int, str]] = []
        self.postponed: dict[str, Deadline] = {}
        self.failing_server = 0

    def deadlines(self, commits: Sequence[Commit]) -> Sequence[Deadline]:
        del commits
        return ()

    def check(self, server: int, deadlines: Sequence[Deadline], now_us: int) -> list[Deadline]:
        assert all(deadline.due_us < now_us for deadline in deadlines)
        if server == self.failing_server:
            raise Unavailable("no answer")
        kept = [self.postponed.pop(one.name) for one in deadlines if one.name in self.postponed]
        names = {deadline.name for deadline in kept}
        self.done += [(server, one.name) for one in deadlines if one.name not in names]
        return kept


class Setup:
    """A due index with reminders."""

    def __init__(self, views: Views, world: World) -> None:
        self.views, self.world, self.reminders = views, world, Reminders()
        self.index = DueIndex(views, world.clock, {"reminder": self.reminders})

    def put(self, server: int, *deadlines: Deadline) -> None:
        self.index._put(due_entries("reminder", server, deadlines))

    def run(self) -> list[tuple[int, str]]:
        """Run, and return the work that was done."""
        self.reminders.done.clear()
        self.index.run(on_error=raise_first)
        return list(self.reminders.done)

    def stored(self) -> list[str]:
        """The names of all stored deadlines."""
        entries = map(DueEntry.from_record, self.views.range("due", "", due_item_end(END_US)))
        return sorted(deadline.name for entry in entries for deadline in entry.deadlines)


@pytest.fixture
def setup(views: Views, world: World) -> Setup:
    return Setup(views, world)


def due_in(seconds: float, name: str = "a") -> Deadline:
    return Deadline(name, NOW, round(seconds * 1_000_000))


def test_run_work_of_all_logs_when_due_once(setup: Setup) -> None:
    setup.put(1, due_in(10, "a"), due_in(20, "b"), due_in(3600, "c"))
    setup.put(2, due_in(10, "d"))
    assert setup.run() == []
    setup.world.now_ms += 10_001
    assert setup.run() == [(1, "a"), (2, "d")]
    assert (setup.run(), setup.stored()) == ([], ["b", "c"])
    setup.world.now_ms += 10_000
    assert (setup.run(), setup.stored()) == ([(1, "b")], ["c"])


def test_run_deadline_is_not_due_at_its_exact_time(setup: Setup) -> None:
    setup.put(1, due_in(10))
    setup.world.now_ms += 10_000
    assert setup.run() == []
    setup.world.now_ms += 1
    assert setup.run() == [(1, "a")]


def test_run_after_clock_steps_finds_all_work(setup: Setup) -> None:
    setup.put(1, due_in(10, "a"), due_in(-100_000, "b"))
    setup.world.now_ms -= 200_000_000
    assert setup.run() == []
    setup.world.now_ms += 400_000_000
    assert setup.run() == [(1, "b"), (1, "a")]


def test_run_postponed_deadline_is_checked_at_its_new_time(setup: Setup) -> None:
    setup.put(1, due_in(10, "a"), due_in(11, "b"))
    setup.reminders.postponed = {"a": due_in(100, "a")}
    setup.world.now_ms += 12_000
    assert (setup.run(), setup.stored()) == ([(1, "b")], ["a"])
    setup.world.now_ms += 80_000
    assert setup.run() == []
    setup.world.now_ms += 10_000
    assert (setup.run(), setup.stored()) == ([(1, "a")], [])


def test_run_unchanged_deadline_is_checked_again(setup: Setup) -> None:
    setup.put(1, due_in(10, "a"))
    setup.reminders.postponed = {"a": due_in(10, "a")}
    setup.world.now_ms += 12_000
    assert (setup.run(), setup.stored()) == ([], ["a"])
    assert (setup.run(), setup.stored()) == ([(1, "a")], [])


def test_run_failed_log_keeps_its_deadlines_and_others_run(setup: Setup) -> None:
    setup.put(1, due_in(1, "a"))
    setup.put(2, due_in(2, "b"))
    setup.world.now_ms += 12_000
    setup.reminders.failing_server = 1
    with pytest.raises(ExceptionGroup, match="reminder"):
        setup.index.run(on_error=raise_all)
    assert (setup.reminders.done, setup.stored()) == ([(2, "b")], ["a"])
    setup.reminders.failing_server = 0
    assert setup.run() == [(1, "a")]


def test_run_without_time_does_nothing(setup: Setup) -> None:
    setup.put(1, due_in(1))
    setup.world.now_ms += 12_000
    assert (setup.index.run(lambda: False), setup.stored()) == (0, ["a"])


def test_run_unknown_kind_of_work_is_kept(setup: Setup) -> None:
    setup.index._put(due_entries("later version", 1, [due_in(1)]))
    setup.world.now_ms += 12_000
    assert (setup.run(), setup.stored()) == ([], ["a"])


def test_run_log_with_many_deadlines_does_not_delay_others(sqlite_views: Views, world: World) -> None:
    setup = Setup(sqlite_views, world)
    total = MAX_ROUND_DEADLINES + MAX_ENTRY_DEADLINES
    setup.put(1, *(due_in(1, f"{number:05d}") for number in range(total)))
    setup.put(2, due_in(2, "b"))
    setup.world.now_ms += 12_000
    done = setup.run()
    assert (len(done), done.index((2, "b"))) == (total + 1, MAX_ROUND_DEADLINES)
    assert setup.run() == []


def test_runs_read_entries_of_many_deadlines_few_times(
    sqlite_views: Views, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run reads the entries once, although the work settles few deadlines at a time."""
    monkeypatch.setattr(due_index, "MAX_LOG_DEADLINES", 2_000)

    class SlowReminders(Reminders):
        def check(self, server: int, deadlines: Sequence[Deadline], now_us: int) -> list[Deadline]:
            return [*super().check(server, deadlines[:100], now_us), *deadlines[100:]]

    reads: Counter[str] = Counter()
    work = SlowReminders()
    setup = Setup(sqlite_views, world)
    index = DueIndex(RecordingViews(sqlite_views, reads), world.clock, {"reminder": work})
    setup.put(1, *(due_in(number / 1_000, f"{number}") for number in range(4_000)))
    setup.put(2, due_in(5, "b"))
    setup.world.now_ms += 12_000
    assert [index.run(on_error=raise_first) for _ in range(3)] == [2_001, 2_000, 0]
    assert (len(set(work.done)), len(work.done), work.done.index((2, "b"))) == (4_001, 4_001, 100)
    assert reads["read "] == 21 + 10


def test_entries_of_far_deadlines_are_not_stored() -> None:
    assert due_entries("reminder", 1, [Deadline("a", NOW, END_US)]) == []


def test_idle_run_is_one_read(setup: Setup) -> None:
    """However many deadlines of however many logs lie in the future."""
    for server in range(1, 21):
        setup.put(server, *(due_in(3600 + number, f"{number}") for number in range(5)))
    calls: list[str] = []

    class CallRecorder(InterceptedViews):
        def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
            calls.append("get")
            return super().get(view, items)

        def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
            calls.append("range")
            return super().range(view, start, end, backwards)

    views = CallRecorder(setup.views, Counter(), lambda: calls.append("write"))
    assert (DueIndex(views, setup.world.clock, setup.index.work).run(), calls) == (0, ["range"])


Step = tuple[str, int, int]


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "wait", "run", "crash", "postpone"]), st.integers(1, 3), st.integers(0, 200)),
        max_size=40,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_index_loses_no_deadline_at_any_crash(steps: list[Step], sqlite_views: Views) -> None:
    """Each deadline is checked after its time, also if a run crashes at any write. Repeats are allowed."""
    sqlite_views.drop("due")
    world = World()
    setup, numbers = Setup(sqlite_views, world), count()
    open_names: set[tuple[int, str]] = set()

    for action, server, number in steps:
        match action:
            case "put":
                name = f"{next(numbers)}"
                setup.put(server, Deadline(name, world.now_ms * 1000, number * 1_000_000))
                open_names.add((server, name))
            case "wait":
                world.now_ms += (number - 50) * 1000
            case "run":
                open_names.difference_update(setup.run())
            case "postpone" if open_names:
                _, name = min(open_names)
                setup.reminders.postponed = {name: Deadline(name, world.now_ms * 1000, number * 1_000_000)}
            case "crash":
                open_names.difference_update(_run_until_crash(setup, number % 4 + 1))
    setup.reminders.postponed = {}
    world.now_ms += 10**9
    open_names.difference_update(setup.run())
    assert (open_names, setup.stored()) == (set(), [])


def _run_until_crash(setup: Setup, writes: int) -> list[tuple[int, str]]:
    """Run, and crash before the n-th write."""

    def crash() -> None:
        raise Crash

    setup.reminders.done.clear()
    views = InterceptedViews(setup.views, Counter(), CallOnce(writes, crash))
    with suppress(Crash):
        DueIndex(views, setup.world.clock, setup.index.work).run(on_error=raise_first)
    return list(setup.reminders.done)
