"""`make report`: export the local log, load the history, create the report pages, and publish `report/ready` events
about new ones.

Each organization has a page of its own. The event is appended to the log directly and not through the server's API.
This works without a running server and without a token, and a running server notices commits of other processes.
"""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chalicelib.adapters.report_pages import FilePages
from chalicelib.domain.errors import AnnalsError
from chalicelib.domain.organizations.organization import Organization
from chalicelib.services.exports.report_events import report_link
from chalicelib.wiring import Components
from chalicelib.wiring.exports import report_publisher
from infra.server.commands.export import export
from infra.server.commands.export_folder import ExportFolder
from infra.server.startup import open_components

ROOT = Path(__file__).parents[3]
SPARK = ROOT / ".venv-spark" / "bin" / "python"
REPORT_NAME = "report"


class StepFailed(Exception):
    """A step failed. Its own messages are on the screen."""


def main() -> None:
    components = open_components()
    try:
        pages = report(components, SPARK)
    except (AnnalsError, OSError, StepFailed) as error:
        sys.exit(f"The report failed: {error}")
    finally:
        components.close()
    for name, page in pages.items():
        print(f"Report of {name}: {page.resolve().as_uri()}")


def report(components: Components, python: Path) -> dict[str, Path]:
    """Create the reports with the interpreter `python` and return the page of each organization that has events."""
    exports, lake = components.settings.exports, components.settings.data_dir / "lake"
    if not export(components, ExportFolder(exports.directory, components.clock)):
        print("There are no new commits since the last export.")
    names = {str(organization.server): organization.name for organization in components.log.organizations.all()}
    _run("Loading the history", python, "glue_jobs.history", ["--exports", str(exports.directory.resolve())], lake)
    run = secrets.token_hex(8)
    _run("Creating the reports", python, "glue_jobs.reports", ["--names", json.dumps(names), "--JOB_RUN_ID", run], lake)
    periods = FilePages(lake).new_periods(run)

    def page_of(organization: Organization) -> Path:
        return lake / "reports" / f"{REPORT_NAME}-{organization.server}.html"

    def facts_of(organization: Organization) -> Mapping[str, Any] | None:
        if organization.server not in periods:
            return None
        page = page_of(organization).resolve()
        link = report_link(exports.report_url, organization) if exports.report_url else page.as_uri()
        return {"page": str(page), "link": link, "period": periods[organization.server]}

    report_publisher(components).publish_ready(REPORT_NAME, facts_of)
    pages = {organization.name: page_of(organization) for organization in components.log.organizations.all()}
    existing = {name: page for name, page in pages.items() if page.exists()}
    if not existing:
        raise StepFailed("there are no events to report; publish some, or try `make demo`")
    return existing


def _run(title: str, python: Path, module: str, arguments: Sequence[str], lake: Path) -> None:
    """Run a job in a process of its own, with this process's environment."""
    print(f"{title} ...", flush=True)
    command = [str(python), "-m", module, *arguments, "--lake", str(lake.resolve())]
    try:
        process = subprocess.run(command, cwd=ROOT, env=os.environ, check=False)  # noqa: S603  (our own modules)
    except OSError as error:
        raise StepFailed(f"{module} cannot run: {error}") from error
    if process.returncode:
        raise StepFailed(f"{module} ended with status {process.returncode}")


if __name__ == "__main__":
    main()
