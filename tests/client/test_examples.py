"""The programs in examples/ work."""

import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

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


@pytest.mark.parametrize("code", [0, 7])
@pytest.mark.parametrize("example", ["crontab", "backup.service", "github-actions.yaml", "kubernetes-cronjob.yaml"])
def test_example_of_annals_run_reports_the_job(
    example: str, code: int, shell: Shell, member: Member, tmp_path: Path
) -> None:
    program = tmp_path / "backup-orders"
    program.write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    program.chmod(0o755)
    environment = {**shell.environment, "PATH": f"{tmp_path}:{shell.environment['PATH']}"}
    done = _run(Shell({**environment, "XDG_STATE_HOME": str(tmp_path)}), *_annals_run_command(EXAMPLES / example))
    assert (done.returncode, done.stdout, done.stderr) == (code, "--full\n", "")
    job = member.get("/objects/job/1").json()
    assert (job["type"], job["result"]) == ("backup", {"success": str(int(code == 0)), "message": f"exit code {code}"})
    assert [line["message"] for line in job["logs"]] == ["--full"]


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


def _annals_run_command(example: Path) -> list[str]:
    """The command that an example runs."""
    text = example.read_text()
    match example.suffix, yaml.safe_load(text) if example.suffix == ".yaml" else None:
        case _, {"jobs": {"backup": {"steps": [*_, {"run": command}]}}}:
            return shlex.split(command)
        case _, {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"command": command}]}}}}}}:
            return list(command)
        case ".service", _:
            [command] = [line for line in text.splitlines() if line.startswith("ExecStart=")]
            return shlex.split(command.removeprefix("ExecStart="))
        case _:
            [command] = [line for line in text.splitlines() if line.startswith("0 3 ")]
            return shlex.split(command)[5:]


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
