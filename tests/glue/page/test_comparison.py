"""Key figures compared with the previous period."""

from pathlib import Path

import pytest

from glue_jobs.lake.lake import Lake
from tests.glue.page.html_page import changes, tiles
from tests.glue.page.lakes import Days, events, job, page, write_lake

_NOW: Days = {
    "2026-10-31": {
        **events("2026-10-31", job=150),
        "job_runs": [*[job(20.0, "success")] * 9, job(20.0, "failure")],
    }
}


def _with(tmp_path: Path, before: Days) -> Lake:
    return write_lake(tmp_path, {**_NOW, **before})


def test_tiles_without_previous_period_have_no_change(tmp_path: Path) -> None:
    found = page(_with(tmp_path, {}))
    assert tiles(found)["Success rate"] == "90.0 %"
    assert changes(found) == {}
    assert "Compared with" not in found


def test_tiles_show_arrow_size_and_previous_value(tmp_path: Path) -> None:
    before: Days = {
        "2026-08-31": events("2026-08-31", job=100),
        "2026-09-30": {"job_runs": [*[job(10.0, "success")] * 4, job(10.0, "failure")]},
    }
    found = page(_with(tmp_path, before))
    assert changes(found) == {
        "Events": "▲ up 50 (50 %) before: 100",
        "Job runs": "▲ up 5 (100 %) before: 5",
        "Success rate": "▲ up 10.0 points before: 80.0 %",
        "Median duration": "▲ up 10 s (100 %) before: 10 s",
        "99th percentile": "▲ up 10 s (100 %) before: 10 s",
        "Failures": "= the same before: 1",
        "Timeouts": "= the same before: 0",
        "Orders finished": "= the same before: 0",
        "Push jobs": "= the same before: 0",
        "Quorum failures": "= the same before: 0",
    }
    assert "Compared with 31 August – 30 September 2026." in found  # noqa: RUF001


def test_tiles_partial_previous_period_skips_counts(tmp_path: Path) -> None:
    before = {"2026-09-20": {**events("2026-09-20", job=1), "job_runs": [job(40.0, "success")]}}
    found = page(_with(tmp_path, before))
    assert changes(found) == {
        "Success rate": "▼ down 10.0 points before: 100 %",
        "Median duration": "▼ down 20 s (50 %) before: 40 s",
        "99th percentile": "▼ down 20 s (50 %) before: 40 s",
    }
    assert "Compared with 20 September – 30 September 2026, the part of the previous period" in found  # noqa: RUF001


@pytest.mark.parametrize("day", ["2026-08-30", "2026-07-01"])
def test_tiles_ignore_days_before_previous_period(day: str, tmp_path: Path) -> None:
    assert changes(page(_with(tmp_path, {day: events(day, job=1)}))) == {}


@pytest.mark.parametrize(
    ("failures", "mood"), [(0, "bad"), (1, ""), (2, "good")], ids=["more than none", "as many", "fewer than two"]
)
def test_tiles_more_failures_are_bad_fewer_are_good(failures: int, mood: str, tmp_path: Path) -> None:
    runs = [*[job(10.0, "success")] * 5, *[job(10.0, "failure")] * failures]
    found = page(_with(tmp_path, {"2026-08-31": {"job_runs": runs}}))
    tile = found.partition("<dt>Failures</dt>")[2].partition("</div>")[0]
    assert f'class="change {mood}"' in tile
