"""`make report`: export, history, reports, each after the other; then an event in each log says that it is ready.

The jobs themselves have tests of their own; here something simpler takes their place, and writes down how it is called.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib.settings import Settings
from chalicelib.wiring import Annals, embedded
from infra.server.commands.report import StepFailed, report
from tests.server.exports import commits_in
from tests.serving import serving

DAYS = ("2026-11-13", "2026-11-14", "2026-11-15")


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Annals]:
    opened = embedded(Settings.from_environment({"DATA_DIR": str(tmp_path / "data")}))
    for name in ("acme", "other"):
        opened.organizations.create(name)
    yield opened
    opened.close()


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """What takes the place of the interpreter that runs the jobs."""
    folders = " ".join(f'"$lake/events/server={server}/day={day}"' for server in (1, 2) for day in DAYS)
    return _script(
        tmp_path,
        f'echo "$@" >> "{tmp_path}/calls"',
        "while [ $# -gt 1 ]; do shift; done; lake=$1",
        f'mkdir -p "$lake/reports" {folders}',
        'for n in 1 2; do echo "<html>" > "$lake/reports/report-$n.html"; done',
    )


def test_a_report_is_made_of_what_was_exported_and_is_an_event_in_every_log(
    parts: Annals, python: Path, tmp_path: Path
) -> None:
    pages = report(parts, python)
    data = tmp_path / "data"
    assert pages == {
        "acme": data / "lake" / "reports" / "report-1.html",
        "other": data / "lake" / "reports" / "report-2.html",
    }
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"-m glue_jobs.history --exports {data}/exports --lake {data}/lake",
        f'-m glue_jobs.reports --names {{"1": "acme", "2": "other"}} --lake {data}/lake',
    ]
    for server, page in zip((1, 2), pages.values(), strict=True):
        (commit,) = parts.log.read(server, 0)
        (event,) = commit.events
        assert (event.stored.type, event.stored.key, event.stored.payload) == (
            ("report", "ready", "report"),
            "/report/report",
            {"type": "json", "data": _facts(page)},
        )


def test_what_the_next_report_is_made_of_has_the_news_of_this_one(parts: Annals, python: Path, tmp_path: Path) -> None:
    report(parts, python)
    report(parts, python)
    assert commits_in(tmp_path / "data" / "exports") == [(1, 1), (2, 1)]


def test_a_running_server_tells_its_readers_of_the_report(python: Path, tmp_path: Path) -> None:
    """It is appended to the log beside the server, which is to notice by itself, and at once."""
    with serving(tmp_path / "data") as server:
        member = server.organization()
        before = member.publish("hello")[-1]["eventId"]
        beside = embedded(Settings.from_environment({"DATA_DIR": str(server.data_dir)}))
        page = report(beside, python)[member.organization]
        beside.close()
        query = {"after": before, "timeout": "10s", "types": "report/ready/*"}
        answer = member.get("/events", params=query).json()
    (event,) = answer["eventSnapshots"]
    assert event["payload"]["data"] == _facts(page)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["exit 3"], "glue_jobs.history ended with status 3"),
        (['[ "$2" = glue_jobs.history ]'], "glue_jobs.reports ended with status 1"),
        (["true"], "there are no events to report of"),
    ],
)
def test_without_a_page_there_is_no_event(lines: list[str], reason: str, parts: Annals, tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match=reason):
        report(parts, _script(tmp_path, *lines))
    assert parts.log.head(1).session == 0


def test_without_spark_there_is_a_clear_word(parts: Annals, tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match=r"glue_jobs\.history cannot run: .*nowhere"):
        report(parts, tmp_path / "nowhere")


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
        "period": {"from": DAYS[0], "to": DAYS[-1]},
    }
