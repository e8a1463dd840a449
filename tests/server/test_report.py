"""`make report`: export, history, reports, and a `report/ready` event in each log.

A shell script replaces the Spark jobs and records how it is called.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local
from infra.server.commands.report import StepFailed, report
from tests.server.export_reader import read_commits
from tests.serving import run_server

PERIOD = {"from": "2026-11-13", "to": "2026-11-15"}
NEW_PAGES = [{"server": server, "period": PERIOD} for server in (1, 2)]
NO_PAGES = (
    'case "$*" in *--JOB_RUN_ID*) ;; *) exit ;; esac',
    'mkdir -p "$8/_new_pages"; echo "{\\"pages\\": []}" > "$8/_new_pages/$6.json"',
)
"""Lines of a script that makes no page."""


@pytest.fixture
def components(tmp_path: Path) -> Iterator[Components]:
    components = build_local(Settings.from_environment({"DATA_DIR": str(tmp_path / "data")}))
    for name in ("acme", "other"):
        components.log.organizations.create(name)
    yield components
    components.close()


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A script in place of the interpreter that runs the jobs. The first run makes two pages, later ones none."""
    return _script(
        tmp_path,
        f'echo "$@" >> "{tmp_path}/calls"',
        'case "$*" in *--JOB_RUN_ID*) run=$6 ;; *) exit ;; esac',
        "while [ $# -gt 1 ]; do shift; done; lake=$1",
        'pages=; mkdir -p "$lake/reports" "$lake/_new_pages"',
        f"test -e \"$lake/reports/report-1.html\" || pages='{json.dumps(NEW_PAGES)[1:-1]}'",
        'for n in 1 2; do echo "<html>" > "$lake/reports/report-$n.html"; done',
        'echo "{\\"pages\\": [$pages]}" > "$lake/_new_pages/$run.json"',
    )


def test_report_runs_the_jobs_and_publishes_an_event_per_log(
    components: Components, python: Path, tmp_path: Path
) -> None:
    pages = report(components, python)
    data = tmp_path / "data"
    assert pages == {
        "acme": data / "lake" / "reports" / "report-1.html",
        "other": data / "lake" / "reports" / "report-2.html",
    }
    history, reports = (tmp_path / "calls").read_text().splitlines()
    assert history == f"-m glue_jobs.history --exports {data}/exports --lake {data}/lake"
    names = re.escape('{"1": "acme", "2": "other"}')
    assert re.fullmatch(f"-m glue_jobs.reports --names {names} --JOB_RUN_ID [0-9a-f]+ --lake {data}/lake", reports)
    for server, page in zip((1, 2), pages.values(), strict=True):
        (commit,) = components.stores.log.read(server, 0)
        (event,) = commit.events
        assert (event.fields.type, event.fields.key, event.fields.payload) == (
            ("report", "ready", "report"),
            "/report/report",
            {"type": "json", "data": _facts(page)},
        )


def test_next_export_contains_the_report_event(components: Components, python: Path, tmp_path: Path) -> None:
    report(components, python)
    report(components, python)
    assert read_commits(tmp_path / "data" / "exports") == [(1, 1), (2, 1)]


def test_report_without_new_page_publishes_no_event(components: Components, python: Path) -> None:
    pages = report(components, python)
    assert report(components, python) == pages
    assert [components.stores.log.head(server).session for server in (1, 2)] == [1, 1]


def test_running_server_delivers_the_report_event(python: Path, tmp_path: Path) -> None:
    """Another process appends the event, and the server notices it at once."""
    with run_server(tmp_path / "data") as server:
        member = server.organization()
        before = member.publish("hello")[-1]["eventId"]
        other_process = build_local(Settings.from_environment({"DATA_DIR": str(server.data_dir)}))
        page = report(other_process, python)[member.organization]
        other_process.close()
        query = {"after": before, "timeout": "10s", "types": "report/ready/*"}
        answer = member.get("/events", params=query).json()
    (event,) = answer["eventSnapshots"]
    assert event["payload"]["data"] == _facts(page)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["exit 3"], "glue_jobs.history ended with status 3"),
        (['[ "$2" = glue_jobs.history ]'], "glue_jobs.reports ended with status 1"),
        ([*NO_PAGES], "there are no events to report"),
    ],
)
def test_failed_step_publishes_no_event(lines: list[str], reason: str, components: Components, tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match=reason):
        report(components, _script(tmp_path, *lines))
    assert components.stores.log.head(1).session == 0


def test_missing_spark_interpreter_is_reported(components: Components, tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match=r"glue_jobs\.history cannot run: .*nowhere"):
        report(components, tmp_path / "nowhere")


def _script(folder: Path, *lines: str) -> Path:
    path = folder / "python"
    path.write_text("\n".join(("#!/bin/sh", "set -e", *lines, "")))
    path.chmod(0o755)
    return path


def _facts(page: Path) -> dict[str, Any]:
    return {
        "name": "report",
        "page": str(page),
        "link": page.as_uri(),
        "period": PERIOD,
    }
