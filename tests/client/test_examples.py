"""The examples do what they say."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from examples import lambda_function
from tests.client.shell import Shell
from tests.serving import PATIENCE_S, ROOT, Member

EXAMPLES = ROOT / "examples"


def test_the_lambda_publishes_what_arrived_once(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANNALS_URL", member.server.url)
    monkeypatch.setenv("ANNALS_TOKEN", member.token)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    notification = {"Records": [_record("in/a+b.csv", "0055"), _record("in/c.csv", "0056")]}
    answers = [lambda_function.handler(notification, None) for _ in range(2)]
    lambda_function._annals().close()
    lambda_function._annals.cache_clear()
    stored = member.stored()["events"]
    assert [(event["type"], event["key"]) for event in stored] == [
        (["file", "arrived", "inbox"], "/inbox/in/a b.csv"),
        (["file", "arrived", "inbox"], "/inbox/in/c.csv"),
    ]
    assert answers == [{"eventId": stored[-1]["eventId"]}] * 2
    assert stored[0]["sourceTimestamp"] == "2026-11-04T11:07:36.606000Z"


@pytest.mark.parametrize(("command", "code", "state"), [("true", 0, "finished"), ("exit 7", 7, "failed")])
def test_the_cron_job_tells_how_its_command_ended(
    command: str, code: int, state: str, shell: Shell, member: Member
) -> None:
    done = _run(shell, str(EXAMPLES / "cron-job.sh"), "backup", "bash", "-c", command)
    events = member.stored()["events"]
    assert (done.returncode, done.stderr) == (code, "")
    assert [event["type"] for event in events] == [["cron", "started", "backup"], ["cron", state, "backup"]]
    assert events[1]["payload"]["data"]["code"] == code


def test_the_cron_job_runs_its_command_also_without_annals(shell: Shell, tmp_path: Path) -> None:
    lost = Shell({**shell.environment, "ANNALS_TOKEN": ""})
    assert _run(lost, str(EXAMPLES / "cron-job.sh"), "backup", "touch", str(tmp_path / "done")).returncode == 0
    assert (tmp_path / "done").exists()


def test_runners_share_the_work(shell: Shell, member: Member) -> None:
    for revision in ("4f2a", "77c0"):
        shell.annals("publish", "git/push", "--key", "/repo/web", "--data", f'{{"revision": "{revision}"}}')
    command = [sys.executable, str(EXAMPLES / "runner.py"), str(EXAMPLES / "workflow.toml"), "--no-wait", "--node"]
    with ThreadPoolExecutor(2) as threads:
        ran = list(threads.map(lambda node: _run(shell, *command, node), ["n1", "n2"]))
    assert [(done.returncode, done.stderr) for done in ran] == [(0, ""), (0, "")]
    jobs = member.get("/objects/job").json()["elements"]
    assert sorted((job["type"], job["result"]["success"], job["result"]["message"]) for job in jobs) == sorted(
        [
            ("test", "1", "done"),
            ("package", "1", "done"),
            ("deploy", "0", "false ended with 1"),
            ("announce", "0", "needs deploy"),
        ]
        * 2
    )
    sets = member.get("/objects/jobset").json()["elements"]
    assert [one["state"] for one in sets] == ["finished"] * 2
    logs = [
        event["payload"]["data"]["log"]["message"] for event in member.stored()["events"] if "progress" in event["type"]
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
        timeout=PATIENCE_S * 4,
    )


def _record(key: str, sequencer: str) -> dict[str, Any]:
    """As S3 sends it, but for what nobody reads here."""
    file = {"key": key, "size": 1024, "eTag": "d41d8cd98f00b204e9800998ecf8427e", "sequencer": sequencer}
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventTime": "2026-11-04T11:07:36.606Z",
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "inbox", "arn": "arn:aws:s3:::inbox"}, "object": file},
    }
