"""Exports, history, tables and pages in S3, with real Spark and the S3 of ministack."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from chalicelib.domain.vocabularies import VOCABULARIES
from chalicelib.settings import Settings
from chalicelib.wiring import build_local
from infra.server.commands.export import export
from infra.server.commands.export_folder import ExportFolder
from infra.server.commands.report import ROOT, SPARK
from tests.torture.stores import REGION

BUCKET = "annals-test-lake"
NUMBER = 20


@pytest.fixture
def s3(ministack: str, aws_environment: None) -> Iterator[Any]:  # noqa: ARG001
    client = boto3.client("s3", endpoint_url=ministack, region_name=REGION)
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    yield client
    client.close()


def test_history_and_reports_are_written_to_s3(s3: Any, ministack: str, tmp_path: Path) -> None:
    for file in _export_jobs(tmp_path).rglob("*"):
        if file.is_file():
            s3.put_object(Bucket=BUCKET, Key=f"some/prefix/{file.relative_to(tmp_path)}", Body=file.read_bytes())
    _run(ministack, "history", "--exports", f"s3://{BUCKET}/some/prefix/exports", "--lake", f"s3://{BUCKET}/lake")
    _run(ministack, "reports", "--lake", f"s3://{BUCKET}/lake", "--names", '{"1": "acme"}')
    page = s3.get_object(Bucket=BUCKET, Key="lake/reports/report-1.html")["Body"].read().decode()
    assert "<title>" in page
    assert "acme" in page
    keys = _keys(s3)
    folders = {key.split("/")[2] for key in keys if key.startswith("lake/reports/") and key.endswith(".parquet")}
    assert {"job_runs", "job_statistics", "throughput", "slowest"} <= folders
    again = _run(
        ministack, "history", "--exports", f"s3://{BUCKET}/some/prefix/exports", "--lake", f"s3://{BUCKET}/lake"
    )
    assert again == "No new exports.\n"
    assert _keys(s3) == keys


def _export_jobs(folder: Path) -> Path:
    """Export some jobs of an organization."""
    components = build_local(Settings.from_environment({"DATA_DIR": str(folder / "data")}))
    components.log.organizations.create("acme")
    new_event = VOCABULARIES["job"].new_event
    for number in range(1, NUMBER + 1):
        events = [{"event": name, "id": number, "node": "n1", "type": "backup"} for name in ("create", "finish")]
        events[1] |= {"success": "1", "message": ""}
        for event in events:
            components.log.publisher.publish(1, [new_event(event)])
    export(components, ExportFolder(folder / "exports", components.clock))
    components.close()
    return folder / "exports"


def _run(endpoint: str, job: str, *arguments: str) -> str:
    environment = {**os.environ, "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": REGION}
    command = [str(SPARK), "-m", f"glue_jobs.{job}", *arguments]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def _keys(s3: Any) -> set[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="lake/")
    found = {one["Key"] for page in pages for one in page.get("Contents", [])}
    return {key for key in found if not key.endswith("/")}  # others only mark directories
