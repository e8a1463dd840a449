"""Schemathesis makes up requests from the API's description, right ones and wrong ones: all are answered as described.

It asks for all that is read at once or waits a little: the server's polls are short, and its streams are pages, as
behind API Gateway, or one without end would keep it. Streams that stay open are the matter of `test_openapi_examples`.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from chalicelib.http.openapi.examples import EXAMPLES
from tests.http.openapi.openapi_answers import Document, found
from tests.serving import ROOT, Member, serving

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
LONGEST_S = 600
OBSERVER = {"channel": "app", "events": "create, finish", "config": {"to": "anna"}}

REFUSED = {
    "post_sign_in": "it takes a code that the server prints, once",
    "get_report": "it takes a ticket, which is good for a minute",
    "post_report_link": "only Spark makes reports",
}
"""What nobody can ask for who knows only the description, and why: other tests do."""


@dataclass(frozen=True)
class Run:
    """What Schemathesis says when it is done: in words, and as a report."""

    described: Document
    exit_code: int
    output: str
    report: dict[str, Any]

    def taken(self, operation: str) -> int:
        """How many right requests for the operation were taken."""
        _, method, path = found(self.described, operation)
        rates = self.report["valid_rates"].get(f"{method.upper()} {path}", {})
        return sum(counts["accepted"] for counts in rates.values())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    directory = tmp_path_factory.mktemp("schemathesis")
    with serving(directory / "data", LONGEST_POLL="0.02", STREAMS="no") as server:
        member = server.member("local")
        assert member.ask("PUT", "/observers/ops", json=OBSERVER).status_code == 201
        yield schemathesis(member, directory)
        assert server.process.poll() is None, server.output


def schemathesis(member: Member, directory: Path) -> Run:
    """A whole run, the same whenever it is made."""
    url, report = f"{member.server.url}/openapi.json", directory / "report.json"
    options = ["--config-file", str(CONFIGURATION), "run", url, "--report-json-path", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *options],
        cwd=directory,
        env={"TOKEN": member.token, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    output = f"{done.stdout}{done.stderr}"
    assert report.exists(), output
    described = member.server.client.get("/openapi.json").json()
    return Run(described, done.returncode, output, from_json(report.read_text()))


def test_all_answers_are_as_described(run: Run) -> None:
    assert run.exit_code == 0, run.output


def test_no_phase_is_left_out_nor_ended_early(run: Run) -> None:
    phases = {name: run.report["phases"][name]["status"] for name in ("examples", "coverage", "fuzzing")}
    assert phases == dict.fromkeys(phases, "success")
    assert (run.report["complete"], run.report["errors"], run.report["test_cases"]["errored"]) == (True, [], 0)


def test_no_check_and_no_operation_is_left_out(run: Run) -> None:
    told = tomllib.loads(CONFIGURATION.read_text())
    assert 403 not in told["checks"].pop("negative_data_rejection")["expected-statuses"]
    assert told["checks"] == {"enabled": True}
    assert "operations" not in told
    asked = run.report["operations"]
    assert asked["tested"] == asked["total"] == sum(len(methods) for methods in run.described["paths"].values())


@pytest.mark.parametrize("operation", sorted({example.operation for example in EXAMPLES} - set(REFUSED)))
def test_right_requests_for_every_operation_are_taken(run: Run, operation: str) -> None:
    assert run.taken(operation) > 0


@pytest.mark.parametrize("operation", REFUSED)
def test_only_these_operations_take_none(run: Run, operation: str) -> None:
    assert run.taken(operation) == 0
