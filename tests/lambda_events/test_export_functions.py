"""The functions that export, called as Lambda calls them with what AWS would give them.

DynamoDB is ministack's, whose exports have no files and come to an end by themselves; Glue is a server that keeps what
it is asked and answers as Glue does. What these cannot show, the tests of the services do.
"""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import app
from chalicelib import wiring
from chalicelib.adapters.aws.client import Client
from chalicelib.domain.errors import Busy
from chalicelib.domain.exports.table_export import VIEW, Entry, TableExport
from chalicelib.domain.views.record import END
from chalicelib.lambda_events import exports

EVENTS = Path(__file__).parent.parent / "events"
BUCKET = "annals-exports"
Function = Callable[[dict[str, Any], object], None]
EXPORT: Function = app.export
EXPORTED: Function = app.exported
REPORTED: Function = app.reported
SCHEDULED: dict[str, Any] = json.loads((EVENTS / "scheduled_event.json").read_text())
CONTEXT = None


class Glue(ThreadingHTTPServer):
    """Keeps what it is asked for, and starts a run unless one is under way."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[dict[str, Any]] = []
        self.is_running = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: Glue

    def do_POST(self) -> None:
        assert self.headers["X-Amz-Target"] == "AWSGlue.StartJobRun"
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = 400, {"__type": "ConcurrentRunsExceededException", "Message": "1 run is under way"}
        if not self.server.is_running:
            self.server.asked.append(asked)
            status, answer = 200, {"JobRunId": f"jr_{len(self.server.asked)}"}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the parent's name)
        """Nobody reads it."""


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Glue]:
    with Glue() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", server.url)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def annals(
    monkeypatch: pytest.MonkeyPatch,
    ministack: str,
    ministack_client: Client,
    ministack_tables: tuple[str, str],
    glue: Glue,  # noqa: ARG001
) -> Iterator[wiring.Annals]:
    """A function on AWS with its tables, and the organizations acme (1) and other (2)."""
    log_table, views_table = ministack_tables
    recovery = {"PointInTimeRecoveryEnabled": True}
    wanted = {"TableName": log_table, "PointInTimeRecoverySpecification": recovery}
    ministack_client.call("UpdateContinuousBackups", wanted)
    for name, value in {
        "AWS_ENDPOINT_URL": ministack,
        "STORE": "dynamodb",
        "LOG_TABLE": log_table,
        "VIEWS_TABLE": views_table,
        "LOG_TABLE_ARN": ministack_client.call("DescribeTable", {"TableName": log_table})["Table"]["TableArn"],
        "EXPORT_BUCKET": BUCKET,
        "EXPORT_PREFIX": "log of/2026",
        "LAKE_URL": "s3://annals-lake",
        "REPORT_URL": "https://reports.example.org/report-{server}.html",
    }.items():
        monkeypatch.setenv(name, value)
    wiring.annals.cache_clear()
    parts = wiring.annals()
    for name in ("acme", "other"):
        parts.organizations.create(name)
    yield parts
    wiring.annals.cache_clear()


def payload(name: str) -> dict[str, Any]:
    """A stored Lambda event."""
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return found


def ledger(parts: wiring.Annals) -> list[TableExport]:
    return [Entry.of(record).export for record in parts.views.range(VIEW, "", END)]


def arrival(export_id: str) -> dict[str, Any]:
    """S3 says that the summary of this export is there."""
    event = payload("s3_manifest_summary")
    event["Records"][0]["s3"]["object"]["key"] = f"log+of/2026/AWSDynamoDB/{export_id}/manifest-summary.json"
    return event


def test_the_schedule_starts_one_full_export_and_remembers_it(annals: wiring.Annals, ministack_client: Client) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    EXPORT(SCHEDULED, CONTEXT)
    (export,) = ledger(annals)
    asked = ministack_client.call("DescribeExport", {"ExportArn": export.arn})["ExportDescription"]
    assert (export.kind, export.begin_s, asked["S3Bucket"], asked["S3Prefix"]) == (
        "FULL_EXPORT",
        0,
        BUCKET,
        "log of/2026",
    )
    assert (asked["ExportType"], asked["ExportFormat"]) == ("FULL_EXPORT", "DYNAMODB_JSON")


def test_the_arrival_of_a_summary_starts_the_history_once(annals: wiring.Annals, glue: Glue) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    (export,) = ledger(annals)
    for _ in range(2):
        EXPORTED(arrival(export.id), CONTEXT)
    arguments = {"--exports": f"s3://{BUCKET}/log of/2026", "--lake": "s3://annals-lake"}
    assert glue.asked == [{"JobName": "annals-history", "Arguments": arguments}]
    (loaded,) = ledger(annals)
    assert (loaded.state, loaded.run) == ("loaded", "jr_1")


def test_the_function_fails_while_the_history_runs_so_that_lambda_tries_again(
    annals: wiring.Annals, glue: Glue
) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    (export,) = ledger(annals)
    glue.is_running = True
    with pytest.raises(Busy, match="the history is being loaded"):
        EXPORTED(arrival(export.id), CONTEXT)
    glue.is_running = False
    EXPORTED(arrival(export.id), CONTEXT)
    assert (len(glue.asked), ledger(annals)[0].state) == (1, "loaded")


def test_the_arrival_of_what_nobody_started_starts_nothing(annals: wiring.Annals, glue: Glue) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    EXPORTED(payload("s3_manifest_summary"), CONTEXT)
    assert (glue.asked, len(ledger(annals))) == ([], 1)


def test_a_finished_report_is_an_event_in_every_log_once(annals: wiring.Annals) -> None:
    for _ in range(2):
        REPORTED(payload("glue_job_state_change"), CONTEXT)
    for server in (1, 2):
        (commit,) = annals.log.read(server, 0)
        (event,) = commit.events
        assert (event.stored.type, event.stored.key) == (("report", "ready", "report"), "/report/report")
        assert event.stored.payload["data"] == {
            "name": "report",
            "link": f"https://reports.example.org/report-{server}.html",
        }


@pytest.mark.parametrize("change", [{"state": "FAILED"}, {"jobName": "annals-history"}, {"jobRunId": None}])
def test_other_news_of_jobs_is_no_report(change: dict[str, Any], annals: wiring.Annals) -> None:
    event = payload("glue_job_state_change")
    event["detail"] |= change
    REPORTED(event, CONTEXT)
    assert annals.log.head(1).session == 0


@pytest.mark.parametrize(
    ("key", "ids"),
    [
        ("AWSDynamoDB/017-1a/manifest-summary.json", ["017-1a"]),
        ("log+of/2026/AWSDynamoDB/017-1a/manifest-summary.json", ["017-1a"]),
        ("log%20of/AWSDynamoDB/017-1a/manifest-summary.json", ["017-1a"]),
        ("AWSDynamoDB/017-1a/manifest-files.json", []),
        ("AWSDynamoDB/017-1a/data/manifest-summary.json", []),
        ("017-1a/manifest-summary.json", []),
        ("manifest-summary.json", []),
    ],
)
def test_only_a_summary_among_the_exports_is_the_arrival_of_one(key: str, ids: list[str]) -> None:
    event = payload("s3_manifest_summary")
    event["Records"][0]["s3"]["object"]["key"] = key
    assert exports.arrived(event) == ids


def test_an_event_without_records_is_no_arrival() -> None:
    assert exports.arrived({"Service": "Amazon S3", "Event": "s3:TestEvent"}) == []
