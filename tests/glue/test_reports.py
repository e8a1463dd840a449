"""The reports that Spark makes of what it has loaded: those of the second computation, whatever was there before."""

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from glue_jobs.history import load_exports
from glue_jobs.lake.lake import Lake
from glue_jobs.lake.storage import Storage
from glue_jobs.reports import make_reports
from glue_jobs.schemas import TABLES
from tests.glue import reference_reports
from tests.glue.comparing import assert_same
from tests.glue.export_writer import Commit, Export, write_exports
from tests.glue.sample_histories import a_month, split
from tests.glue.without_spark import with_day

ROOT = Path(__file__).parents[2]
OF_GLUE = (
    *("--JOB_NAME", "reports", "--JOB_ID", "j_1", "--JOB_RUN_ID", "jr_1", "--TempDir", "s3://somewhere/temporary/"),
    *("--enable-metrics", "true", "--job-language", "python", "--extra-py-files", "s3://somewhere/glue_jobs.zip"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where exports come in and reports come out."""

    root: Path

    @property
    def exports(self) -> Path:
        return self.root / "exports"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    def report(self, exports: Sequence[Export]) -> set[tuple[int, str]]:
        """Load these exports and report of them; the days that were made anew."""
        write_exports(self.exports, exports)
        load_exports(Storage(str(self.exports)), Lake(str(self.lake)))
        return set(make_reports(Lake(str(self.lake))))

    def tables(self) -> dict[str, pa.Table]:
        """What the reports say."""
        nothing = {name: with_day(schema.empty_table(), 0, "2026-01-01") for name, schema in TABLES.items()}
        return {name: pa.concat_tables([nothing[name], *self._days(name)]) for name in TABLES}

    def files(self) -> dict[str, int]:
        """The files of the tables, and when they were written."""
        found = (self.lake / "reports").rglob("*.parquet")
        return {str(path.relative_to(self.lake)): path.stat().st_mtime_ns for path in found}

    def _days(self, name: str) -> list[pa.Table]:
        found = []
        for path in sorted((self.lake / "reports" / name).glob("server=*/day=*/*.parquet")):
            server, day = (part.partition("=")[2] for part in path.parts[-3:-1])
            found.append(with_day(pa.parquet.ParquetFile(path).read(), int(server), day))
        return found


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:  # noqa: ARG001
    return Place(tmp_path)


def in_parts(commits: Sequence[Commit], count: int) -> list[Export]:
    """Exports that go on where the one before ended."""
    size = -(-len(commits) // count)
    return [
        Export(f"{place:02d}", "FULL_EXPORT" if not place else "INCREMENTAL_EXPORT", tuple(commits[at : at + size]))
        for place, at in enumerate(range(0, len(commits), size))
    ]


def test_a_month_in_one_load_has_the_tables_of_the_second_computation(place: Place) -> None:
    place.report(split(a_month(7), random.Random(3)))
    assert_same(place.tables(), reference_reports.tables(place.exports))


def test_a_report_after_every_export_ends_with_the_same_tables(place: Place) -> None:
    for export in in_parts(_of_time(a_month(8, jobs=120, orders=50, pushes=25)), 3):
        place.report([export])
        assert_same(place.tables(), reference_reports.tables(place.exports))


def test_exports_that_come_in_the_wrong_order_end_with_the_same_tables(place: Place) -> None:
    exports = in_parts(_of_time(a_month(9, jobs=120, orders=50, pushes=25)), 3)
    for export in (exports[2], exports[0], exports[1]):
        place.report([export])
    assert_same(place.tables(), reference_reports.tables(place.exports))


def test_only_days_with_something_new_are_written_again(place: Place) -> None:
    commits = _of_time(a_month(10))
    latest = max(commit.at for commit in commits) // DAY_US * DAY_US
    place.report([Export("01", "FULL_EXPORT", tuple(one for one in commits if one.at < latest))])
    before = place.files()
    anew = place.report([Export("02", "INCREMENTAL_EXPORT", tuple(one for one in commits if one.at >= latest))])
    after = place.files()
    kept = {path for path in before if not any(f"server={server}/day={day}/" in path for server, day in anew)}
    assert kept, "there are days on which nothing has changed"
    assert {path: before[path] for path in kept} == {path: after.get(path) for path in kept}
    assert_same(place.tables(), reference_reports.tables(place.exports))


def test_nothing_new_changes_nothing(place: Place) -> None:
    exports = in_parts(_of_time(a_month(11, jobs=40, orders=20, pushes=10)), 1)
    place.report(exports)
    before = place.files()
    assert make_reports(Lake(str(place.lake))) == set()
    assert place.files() == before


def test_reports_that_were_cut_off_are_made_again(place: Place) -> None:
    commits = _of_time(a_month(12, jobs=60, orders=20, pushes=10))
    exports = in_parts(commits, 2)
    place.report(exports[:1])
    done = next((place.lake / "_parts").rglob("reported.json"))
    before = done.read_bytes()
    place.report(exports[1:])
    # As if it had not come to its end: some parts are half written, some tables not replaced, and nobody said done.
    done.write_bytes(before)
    part = next((place.lake / "_parts").rglob("throughput/*/*/*.parquet"))
    part.rename(part.with_suffix(".parquet.new"))
    next((place.lake / "reports" / "job_runs").rglob("*.parquet")).unlink()
    make_reports(Lake(str(place.lake)))
    assert_same(place.tables(), reference_reports.tables(place.exports))


def test_the_scripts_run_as_glue_runs_them(tmp_path: Path) -> None:
    """Plain processes, from elsewhere, with nothing of ours but the jobs; and with no Java but that of PyPI."""
    place = Place(tmp_path)
    write_exports(place.exports, in_parts(_of_time(a_month(13, jobs=30, orders=10, pushes=5)), 2))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "glue_jobs").symlink_to(ROOT / "glue_jobs")
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname", "env", "sh", "uname", "ps"):
        found = next((folder / name for folder in (Path("/bin"), Path("/usr/bin")) if (folder / name).exists()), None)
        if found is not None:
            (tmp_path / "bin" / name).symlink_to(found)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "code"), "PATH": str(tmp_path / "bin")}
    environment.pop("JAVA_HOME", None)
    for job, named in (("history", ["--exports", str(place.exports)]), ("reports", [])):
        command = [sys.executable, "-m", f"glue_jobs.{job}", *OF_GLUE, *named, "--lake", str(place.lake)]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
    assert_same(place.tables(), reference_reports.tables(place.exports))
    assert (place.lake / "reports" / "report-1.html").exists()


DAY_US = 86_400_000_000


def _of_time(commits: Sequence[Commit]) -> list[Commit]:
    return sorted(commits, key=lambda commit: (commit.at, commit.server))
