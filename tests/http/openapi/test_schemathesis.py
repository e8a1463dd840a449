"""Schemathesis generates valid and invalid requests from the OpenAPI document and validates the responses.

The server limits polls to 20 ms and pages its streams, as behind API Gateway, because Schemathesis reads responses to
the end. `test_openapi_examples` covers streams that stay open.
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
from tests.http.openapi.response_checks import Document, find_operation
from tests.serving import ROOT, Member, run_server

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
RUN_TIMEOUT_S = 600
EXPECTATION = {"type": "backup", "every": "1h"}
OBSERVER = {"channel": "app", "events": "create, finish", "config": {"to": "anna"}}

ALWAYS_REFUSED = {
    "post_sign_in": "needs a one-time code that the server prints",
    "get_report": "needs a ticket, which is valid for one minute",
    "delete_silence": "needs the id of a silence that is in effect",
    "post_report_link": "needs a report, which only Spark creates",
}
"""Operations that need more than the document states. Other tests cover them."""


@dataclass(frozen=True)
class Run:
    """The result of a run of Schemathesis."""

    document: Document
    exit_code: int
    output: str
    report: dict[str, Any]

    def accepted_count(self, operation: str) -> int:
        """The number of valid requests for the operation that the server accepted."""
        _, method, path = find_operation(self.document, operation)
        rates = self.report["valid_rates"].get(f"{method.upper()} {path}", {})
        return sum(counts["accepted"] for counts in rates.values())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    directory = tmp_path_factory.mktemp("schemathesis")
    with run_server(directory / "data", LONGEST_POLL="0.02", STREAMS="no") as server:
        member = server.member("local")
        assert member.request("PUT", "/observers/ops", json=OBSERVER).status_code == 201
        assert member.request("PUT", "/expectations/nightly", json=EXPECTATION).status_code == 201
        pinging = server.member("pings")
        pinging.create()
        key = pinging.request("PUT", "/ping-keys/ops").json()["key"]
        yield run_schemathesis(member, directory, key)
        assert server.process.poll() is None, server.output


def run_schemathesis(member: Member, directory: Path, ping_key: str) -> Run:
    """Run with a fixed seed."""
    url, report = f"{member.server.url}/openapi.json", directory / "report.json"
    options = ["--config-file", str(CONFIGURATION), "run", url, "--report-json-path", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *options],
        cwd=directory,
        env={"TOKEN": member.token, "PING_KEY": ping_key, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    output = f"{done.stdout}{done.stderr}"
    assert report.exists(), output
    document = member.server.client.get("/openapi.json").json()
    return Run(document, done.returncode, output, from_json(report.read_text()))


def test_schemathesis_finds_no_failures(run: Run) -> None:
    assert run.exit_code == 0, run.output


def test_schemathesis_completes_all_phases(run: Run) -> None:
    phases = {name: run.report["phases"][name]["status"] for name in ("examples", "coverage", "fuzzing")}
    assert phases == dict.fromkeys(phases, "success")
    assert (run.report["complete"], run.report["errors"], run.report["test_cases"]["errored"]) == (True, [], 0)


def test_schemathesis_runs_all_checks_on_all_operations(run: Run) -> None:
    settings = tomllib.loads(CONFIGURATION.read_text())
    assert 403 not in settings["checks"].pop("negative_data_rejection")["expected-statuses"]
    assert settings["checks"] == {"enabled": True}
    assert "operations" not in settings
    counts = run.report["operations"]
    assert counts["tested"] == counts["total"] == sum(len(methods) for methods in run.document["paths"].values())


@pytest.mark.parametrize("operation", sorted({example.operation for example in EXAMPLES} - set(ALWAYS_REFUSED)))
def test_valid_requests_are_accepted(run: Run, operation: str) -> None:
    assert run.accepted_count(operation) > 0


@pytest.mark.parametrize("operation", ALWAYS_REFUSED)
def test_operations_that_need_secrets_are_always_refused(run: Run, operation: str) -> None:
    assert run.accepted_count(operation) == 0
