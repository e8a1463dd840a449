"""The functions for exports and reports, called with recorded AWS events.

DynamoDB is emulated by ministack, whose exports complete without files. Glue is a small server that records requests.
The tests of the services cover the rest.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

import app
from chalicelib import wiring
from chalicelib.adapters.aws.client import Client
from chalicelib.domain.errors import Busy
from chalicelib.domain.exports.table_export import EXPORTS_VIEW, LedgerEntry, TableExport
from chalicelib.domain.views.record import MAX_CHARACTER
from chalicelib.lambda_events import exports

EVENTS = Path(__file__).parent.parent / "events"
BUCKET = "annals-exports"
LAKE = "annals-lake"
PERIOD = {"from": "2026-11-01", "to": "2026-11-16"}
Function = Callable[[dict[str, Any], object], None]
EXPORT: Function = app.export
EXPORTED: Function = app.exported
REPORTED: Function = app.reported
SCHEDULED: dict[str, Any] = json.loads((EVENTS / "scheduled_event.json").read_text())
CONTEXT = None


class Glue(ThreadingHTTPServer):
    """Records requests, and starts a run unless one is active."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _GlueHandler)
        self.requested: list[dict[str, Any]] = []
        self.is_running = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _GlueHandler(BaseHTTPRequestHandler):
    server: Glue

    def do_POST(self) -> None:
        assert self.headers["X-Amz-Target"] == "AWSGlue.StartJobRun"
        requested = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = 400, {"__type": "ConcurrentRunsExceededException", "Message": "1 run is active"}
        if not self.server.is_running:
            self.server.requested.append(requested)
            status, answer = 200, {"JobRunId": f"jr_{len(self.server.requested)}"}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the parent's name)
        pass


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Glue]:
    with Glue() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", server.url)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def components(
    monkeypatch: pytest.MonkeyPatch,
    ministack: str,
    ministack_client: Client,
    ministack_tables: tuple[str, str],
    glue: Glue,  # noqa: ARG001
) -> Iterator[wiring.Components]:
    """Components of a function, with the organizations acme (1) and other (2)."""
    log_table, views_table = ministack_tables
    recovery = {"PointInTimeRecoveryEnabled": True}
    backup_settings = {"TableName": log_table, "PointInTimeRecoverySpecification": recovery}
    ministack_client.call("UpdateContinuousBackups", backup_settings)
    for name, value in {
        "AWS_ENDPOINT_URL": ministack,
        "STORE": "dynamodb",
        "LOG_TABLE": log_table,
        "VIEWS_TABLE": views_table,
        "LOG_TABLE_ARN": ministack_client.call("DescribeTable", {"TableName": log_table})["Table"]["TableArn"],
        "EXPORT_BUCKET": BUCKET,
        "EXPORT_PREFIX": "log of/2026",
        "LAKE_URL": f"s3://{LAKE}/lake",
        "REPORT_URL": "https://reports.example.org/report-{server}.html",
    }.items():
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3")
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=LAKE, CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
    wiring.get_components.cache_clear()
    components = wiring.get_components()
    for name in ("acme", "other"):
        components.log.organizations.create(name)
    yield components
    wiring.get_components.cache_clear()


def payload(name: str) -> dict[str, Any]:
    """A recorded Lambda event."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


def ledger(components: wiring.Components) -> list[TableExport]:
    return [
        LedgerEntry.from_record(record).export
        for record in components.stores.views.range(EXPORTS_VIEW, "", MAX_CHARACTER)
    ]


def summary_arrived(export_id: str) -> dict[str, Any]:
    """The S3 event for the summary of an export."""
    event = payload("s3_manifest_summary")
    event["Records"][0]["s3"]["object"]["key"] = f"log+of/2026/AWSDynamoDB/{export_id}/manifest-summary.json"
    return event


def test_export_repeated_starts_one_full_export(components: wiring.Components, ministack_client: Client) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    EXPORT(SCHEDULED, CONTEXT)
    (export,) = ledger(components)
    requested = ministack_client.call("DescribeExport", {"ExportArn": export.arn})["ExportDescription"]
    assert (export.kind, export.begin_s, requested["S3Bucket"], requested["S3Prefix"]) == (
        "FULL_EXPORT",
        0,
        BUCKET,
        "log of/2026",
    )
    assert (requested["ExportType"], requested["ExportFormat"]) == ("FULL_EXPORT", "DYNAMODB_JSON")


def test_exported_repeated_summary_starts_history_job_once(components: wiring.Components, glue: Glue) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    (export,) = ledger(components)
    for _ in range(2):
        EXPORTED(summary_arrived(export.id), CONTEXT)
    arguments = {"--exports": f"s3://{BUCKET}/log of/2026", "--lake": f"s3://{LAKE}/lake"}
    assert glue.requested == [{"JobName": "annals-history", "Arguments": arguments}]
    (loaded,) = ledger(components)
    assert (loaded.state, loaded.run) == ("loaded", "jr_1")


def test_exported_while_history_job_runs_raises_busy(components: wiring.Components, glue: Glue) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    (export,) = ledger(components)
    glue.is_running = True
    with pytest.raises(Busy, match="the history job is running"):
        EXPORTED(summary_arrived(export.id), CONTEXT)
    glue.is_running = False
    EXPORTED(summary_arrived(export.id), CONTEXT)
    assert (len(glue.requested), ledger(components)[0].state) == (1, "loaded")


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "TIMEOUT", "STOPPED"])
def test_exported_at_end_of_history_job_loads_waiting(state: str, components: wiring.Components, glue: Glue) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    (export,) = ledger(components)
    glue.is_running = True
    with pytest.raises(Busy):
        EXPORTED(summary_arrived(export.id), CONTEXT)
    glue.is_running = False
    event = payload("glue_job_state_change")
    event["detail"] |= {"jobName": "annals-history", "state": state}
    EXPORTED(event, CONTEXT)
    assert (len(glue.requested), ledger(components)[0].state) == (1, "loaded")


def test_exported_writes_names_of_organizations_to_lake(components: wiring.Components) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    (export,) = ledger(components)
    EXPORTED(summary_arrived(export.id), CONTEXT)
    with boto3.client("s3").get_object(Bucket=LAKE, Key="lake/_organizations.json")["Body"] as names:
        assert json.loads(names.read()) == {"1": "acme", "2": "other"}


def test_exported_unknown_export_starts_nothing(components: wiring.Components, glue: Glue) -> None:
    EXPORT(SCHEDULED, CONTEXT)
    EXPORTED(payload("s3_manifest_summary"), CONTEXT)
    assert (glue.requested, len(ledger(components))) == ([], 1)


def record_new_pages(*servers: int) -> None:
    """The list of new pages, as the reports job writes it."""
    pages = {"pages": [{"server": server, "period": PERIOD} for server in servers]}
    run = payload("glue_job_state_change")["detail"]["jobRunId"]
    boto3.client("s3").put_object(Bucket=LAKE, Key=f"lake/_new_pages/{run}.json", Body=json.dumps(pages).encode())


def test_reported_repeated_publishes_one_event_per_log(components: wiring.Components) -> None:
    record_new_pages(1, 2)
    for _ in range(2):
        REPORTED(payload("glue_job_state_change"), CONTEXT)
    for server in (1, 2):
        (commit,) = components.stores.log.read(server, 0)
        (event,) = commit.events
        assert (event.fields.type, event.fields.key) == (("report", "ready", "report"), "/report/report")
        assert event.fields.payload["data"] == {
            "name": "report",
            "link": f"https://reports.example.org/report-{server}.html",
            "period": PERIOD,
        }


def test_reported_publishes_only_where_a_page_is_new(components: wiring.Components) -> None:
    record_new_pages(2)
    REPORTED(payload("glue_job_state_change"), CONTEXT)
    assert [components.stores.log.head(server).session for server in (1, 2)] == [0, 1]


@pytest.mark.parametrize("change", [{"state": "FAILED"}, {"jobName": "annals-history"}, {"jobRunId": None}])
def test_reported_other_job_events_publish_nothing(change: dict[str, Any], components: wiring.Components) -> None:
    event = payload("glue_job_state_change")
    event["detail"] |= change
    REPORTED(event, CONTEXT)
    assert components.stores.log.head(1).session == 0


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
def test_complete_export_ids_needs_key_of_summary(key: str, ids: list[str]) -> None:
    event = payload("s3_manifest_summary")
    event["Records"][0]["s3"]["object"]["key"] = key
    assert exports.complete_export_ids(event) == ids


def test_complete_export_ids_without_records_is_empty() -> None:
    assert exports.complete_export_ids({"Service": "Amazon S3", "Event": "s3:TestEvent"}) == []
