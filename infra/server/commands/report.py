"""`make report`: export the local log, load the history, make the reports; then say so, to people and in the log.

Each organization has a page of its own, and the finished report is an event in its log. It is appended to the log
itself, not sent to the server's API: that is right whether a server runs or not, needs no token, and a running server
sees what others append.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chalicelib.domain.errors import AnnalsError
from chalicelib.domain.organizations.organization import Organization
from chalicelib.services.exports.report_events import report_link
from chalicelib.wiring import Annals
from chalicelib.wiring.exports import reporting
from infra.server.commands.export import export
from infra.server.commands.export_folder import ExportFolder
from infra.server.startup import opened

ROOT = Path(__file__).parents[3]
SPARK = ROOT / ".venv-spark" / "bin" / "python"
NAME = "report"


class StepFailed(Exception):
    """A step ended in failure; what it said is on the screen."""


def main() -> None:
    """Export, history, reports, and the events."""
    parts = opened()
    try:
        pages = report(parts, SPARK)
    except (AnnalsError, OSError, StepFailed) as failure:
        sys.exit(f"There is no report: {failure}")
    finally:
        parts.close()
    for name, page in pages.items():
        print(f"The report of {name}: {page.resolve().as_uri()}")


def report(parts: Annals, python: Path) -> dict[str, Path]:
    """The pages of all organizations that have one, which `python` has made of all there is in the log."""
    to, lake = parts.settings.exports, parts.settings.data_dir / "lake"
    if not export(parts, ExportFolder(to.directory, parts.clock)):
        print("Nothing is new since the last export.")
    names = {str(one.server): one.name for one in parts.organizations.all()}
    _run("The history", python, "glue_jobs.history", ["--exports", str(to.directory.resolve())], lake)
    _run("The reports", python, "glue_jobs.reports", ["--names", json.dumps(names)], lake)

    def page_of(organization: Organization) -> Path:
        return lake / "reports" / f"{NAME}-{organization.server}.html"

    def facts_of(organization: Organization) -> Mapping[str, Any] | None:
        page = page_of(organization)
        return _facts(page, lake, to.report_url, organization) if page.exists() else None

    told = reporting(parts).ready(NAME, facts_of)
    if not told:
        raise StepFailed("there are no events to report of; publish some, or try `make demo`")
    return {one.name: page_of(one) for one in told}


def _run(what: str, python: Path, module: str, arguments: Sequence[str], lake: Path) -> None:
    """One job in a process of its own, with the machine's environment."""
    print(f"{what} ...", flush=True)
    command = [str(python), "-m", module, *arguments, "--lake", str(lake.resolve())]
    try:
        ended = subprocess.run(command, cwd=ROOT, env=os.environ, check=False)  # noqa: S603  (they are our own)
    except OSError as failure:
        raise StepFailed(f"{module} cannot run: {failure}") from failure
    if ended.returncode:
        raise StepFailed(f"{module} ended with status {ended.returncode}")


def _facts(page: Path, lake: Path, url: str, organization: Organization) -> Mapping[str, Any]:
    """Where the page is, and the days that there are events of."""
    folders = (lake / "events" / f"server={organization.server}").glob("day=*")
    days = sorted(path.name.removeprefix("day=") for path in folders)
    period = {"period": {"from": days[0], "to": days[-1]}} if days else {}
    link = report_link(url, organization) if url else page.resolve().as_uri()
    return {"page": str(page.resolve()), "link": link, **period}


if __name__ == "__main__":
    main()
