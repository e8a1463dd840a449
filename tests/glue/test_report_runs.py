"""Runs of the `reports` job as on AWS: next to running loads, with deleted files, with names and lists of new pages."""

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import reports
from glue_jobs.history import load_exports
from glue_jobs.lake.lake import Lake
from glue_jobs.lake.storage import Storage
from tests.glue import without_spark
from tests.glue.history.exports import Commit, Event, full_export, incremental_export, make_commits

DAYS = {"from": "2026-11-01", "to": "2026-11-03"}
"""The days of sessions 1 to 40."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Directories of exports and of a lake."""

    exports: Path
    lake: Path

    def load(self, name: str, commits: Iterable[Commit]) -> None:
        """Export commits and load them."""
        write = incremental_export if self.exports.exists() else full_export
        write(self.exports, name, commits)
        load_exports(Storage(str(self.exports)), Lake(str(self.lake)), without_spark.write)

    def report(self, run: str) -> dict[int, Any]:
        """Run the job. Returns the periods of the new pages by server."""
        reports.main(["--lake", str(self.lake), "--JOB_RUN_ID", run])
        content = json.loads((self.lake / "_new_pages" / f"{run}.json").read_text())
        return {page["server"]: page["period"] for page in content["pages"]}

    def pages(self) -> dict[str, str]:
        """The pages by file name."""
        return {path.name: path.read_text() for path in sorted((self.lake / "reports").glob("*.html"))}


@pytest.fixture
def workspace(tmp_path: Path, spark: SparkSession) -> Workspace:  # noqa: ARG001
    """A lake with two organizations and their names, as functions and jobs write it on AWS."""
    workspace = Workspace(tmp_path / "exports", tmp_path / "lake")
    workspace.load("01-full", [*make_commits(1, (1, 40)), *make_commits(2, (1, 40))])
    (workspace.lake / "_organizations.json").write_text('{"1": "acme", "2": "other"}')
    return workspace


def titles(workspace: Workspace) -> dict[str, str]:
    found = {name: re.search("<h1>\\s*<bdi>(.*?)</bdi>", page, re.DOTALL) for name, page in workspace.pages().items()}
    return {name: match[1].strip() for name, match in found.items() if match}


def test_pages_have_the_names_in_the_lake(workspace: Workspace) -> None:
    """The workflow on AWS starts the job without arguments of its own."""
    workspace.report("jr_1")
    assert titles(workspace) == {"report-1.html": "acme", "report-2.html": "other"}


def test_load_in_progress_is_left_for_the_next_run(workspace: Workspace) -> None:
    """In S3 nothing stops `reports` from reading between a load's manifest and the moves of its files."""
    workspace.report("jr_1")
    workspace.load("02-next", make_commits(1, (41, 70)))
    load = Lake(str(workspace.lake)).loads()[-1]
    paths = [file.path for file in load.files]
    for path in paths[1:]:
        staged = workspace.lake / "_aside" / str(load.number) / path
        staged.parent.mkdir(parents=True)
        (workspace.lake / path).rename(staged)
    before = workspace.pages()
    assert workspace.report("jr_2") == {}
    assert workspace.pages() == before
    Lake(str(workspace.lake)).recover()
    assert workspace.report("jr_3") == {1: {"from": "2026-11-01", "to": "2026-11-04"}}


def test_deleted_organization_breaks_no_other_report(workspace: Workspace) -> None:
    workspace.report("jr_1")
    for folder in [*workspace.lake.rglob("server=2")]:
        shutil.rmtree(folder)
    (workspace.lake / "reports" / "report-2.html").unlink()
    workspace.load("02-next", make_commits(1, (41,)))
    assert workspace.report("jr_2") == {1: DAYS}
    assert list(workspace.pages()) == ["report-1.html"]
    # An organization that comes back has the events since then.
    workspace.load("03-next", make_commits(2, (90,)))
    assert workspace.report("jr_3") == {2: {"from": "2026-11-05", "to": "2026-11-05"}}


def test_new_pages_are_those_of_new_events(workspace: Workspace) -> None:
    assert workspace.report("jr_1") == {1: DAYS, 2: DAYS}
    assert workspace.report("jr_2") == {}
    workspace.load("02-next", make_commits(2, (41,)))
    before = workspace.pages()
    assert workspace.report("jr_3") == {2: DAYS}
    assert workspace.pages()["report-1.html"] == before["report-1.html"]


def test_event_about_a_report_makes_no_new_page(workspace: Workspace) -> None:
    """Otherwise each report would cause the next one, and its mail, for ever."""
    workspace.report("jr_1")
    ready = Event(("report", "ready", "report"), "/report/report")
    workspace.load("02-next", [Commit(server, 41, (ready,)) for server in (1, 2)])
    assert workspace.report("jr_2") == {}
    workspace.load("03-next", [Commit(1, 42, (ready, Event())), Commit(2, 42, (ready,))])
    assert workspace.report("jr_3") == {1: DAYS}


def test_interrupted_run_is_repeated_with_its_new_pages(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(reports, "write_pages", kill)
        with pytest.raises(Killed):
            workspace.report("jr_1")
    assert workspace.report("jr_2") == {1: DAYS, 2: DAYS}


def test_missing_page_is_written_again(workspace: Workspace) -> None:
    workspace.report("jr_1")
    (workspace.lake / "reports" / "report-2.html").unlink()
    assert workspace.report("jr_2") == {}
    assert list(workspace.pages()) == ["report-1.html", "report-2.html"]
