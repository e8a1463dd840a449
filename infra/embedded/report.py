"""`make report`: export the local log, load the history, make the reports; then say so, to people and in the log.

The finished report is an event in each organization's log. It is appended to the log itself, not sent to the server's
API: that is right whether a server runs or not, needs no token, and a running server sees what others append.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chalicelib.domain.errors import AnnalsError
from chalicelib.wiring import Annals, annals
from chalicelib.wiring.exports import reporting
from infra.embedded.export import export
from infra.embedded.export_files import ExportFolder

ROOT = Path(__file__).parents[2]
SPARK = ROOT / ".venv-spark" / "bin" / "python"
NAME = "report"


class StepFailed(Exception):
    """A step ended in failure; what it said is on the screen."""


def main() -> None:
    """Export, history, reports, and the event."""
    parts = annals()
    try:
        page = report(parts, SPARK)
    except (AnnalsError, StepFailed) as failure:
        sys.exit(f"There is no report: {failure}")
    finally:
        parts.close()
    print(f"\nThe report is ready: {page.resolve().as_uri()}")


def report(parts: Annals, python: Path) -> Path:
    """The page of the report, which `python` has made of all there is in the log."""
    to, lake = parts.settings.exports, parts.settings.data_dir / "lake"
    if not export(parts, ExportFolder(to.directory, parts.clock)):
        print("Nothing is new since the last export.")
    _run("The history", python, "glue_jobs.history", ["--exports", str(to.directory.resolve())], lake)
    _run("The reports", python, "glue_jobs.reports", [], lake)
    page = lake / "reports" / f"{NAME}.html"
    if not page.exists():
        raise StepFailed(f"the reports were made without the page {page}")
    reporting(parts).ready(NAME, _facts(page, lake, to.report_url))
    return page


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


def _facts(page: Path, lake: Path, url: str) -> Mapping[str, Any]:
    """Where the page is, and the days that it is about, as far as there are any."""
    days = sorted({path.name.removeprefix("day=") for path in (lake / "events").glob("server=*/day=*")})
    period = {"period": {"from": days[0], "to": days[-1]}} if days else {}
    return {"page": str(page.resolve()), "link": url or page.resolve().as_uri(), **period}


if __name__ == "__main__":
    main()
