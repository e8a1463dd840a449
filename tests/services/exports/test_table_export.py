"""Exports of the table on AWS: no gaps and overlaps, and each export is loaded once, even after crashes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import Busy, Unavailable
from chalicelib.domain.exports.export import FULL, INCREMENTAL
from chalicelib.domain.exports.table_export import (
    EXPORT_LAG_S,
    EXPORTS_VIEW,
    JOB_START_TIMEOUT_S,
    MAX_SPAN_S,
    MIN_SPAN_S,
    LedgerEntry,
    TableExport,
)
from chalicelib.domain.views.record import MAX_CHARACTER, ConditionalWrite, Record
from chalicelib.services.exports.table_export import MAX_STARTS_PER_RUN, Status, TableExporter
from tests.services.fakes import NOW_MS, World

NOW_S = NOW_MS // 1000
ARN = "arn:aws:dynamodb:eu-central-1:123456789012:table/log/export"


@dataclass
class FakeExports:
    """Behaves like AWS: the same token is the same export, and old spans have expired."""

    earliest_s: int = 0
    lost_responses: int = 0
    """Number of responses that get lost."""
    tokens: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)

    def start(self, export: TableExport) -> str | None:
        begin_s = export.to_s if export.kind == FULL else export.begin_s
        if begin_s < self.earliest_s:
            return None
        arn = self.tokens.setdefault(export.token, f"{ARN}/{len(self.tokens) + 1:014d}-00000000")
        self.statuses.setdefault(arn, "IN_PROGRESS")
        if self.lost_responses:
            self.lost_responses -= 1
            raise Unavailable("the response got lost")
        return arn

    def status(self, arn: str) -> Status:
        return self.statuses[arn]

    def end_all(self, status: Status) -> list[str]:
        """End all exports in progress with this status and return their ids."""
        ended = [arn for arn, now in self.statuses.items() if now == "IN_PROGRESS"]
        self.statuses |= dict.fromkeys(ended, status)
        return [arn.rpartition("/")[2] for arn in ended]


@dataclass
class FakeHistoryJob:
    """Allows one run at a time."""

    is_running: bool = False
    runs: int = 0

    def start(self) -> str | None:
        if self.is_running:
            return None
        self.runs += 1
        return f"jr_{self.runs}"


@dataclass
class ExportSetup:
    """An exporter on fakes, with a ledger on disk."""

    views: SqliteViews
    world: World
    aws: FakeExports = field(default_factory=FakeExports)
    job: FakeHistoryJob = field(default_factory=FakeHistoryJob)
    saved_names: int = 0
    """How often the names of the organizations were saved."""

    @property
    def exporter(self) -> TableExporter:
        return TableExporter(self.views, self.aws, self.job, self.world.clock, self.save_names)

    def save_names(self) -> None:
        self.saved_names += 1

    def run(self, after_s: int = 0) -> None:
        """Run the schedule after this time."""
        self.world.now_ms += after_s * 1000
        self.exporter.run()

    def ledger(self) -> list[TableExport]:
        return [LedgerEntry.from_record(record).export for record in self.views.range(EXPORTS_VIEW, "", MAX_CHARACTER)]

    def states(self) -> list[str]:
        return [export.state for export in self.ledger()]


@pytest.fixture
def setup(sqlite_views: SqliteViews, world: World) -> ExportSetup:
    return ExportSetup(sqlite_views, world)


def spans(setup: ExportSetup) -> list[tuple[str, int, int]]:
    """Kind, begin and end of each export, in seconds since the end of the first one."""
    end_s = NOW_S - EXPORT_LAG_S
    return [(export.kind, export.begin_s and export.begin_s - end_s, export.to_s - end_s) for export in setup.ledger()]


def test_run_first_is_full_then_incremental_without_gaps(setup: ExportSetup) -> None:
    setup.run()
    setup.run(after_s=3600)
    setup.run(after_s=7200)
    assert spans(setup) == [(FULL, 0, 0), (INCREMENTAL, 0, 3600), (INCREMENTAL, 3600, 10_800)]
    assert setup.states() == ["started"] * 3


def test_run_waits_for_minimum_span(setup: ExportSetup) -> None:
    setup.run()
    setup.run(after_s=MIN_SPAN_S - 1)
    assert len(setup.ledger()) == 1
    setup.run(after_s=1)
    assert spans(setup)[1:] == [(INCREMENTAL, 0, MIN_SPAN_S)]


def test_run_splits_span_longer_than_maximum(setup: ExportSetup) -> None:
    setup.run()
    setup.run(after_s=2 * MAX_SPAN_S + 3600)
    parts = [(0, MAX_SPAN_S), (MAX_SPAN_S, 2 * MAX_SPAN_S), (2 * MAX_SPAN_S, 2 * MAX_SPAN_S + 3600)]
    assert spans(setup)[1:] == [(INCREMENTAL, *part) for part in parts]


def test_run_after_long_pause_catches_up_in_several_runs(setup: ExportSetup) -> None:
    setup.run()
    setup.run(after_s=10 * MAX_SPAN_S)
    assert len(setup.ledger()) == 1 + MAX_STARTS_PER_RUN
    setup.run()
    assert spans(setup)[-1] == (INCREMENTAL, 9 * MAX_SPAN_S, 10 * MAX_SPAN_S)


def test_run_after_lost_response_starts_no_second_export(setup: ExportSetup) -> None:
    setup.aws.lost_responses = 1
    with pytest.raises(Unavailable):
        setup.run()
    assert setup.states() == ["planned"]
    setup.run(after_s=600)
    assert (spans(setup), setup.states(), len(setup.aws.tokens)) == ([(FULL, 0, 0)], ["started"], 1)


def test_run_expired_span_is_replaced_by_full_export(setup: ExportSetup) -> None:
    setup.run()
    setup.aws.earliest_s = NOW_S + 3600
    setup.run(after_s=7200)
    assert spans(setup) == [(FULL, 0, 0), (FULL, 0, 7200)]
    setup.run(after_s=3600)
    assert spans(setup)[2:] == [(INCREMENTAL, 7200, 10_800)]
    assert setup.states() == ["started"] * 3


def test_run_recovery_just_enabled_waits_for_next_run(setup: ExportSetup) -> None:
    setup.aws.earliest_s = NOW_S
    setup.run()
    assert (setup.states(), setup.aws.tokens) == (["planned"], {})
    setup.run(after_s=3600)
    assert (spans(setup), setup.states()) == ([(FULL, 0, 3600)], ["started"])


def test_run_failed_export_is_retried_with_new_token(setup: ExportSetup) -> None:
    setup.run()
    setup.aws.end_all("FAILED")
    setup.run(after_s=60)
    (export,) = setup.ledger()
    assert (export.state, export.tries, export.arn) == ("started", 2, f"{ARN}/00000000000002-00000000")


def test_handle_complete_repeated_loads_once(setup: ExportSetup) -> None:
    setup.run()
    ids = setup.aws.end_all("COMPLETED")
    for _ in range(3):
        setup.exporter.handle_complete(ids)
    setup.run(after_s=60)
    (export,) = setup.ledger()
    assert (setup.job.runs, export.state, export.run) == (1, "loaded", "jr_1")


def test_run_loads_complete_exports_without_event(setup: ExportSetup) -> None:
    setup.run()
    setup.run(after_s=3600)
    setup.aws.end_all("COMPLETED")
    setup.run(after_s=60)
    assert (setup.job.runs, setup.states()) == (1, ["loaded", "loaded"])


def test_handle_complete_unknown_export_is_ignored(setup: ExportSetup, caplog: pytest.LogCaptureFixture) -> None:
    setup.run()
    setup.exporter.handle_complete(["01794798000000-1a2b3c4d"])
    assert (setup.job.runs, setup.states()) == (0, ["started"])
    assert "ignored export 01794798000000-1a2b3c4d" in caplog.text


def test_handle_complete_while_job_runs_raises_busy(setup: ExportSetup) -> None:
    setup.run()
    ids, setup.job.is_running = setup.aws.end_all("COMPLETED"), True
    with pytest.raises(Busy):
        setup.exporter.handle_complete(ids)
    assert setup.states() == ["arrived"]
    setup.job.is_running = False
    setup.exporter.handle_complete(ids)
    assert (setup.job.runs, setup.states()) == (1, ["loaded"])


def test_handle_complete_after_busy_run_loads_waiting_export(setup: ExportSetup) -> None:
    """The end of the run is the only event that comes. Until the next schedule it may take a day."""
    setup.run()
    ids, setup.job.is_running = setup.aws.end_all("COMPLETED"), True
    with pytest.raises(Busy):
        setup.exporter.handle_complete(ids)
    setup.job.is_running = False
    setup.exporter.handle_complete([])
    setup.exporter.handle_complete([])
    assert (setup.job.runs, setup.states()) == (1, ["loaded"])


def test_handle_complete_of_nothing_starts_nothing(setup: ExportSetup) -> None:
    """It must not start exports: their loads would end, and start the next ones."""
    setup.run()
    setup.world.now_ms += 86_400_000
    setup.exporter.handle_complete([])
    assert (setup.job.runs, setup.states(), setup.saved_names) == (0, ["started"], 0)


def test_load_saves_names_before_it_starts_the_job(setup: ExportSetup) -> None:
    setup.run()
    crashing = TableExporter(setup.views, setup.aws, _CrashingJob(), setup.world.clock, setup.save_names)
    with pytest.raises(KeyboardInterrupt):
        crashing.handle_complete(setup.aws.end_all("COMPLETED"))
    assert setup.saved_names == 1


def test_run_after_crash_at_job_start_retries_after_timeout(setup: ExportSetup) -> None:
    setup.run()
    ids = setup.aws.end_all("COMPLETED")
    crashing = TableExporter(setup.views, setup.aws, _CrashingJob(), setup.world.clock, setup.save_names)
    with pytest.raises(KeyboardInterrupt):
        crashing.handle_complete(ids)
    assert setup.states() == ["loading"]
    setup.exporter.handle_complete(ids)
    assert setup.job.runs == 0
    setup.run(after_s=JOB_START_TIMEOUT_S + 1)
    assert (setup.job.runs, setup.states()[0]) == (1, "loaded")


def test_run_concurrently_replaces_expired_span_once(setup: ExportSetup) -> None:
    setup.run()
    setup.aws.end_all("FAILED")
    setup.aws.earliest_s = NOW_S + 3600
    setup.world.now_ms += 7_200_000
    TableExporter(_RacingViews(setup), setup.aws, setup.job, setup.world.clock, setup.save_names).run()
    assert (spans(setup), setup.states()) == ([(FULL, 0, 7200)], ["started"])


def test_run_concurrently_plans_span_once(setup: ExportSetup) -> None:
    setup.run()
    setup.world.now_ms += 3_600_000
    TableExporter(_RacingViews(setup), setup.aws, setup.job, setup.world.clock, setup.save_names).run()
    assert spans(setup) == [(FULL, 0, 0), (INCREMENTAL, 0, 3600)]
    assert (len(setup.aws.tokens), setup.states()) == (2, ["started", "started"])


class _CrashingJob:
    def start(self) -> str | None:
        raise KeyboardInterrupt


@dataclass
class _RacingViews:
    """Views in which another function writes just before the first write."""

    setup: ExportSetup
    has_raced: bool = False

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self.setup.views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self.setup.views.range(view, start, end, backwards)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        if not self.has_raced:
            self.has_raced = True
            self.setup.run()
        return self.setup.views.put(changes)

    def delete(self, view: str, items: Sequence[str]) -> None:
        self.setup.views.delete(view, items)

    def drop(self, view: str) -> int:
        return self.setup.views.drop(view)
