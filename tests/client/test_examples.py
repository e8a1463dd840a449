"""The programs in examples/ work."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from examples import lambda_function
from tests.client.shell import Shell
from tests.serving import ROOT, TIMEOUT_S, Member

EXAMPLES = ROOT / "examples"


def test_lambda_repeated_notification_publishes_once(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANNALS_URL", member.server.url)
    monkeypatch.setenv("ANNALS_TOKEN", member.token)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    notification = {"Records": [_record("in/a+b.csv", "0055"), _record("in/c.csv", "0056")]}
    responses = [lambda_function.handler(notification, None) for _ in range(2)]
    lambda_function._annals().close()
    lambda_function._annals.cache_clear()
    stored = member.read_log()["events"]
    assert [(event["type"], event["key"]) for event in stored] == [
        (["file", "arrived", "inbox"], "/inbox/in/a b.csv"),
        (["file", "arrived", "inbox"], "/inbox/in/c.csv"),
    ]
    assert responses == [{"eventId": stored[-1]["eventId"]}] * 2
    assert stored[0]["sourceTimestamp"] == "2026-11-04T11:07:36.606000Z"


@pytest.mark.parametrize(("command", "code", "state"), [("true", 0, "finished"), ("exit 7", 7, "failed")])
def test_cron_job_publishes_result_of_command(
    command: str, code: int, state: str, shell: Shell, member: Member
) -> None:
    done = _run(shell, str(EXAMPLES / "cron-job.sh"), "backup", "bash", "-c", command)
    events = member.read_log()["events"]
    assert (done.returncode, done.stderr) == (code, "")
    assert [event["type"] for event in events] == [["cron", "started", "backup"], ["cron", state, "backup"]]
    assert events[1]["payload"]["data"]["code"] == code


def test_cron_job_without_token_runs_command(shell: Shell, tmp_path: Path) -> None:
    without_token = Shell({**shell.environment, "ANNALS_TOKEN": ""})
    assert _run(without_token, str(EXAMPLES / "cron-job.sh"), "backup", "touch", str(tmp_path / "done")).returncode == 0
    assert (tmp_path / "done").exists()


def test_runners_concurrent_run_each_push_once(shell: Shell, member: Member) -> None:
    for revision in ("4f2a", "77c0"):
        shell.annals("publish", "git/push", "--key", "/repo/web", "--data", f'{{"revision": "{revision}"}}')
    command = [sys.executable, str(EXAMPLES / "runner.py"), str(EXAMPLES / "workflow.toml"), "--no-wait", "--node"]
    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(lambda node: _run(shell, *command, node), ["n1", "n2"]))
    assert [(done.returncode, done.stderr) for done in runs] == [(0, ""), (0, "")]
    jobs = member.get("/objects/job").json()["elements"]
    assert sorted((job["type"], job["result"]["success"], job["result"]["message"]) for job in jobs) == sorted(
        [
            ("test", "1", "done"),
            ("package", "1", "done"),
            ("deploy", "0", "false exited with 1"),
            ("announce", "0", "needs deploy"),
        ]
        * 2
    )
    job_sets = member.get("/objects/jobset").json()["elements"]
    assert [job_set["state"] for job_set in job_sets] == ["finished"] * 2
    logs = [
        event["payload"]["data"]["log"]["message"]
        for event in member.read_log()["events"]
        if "progress" in event["type"]
    ]
    assert sorted(log for log in logs if "testing" in log) == [
        f"$ echo testing $REVISION\ntesting {revision}\n" for revision in ("4f2a", "77c0")
    ]


def _run(shell: Shell, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=ROOT,
        env=dict(shell.environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S * 4,
    )


def _record(key: str, sequencer: str) -> dict[str, Any]:
    """A record of an S3 notification, with the fields that the example reads."""
    file = {"key": key, "size": 1024, "eTag": "d41d8cd98f00b204e9800998ecf8427e", "sequencer": sequencer}
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventTime": "2026-11-04T11:07:36.606Z",
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "inbox", "arn": "arn:aws:s3:::inbox"}, "object": file},
    }
