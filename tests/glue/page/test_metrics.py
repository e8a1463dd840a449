"""Metrics of tables that are small enough to compute by hand."""

import statistics
from collections import Counter
from dataclasses import astuple
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from glue_jobs.page.percentiles import Summary
from glue_jobs.page.period import DAYS, Period
from glue_jobs.page.tables import find_tables, servers_with_reports
from glue_jobs.schemas import TABLES
from tests.glue.page.lakes import at, events, job, metrics, one_row_per_table, write_lake


def test_period_has_31_days_and_follows_previous_one() -> None:
    period = Period(date(2026, 3, 10))
    assert (period.first, period.last, len(period.days)) == (date(2026, 2, 8), date(2026, 3, 10), DAYS)
    assert period.before == Period(date(2026, 2, 7))
    assert period.before.days[-1] + timedelta(days=1) == period.days[0]


def test_metrics_ignore_days_outside_period(tmp_path: Path) -> None:
    days = {
        day: events(day, job=number) for day, number in (("2026-09-30", 1), ("2026-10-01", 10), ("2026-10-31", 100))
    }
    found = metrics(write_lake(tmp_path, days), "2026-10-31")
    assert found.throughput.by_day == {(date(2026, 10, 1), "job"): 10, (date(2026, 10, 31), "job"): 100}
    assert found.key.events == 110


def test_throughput_counts_by_vocabulary(tmp_path: Path) -> None:
    types = {"job/create/n/t": 1, "job": 2, "jobset/x": 4, "scheduler/x": 8, "push/x": 16, "jobs/x": 32, "": 64}
    rows = [{"hour": at("2026-10-05", 3), "type": name, "events": number} for name, number in types.items()]
    rows.append({"hour": at("2026-10-05", 23), "type": "other/x", "events": 128})
    found = metrics(write_lake(tmp_path, {"2026-10-05": {"throughput": rows}}), "2026-10-05").throughput
    day = date(2026, 10, 5)
    assert {name: number for (_, name), number in found.by_day.items()} == {
        "job": 3, "jobset": 4, "scheduler": 8, "push": 16, "other": 224,
    }  # fmt: skip
    assert found.by_hour == {(day, 3): 127, (day, 23): 128}


def test_percentiles_are_over_period_not_per_day(tmp_path: Path) -> None:
    days = {
        "2026-10-01": {"job_runs": [job(1.0, "success")]},
        "2026-10-02": {"job_runs": [job(float(number), "success") for number in (2, 3)]},
        "2026-10-31": {"job_runs": [job(4.0, "failure"), job(99.0, "timeout"), job(98.0), job(None, "success")]},
    }
    found = metrics(write_lake(tmp_path, days), "2026-10-31").jobs.total
    assert astuple(found.taken) == pytest.approx((4, 2.5, 3.7, 3.97, 4.0))


def test_percentiles_of_many_runs_match_reference(tmp_path: Path) -> None:
    seconds = np.random.default_rng(1).lognormal(3, 2, 500)
    parts = np.array_split(seconds, 7)
    days = {
        f"2026-10-{10 + number}": {
            "job_runs": [job(float(one), "success", type=f"t{index % 3}") for index, one in enumerate(part)]
        }
        for number, part in enumerate(parts)
    }
    found = metrics(write_lake(tmp_path, days), "2026-10-31").jobs
    for one in found.by_name:
        of_type = np.concatenate([part[int(str(one.name)[1:]) :: 3] for part in parts])
        hundredths = statistics.quantiles(of_type, n=100, method="inclusive")
        wanted = [hundredths[49], hundredths[89], hundredths[98], max(of_type)]
        assert [one.taken.p50, one.taken.p90, one.taken.p99, one.taken.longest] == pytest.approx(wanted)


def test_jobs_are_counted_by_result_type_node_and_time(tmp_path: Path) -> None:
    days = {
        "2026-10-01": {
            "job_runs": [
                job(10.0, "success", started=at("2026-10-01", 9), waited=1.0),
                job(20.0, "failure", node="n2", started=at("2026-10-01", 9, 59), waited=3.0),
                job(30.0, "timeout", type="test", started=at("2026-10-01", 10)),
            ]
        },
        "2026-10-02": {"job_runs": [job(None, None, type=None, node=None)]},
    }
    found = metrics(write_lake(tmp_path, days), "2026-10-02").jobs
    total = found.total
    assert (total.runs, total.ended, total.succeeded, total.failed, total.timeouts, total.failures) == (
        4,
        3,
        1,
        1,
        1,
        2,
    )
    assert total.success_rate == pytest.approx(1 / 3)
    assert [(one.name, one.runs, one.failures) for one in found.by_name] == [
        ("build", 2, 1),
        (None, 1, 0),
        ("test", 1, 1),
    ]
    assert [(one.name, one.runs, one.taken.p50) for one in found.by_node] == [
        ("n1", 2, 10.0),
        (None, 1, None),
        ("n2", 1, 20.0),
    ]
    assert astuple(found.by_name[0].waited) == pytest.approx((2, 2.0, 2.8, 2.98, 3.0))
    assert found.by_day[date(2026, 10, 2)] == Counter({None: 1})
    assert found.by_hour == {("n1", 9): 1, ("n2", 9): 1, ("n1", 10): 1}


def test_setbacks_votes_and_steps_are_combined_over_days(tmp_path: Path) -> None:
    days = {day: one_row_per_table(day) for day in ("2026-10-30", "2026-10-31")}
    found = metrics(write_lake(tmp_path, days), "2026-10-31")
    (node,) = found.chain_nodes
    assert (node.chain, node.node, node.taken) == ("name", "name", Summary(2, 3600.0, 3600.0, 3600.0, 3600.0))
    assert node.counts == {"steps": 8, "ended": 6, "errors": 2, "setbacks": 4}
    assert found.chains == {"name": {"steps": 8, "setbacks": 4, "suspensions": 2, "errors": 2}}
    (voter,) = found.push_nodes
    assert (voter.node, voter.availability, voter.counts["rehabs"], voter.longest) == ("name", 0.75, 2, 9.0)
    assert (found.key.timeouts, found.pushes.total.results) == (2, {"quorum_failed": 2})


def test_slowest_are_ten_over_all_days(tmp_path: Path) -> None:
    days = {
        f"2026-10-{day:02}": {
            "slowest": [
                {"kind": "job", "rank": 1, "key": f"/job/{day}-{index}", "seconds": float(day * index)}
                for index in range(9)
            ]
        }
        for day in (1, 2, 3)
    }
    found = metrics(write_lake(tmp_path, days), "2026-10-31").slowest
    assert (
        found["job"]["seconds"].to_pylist()
        == sorted((float(d * p) for d in (1, 2, 3) for p in range(9)), reverse=True)[:10]
    )
    assert found["order"].num_rows == 0


def test_worst_jobsets_are_sorted_by_failures(tmp_path: Path) -> None:
    rows = [
        {"jobset": 1, "seconds": 9.0, "failed": 1},
        {"jobset": 2, "seconds": 1.0, "failed": 1, "timeouts": 2},
        {"jobset": 3, "seconds": 99.0},
        {"jobset": 4, "seconds": 10.0, "failed": 0, "timeouts": 1},
    ]
    found = metrics(write_lake(tmp_path, {"2026-10-01": {"jobsets": rows}}), "2026-10-01").worst_jobsets
    assert found["jobset"].to_pylist() == [2, 4, 1, 3]


def test_tables_read_all_files_of_a_day(tmp_path: Path) -> None:
    lake = write_lake(tmp_path, {"2026-10-01": events("2026-10-01", job=1)})
    folder = tmp_path / "reports/throughput/server=1/day=2026-10-01"
    (folder / "1.parquet").write_bytes((folder / "0.parquet").read_bytes())
    (folder / "_SUCCESS").write_bytes(b"")
    (tmp_path / "reports/throughput/server=x").mkdir()
    assert servers_with_reports(lake) == [1]
    assert metrics(lake, "2026-10-01").key.events == 2


@pytest.mark.parametrize("table", list(TABLES))
def test_servers_with_reports_finds_any_table(table: str, tmp_path: Path) -> None:
    lake = write_lake(tmp_path, {"2026-10-01": {table: [{}]}}, server=7)
    assert (servers_with_reports(lake), find_tables(lake, 7).days) == ([7], {date(2026, 10, 1)})
