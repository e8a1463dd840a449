"""Exporting on AWS: spans without gap and overlap, each exported once and loaded once, whoever ends in the middle."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import Busy, Unavailable
from chalicelib.domain.exports.export import FULL, INCREMENTAL
from chalicelib.domain.exports.table_export import AGAIN_S, BEHIND_S, LONGEST_S, SHORTEST_S, VIEW, Entry, TableExport
from chalicelib.domain.views.record import END, Change, Record
from chalicelib.services.exports.table_export import MOST_STARTED, Status, TableExporting
from tests.services.worlds import NOW_MS, World

NOW_S = NOW_MS // 1000
ARN = "arn:aws:dynamodb:eu-central-1:123456789012:table/log/export"


@dataclass
class Aws:
    """Exports as AWS does them: the same token is the same export, and what is too long ago is forgotten."""

    earliest_s: int = 0
    down: int = 0
    """So many answers get lost."""
    tokens: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)

    def start(self, export: TableExport) -> str | None:
        reaches_back_s = export.to_s if export.kind == FULL else export.begin_s
        if reaches_back_s < self.earliest_s:
            return None
        arn = self.tokens.setdefault(export.token, f"{ARN}/{len(self.tokens) + 1:014d}-00000000")
        self.statuses.setdefault(arn, "IN_PROGRESS")
        if self.down:
            self.down -= 1
            raise Unavailable("the answer got lost")
        return arn

    def status(self, arn: str) -> Status:
        return self.statuses[arn]

    def end_all(self, status: Status) -> list[str]:
        """All that is under way ends like this; the ids."""
        ended = [arn for arn, now in self.statuses.items() if now == "IN_PROGRESS"]
        self.statuses |= dict.fromkeys(ended, status)
        return [arn.rpartition("/")[2] for arn in ended]


@dataclass
class Job:
    """The job that loads; at most one run at a time."""

    is_running: bool = False
    runs: int = 0

    def start(self) -> str | None:
        if self.is_running:
            return None
        self.runs += 1
        return f"jr_{self.runs}"


@dataclass
class Cloud:
    """All of it, with a ledger on disk."""

    views: SqliteViews
    world: World
    aws: Aws = field(default_factory=Aws)
    job: Job = field(default_factory=Job)

    @property
    def exporting(self) -> TableExporting:
        return TableExporting(self.views, self.aws, self.job, self.world.clock)

    def run(self, after_s: int = 0) -> None:
        """The schedule, so much later."""
        self.world.now_ms += after_s * 1000
        self.exporting.run()

    def ledger(self) -> list[TableExport]:
        return [Entry.of(record).export for record in self.views.range(VIEW, "", END)]

    def states(self) -> list[str]:
        return [export.state for export in self.ledger()]


@pytest.fixture
def cloud(sqlite_views: SqliteViews, world: World) -> Cloud:
    return Cloud(sqlite_views, world)


def spans(cloud: Cloud) -> list[tuple[str, int, int]]:
    """Kind, beginning and end of each export, in seconds from the first one's end."""
    end_s = NOW_S - BEHIND_S
    return [(export.kind, export.begin_s and export.begin_s - end_s, export.to_s - end_s) for export in cloud.ledger()]


def test_the_first_export_is_full_and_each_later_one_begins_where_the_one_before_ended(cloud: Cloud) -> None:
    cloud.run()
    cloud.run(after_s=3600)
    cloud.run(after_s=7200)
    assert spans(cloud) == [(FULL, 0, 0), (INCREMENTAL, 0, 3600), (INCREMENTAL, 3600, 10_800)]
    assert cloud.states() == ["started"] * 3


def test_a_span_shorter_than_aws_allows_waits(cloud: Cloud) -> None:
    cloud.run()
    cloud.run(after_s=SHORTEST_S - 1)
    assert len(cloud.ledger()) == 1
    cloud.run(after_s=1)
    assert spans(cloud)[1:] == [(INCREMENTAL, 0, SHORTEST_S)]


def test_a_span_longer_than_aws_allows_is_exported_in_parts(cloud: Cloud) -> None:
    cloud.run()
    cloud.run(after_s=2 * LONGEST_S + 3600)
    parts = [(0, LONGEST_S), (LONGEST_S, 2 * LONGEST_S), (2 * LONGEST_S, 2 * LONGEST_S + 3600)]
    assert spans(cloud)[1:] == [(INCREMENTAL, *part) for part in parts]


def test_after_weeks_without_a_schedule_it_catches_up_in_several_runs(cloud: Cloud) -> None:
    cloud.run()
    cloud.run(after_s=10 * LONGEST_S)
    assert len(cloud.ledger()) == 1 + MOST_STARTED
    cloud.run()
    assert spans(cloud)[-1] == (INCREMENTAL, 9 * LONGEST_S, 10 * LONGEST_S)


def test_a_lost_answer_costs_no_second_export(cloud: Cloud) -> None:
    cloud.aws.down = 1
    with pytest.raises(Unavailable):
        cloud.run()
    assert cloud.states() == ["planned"]
    cloud.run(after_s=600)
    assert (spans(cloud), cloud.states(), len(cloud.aws.tokens)) == ([(FULL, 0, 0)], ["started"], 1)


def test_a_span_that_aws_has_forgotten_is_made_good_by_a_full_export(cloud: Cloud) -> None:
    cloud.run()
    cloud.aws.earliest_s = NOW_S + 3600
    cloud.run(after_s=7200)
    assert spans(cloud) == [(FULL, 0, 0), (FULL, 0, 7200)]
    cloud.run(after_s=3600)
    assert spans(cloud)[2:] == [(INCREMENTAL, 7200, 10_800)]
    assert cloud.states() == ["started"] * 3


def test_where_recovery_was_just_switched_on_the_first_export_waits_for_the_next_run(cloud: Cloud) -> None:
    cloud.aws.earliest_s = NOW_S
    cloud.run()
    assert (cloud.states(), cloud.aws.tokens) == (["planned"], {})
    cloud.run(after_s=3600)
    assert (spans(cloud), cloud.states()) == ([(FULL, 0, 3600)], ["started"])


def test_an_export_that_failed_is_tried_again_with_another_token(cloud: Cloud) -> None:
    cloud.run()
    cloud.aws.end_all("FAILED")
    cloud.run(after_s=60)
    (export,) = cloud.ledger()
    assert (export.state, export.tries, export.arn) == ("started", 2, f"{ARN}/00000000000002-00000000")


def test_what_has_arrived_is_loaded_once_however_often_it_is_told(cloud: Cloud) -> None:
    cloud.run()
    ids = cloud.aws.end_all("COMPLETED")
    for _ in range(3):
        cloud.exporting.arrived(ids)
    cloud.run(after_s=60)
    (export,) = cloud.ledger()
    assert (cloud.job.runs, export.state, export.run) == (1, "loaded", "jr_1")


def test_what_has_arrived_and_was_never_told_is_loaded_by_the_schedule(cloud: Cloud) -> None:
    cloud.run()
    cloud.run(after_s=3600)
    cloud.aws.end_all("COMPLETED")
    cloud.run(after_s=60)
    assert (cloud.job.runs, cloud.states()) == (1, ["loaded", "loaded"])


def test_an_export_of_somebody_else_is_left_alone(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    cloud.run()
    cloud.exporting.arrived(["01794798000000-1a2b3c4d"])
    assert (cloud.job.runs, cloud.states()) == (0, ["started"])
    assert "01794798000000-1a2b3c4d is none of ours" in caplog.text


def test_a_job_that_is_running_is_started_again_for_what_it_may_not_have_seen(cloud: Cloud) -> None:
    cloud.run()
    ids, cloud.job.is_running = cloud.aws.end_all("COMPLETED"), True
    with pytest.raises(Busy):
        cloud.exporting.arrived(ids)
    assert cloud.states() == ["arrived"]
    cloud.job.is_running = False
    cloud.exporting.arrived(ids)
    assert (cloud.job.runs, cloud.states()) == (1, ["loaded"])


def test_whoever_dies_while_it_starts_the_job_is_replaced_after_a_while(cloud: Cloud) -> None:
    cloud.run()
    ids = cloud.aws.end_all("COMPLETED")
    dying = TableExporting(cloud.views, cloud.aws, _Deadly(), cloud.world.clock)
    with pytest.raises(KeyboardInterrupt):
        dying.arrived(ids)
    assert cloud.states() == ["loading"]
    cloud.exporting.arrived(ids)
    assert cloud.job.runs == 0
    cloud.run(after_s=AGAIN_S + 1)
    assert (cloud.job.runs, cloud.states()[0]) == (1, "loaded")


def test_of_two_functions_at_the_same_time_only_one_replaces_what_is_forgotten(cloud: Cloud) -> None:
    cloud.run()
    cloud.aws.end_all("FAILED")
    cloud.aws.earliest_s = NOW_S + 3600
    cloud.world.now_ms += 7_200_000
    TableExporting(_Racing(cloud), cloud.aws, cloud.job, cloud.world.clock).run()
    assert (spans(cloud), cloud.states()) == ([(FULL, 0, 7200)], ["started"])


def test_of_two_functions_at_the_same_time_only_one_plans_a_span(cloud: Cloud) -> None:
    cloud.run()
    cloud.world.now_ms += 3_600_000
    TableExporting(_Racing(cloud), cloud.aws, cloud.job, cloud.world.clock).run()
    assert spans(cloud) == [(FULL, 0, 0), (INCREMENTAL, 0, 3600)]
    assert (len(cloud.aws.tokens), cloud.states()) == (2, ["started", "started"])


class _Deadly:
    def start(self) -> str | None:
        raise KeyboardInterrupt


@dataclass
class _Racing:
    """Views into which another function writes just before the first write."""

    cloud: Cloud
    has_raced: bool = False

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self.cloud.views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self.cloud.views.range(view, start, end, backwards)

    def put(self, changes: Sequence[Change]) -> list[Change]:
        if not self.has_raced:
            self.has_raced = True
            self.cloud.run()
        return self.cloud.views.put(changes)

    def drop(self, view: str) -> int:
        return self.cloud.views.drop(view)
